"""How much photos resemble what was learned: the formula, unknown classes, folds, and what a model stores."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.model.feature_models import CPU, DIM, NAMES, feature, grow, spec
from upcl.core.types import NO_SAMPLES, Samples
from upcl.model import familiarity
from upcl.model.editing import merge_classes
from upcl.model.familiarity import (
    CENTRING,
    MAX_PHOTOS,
    PREFIX,
    SHRINKAGE,
    Familiarity,
    cross_validated_familiarity,
    fit_familiarity,
    left_out_auroc,
)
from upcl.model.file import load, save
from upcl.model.predictor import Predictor
from upcl.model.spec import make_method, restore_state


def clouds(num_classes: int, per_class: int, dim: int, seed: int = 0) -> Samples:
    """Classes around random directions; all vary along the same ten axes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(num_classes, dim, generator=torch.Generator().manual_seed(1))
    axes = torch.randn(10, dim, generator=torch.Generator().manual_seed(2)) / dim**0.5
    labels = torch.arange(num_classes).repeat_interleave(per_class)
    noise = 2 * torch.randn(len(labels), 10, generator=generator) @ axes
    small = 0.1 * torch.randn(len(labels), dim, generator=generator)
    return Samples(centres[labels] + noise + small, labels)


@pytest.mark.parametrize("dim", [12, 300])  # more photos than dimensions, and fewer
def test_it_is_the_cosine_after_whitening_by_the_covariance_within_classes(dim: int) -> None:
    samples, queries = clouds(6, 10, dim), clouds(9, 3, dim, seed=5).inputs
    unit = F.normalize(samples.inputs).double()
    means = torch.stack([unit[samples.labels == label].mean(0) for label in range(6)])
    residuals = unit - means[samples.labels]
    within = residuals.T @ residuals / len(unit)
    values, vectors = torch.linalg.eigh(within + SHRINKAGE * within.trace() * torch.eye(dim))
    root = vectors @ torch.diag(values**-0.5) @ vectors.T
    centre = CENTRING * unit.mean(0)
    expected = F.normalize((F.normalize(queries).double() - centre) @ root) @ F.normalize((means - centre) @ root).T
    found = Familiarity(fit_familiarity(samples, num_labels=6))(queries)
    assert torch.allclose(found, expected.float(), atol=1e-4)


def test_it_separates_unknown_classes_better_than_plain_cosines() -> None:
    samples, everything = clouds(8, 30, 64), clouds(16, 30, 64, seed=7)
    known = everything.labels < 8
    scores = Familiarity(fit_familiarity(samples, num_labels=8))(everything.inputs).max(1).values
    means = torch.stack([F.normalize(samples.inputs)[samples.labels == label].mean(0) for label in range(8)])
    plain = (F.normalize(everything.inputs) @ F.normalize(means).T).max(1).values

    def area(values: torch.Tensor) -> float:
        return float((values[known][:, None] > values[~known]).float().mean())

    assert area(scores) > area(plain) + 0.01


def test_classes_without_photos_and_photos_without_spread() -> None:
    one_each = Samples(torch.eye(4)[:3], torch.tensor([0, 1, 3]))
    cosines = Familiarity(fit_familiarity(one_each, num_labels=4))(torch.eye(4))
    assert (cosines[:, 2] == -1).all() and cosines.isfinite().all()
    assert torch.allclose(cosines[[0, 1, 2], [0, 1, 3]], torch.ones(3), atol=1e-5)
    single = Samples(torch.tensor([[1.0, 0.1], [1.0, -0.1]]), torch.tensor([0, 0]))
    familiar, strange = Familiarity(fit_familiarity(single, num_labels=1))(torch.eye(2))[:, 0]
    assert familiar > 0.99 > strange


def test_many_photos_are_measured_in_part() -> None:
    samples = clouds(4, MAX_PHOTOS // 2, 8)
    found = cross_validated_familiarity(samples, 4, fit_familiarity(samples, 4))
    assert 400 <= len(found) <= MAX_PHOTOS


def test_cross_validation_predicts_the_familiarity_of_new_photos() -> None:
    samples, new = clouds(5, 40, 64), clouds(5, 40, 64, seed=9)
    expected = cross_validated_familiarity(samples, 5, fit_familiarity(samples, 5))
    found = Familiarity(fit_familiarity(samples, num_labels=5))(new.inputs).max(1).values
    assert abs(float(found.mean() - expected.mean())) < 0.03 and len(expected) == len(samples)
    single = Samples(torch.eye(3), torch.arange(3))
    assert not len(cross_validated_familiarity(single, 3, fit_familiarity(single, 3)))


def test_many_photos_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = clouds(5, 4, 16)
    cosines = Familiarity(fit_familiarity(samples, 5))
    expected, compare, sizes = cosines(samples.inputs).max(1).values, cosines.forward, []

    def counted(features: torch.Tensor) -> torch.Tensor:
        sizes.append(5 * len(features))
        return compare(features)

    monkeypatch.setattr(familiarity, "MAX_COSINES", 40)
    monkeypatch.setattr(cosines, "forward", counted)
    assert torch.allclose(cosines.nearest(samples.inputs), expected)
    assert sizes == [40, 40, 20]


def test_the_area_needs_three_classes_and_held_out_photos() -> None:
    samples = clouds(3, 10, 32)
    names, fitted = dict(enumerate(NAMES[:3])), fit_familiarity(samples, 3)
    area = left_out_auroc(samples, samples, names, fitted)
    assert area and area > 0.9
    assert left_out_auroc(samples, samples, {0: "a", 1: "b"}, fitted) is None
    assert left_out_auroc(samples, NO_SAMPLES, names, fitted) is None


def test_many_photos_share_their_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, held_out, names = clouds(6, 40, 32), clouds(6, 10, 32, seed=3), dict(enumerate("abcdef"))
    fitted = fit_familiarity(samples, 6)
    exact = left_out_auroc(samples, held_out, names, fitted), cross_validated_familiarity(samples, 6, fitted)
    monkeypatch.setattr(familiarity, "MANY_PHOTOS", 100)
    shared = left_out_auroc(samples, held_out, names, fitted), cross_validated_familiarity(samples, 6, fitted)
    assert exact[0] and shared[0] and abs(exact[0] - shared[0]) < 0.05
    assert abs(float(exact[1].mean() - shared[1].mean())) < 0.02 and not torch.equal(exact[1], shared[1])


def test_a_model_stores_it_and_computes_it_again_when_classes_change(tmp_path: Path) -> None:
    lot = {name: range(8) for name in NAMES[:3]}
    bundle = grow(None, lot, {name: range(8, 12) for name in NAMES[:3]}, spec("ncm"))
    save(bundle, tmp_path / "model.upcl")
    state = load(tmp_path / "model.upcl").state
    assert state.calibration.auroc and state.calibration.auroc > 0.9
    method = make_method(bundle.spec, len(state.classes), CPU)
    restore_state(method, state)
    predictor = Predictor(method, bundle.spec, state)
    stranger = torch.rand(1, DIM, generator=torch.Generator().manual_seed(0))
    found = predictor.predict(torch.cat([feature("ant", 20)[None], stranger.half()]))
    assert found.known.tolist() == [True, False]
    merged = merge_classes(bundle, NAMES[0], NAMES[1], CPU).state
    assert not merged.weights[f"{PREFIX}means"][0].any() and state.weights[f"{PREFIX}means"][0].any()
