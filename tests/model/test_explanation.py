"""Where in a photo an answer comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.model.feature_models import grow, spec
from upcl.core.errors import UserError
from upcl.data.io.images import BrokenImageError
from upcl.model.explanation import Explanation, explain
from upcl.model.file import save
from upcl.model.learner import Learner
from upcl.model.predictor import Predictor

PHOTO = np.random.default_rng(0).integers(0, 256, (40, 32, 3), dtype=np.uint8)


def make_predictor(path: Path, method: str) -> Predictor:
    save(grow(None, {"ant": range(6), "bull": range(6), "cat": range(6)}, made_with=spec(method)), path)
    return Learner(path, device="cpu").predictor


@pytest.mark.parametrize("method", ["ncm", "slda", "ridge"])
def test_the_evidence_of_linear_classifiers_adds_up_to_the_score(method: str, tmp_path: Path) -> None:
    predictor = make_predictor(tmp_path / "m.upcl", method)
    for name in (None, "bull"):
        found = explain(predictor, PHOTO, name)
        scores = predictor.predict(found.image[None]).scores["head"][0] - predictor.method.net.head.bias
        label = predictor.state.class_names.index(found.name)
        assert found.exact and found.evidence.shape == (8, 8)
        assert float(found.evidence.mean()) == pytest.approx(float(scores[label] - scores.mean()), abs=1e-5)
    assert found.name == "bull"


def test_removed_classes_do_not_count(tmp_path: Path) -> None:
    make_predictor(tmp_path / "m.upcl", "ridge")
    predictor = Learner(tmp_path / "m.upcl", device="cpu").forget("ant").predictor
    found = explain(predictor, PHOTO, "cat")
    scores = (predictor.predict(found.image[None]).scores["head"][0] - predictor.method.net.head.bias)[1:]
    assert float(found.evidence.mean()) == pytest.approx(float(scores[1] - scores.mean()), abs=1e-5)


def test_other_classifiers_are_approximated_by_their_gradient(model_file: Path, tmp_path: Path) -> None:
    for predictor in (make_predictor(tmp_path / "m.upcl", "ranpac"), Learner(model_file, device="cpu").predictor):
        found = explain(predictor, PHOTO)
        assert not found.exact and found.evidence.isfinite().all() and found.evidence.abs().max() > 0
        assert found.confidence == pytest.approx(float(predictor.predict(found.image[None]).confidence.max()))


def test_the_picture_is_brightest_where_the_evidence_is() -> None:
    evidence = torch.zeros(4, 4)
    evidence[0, 3], evidence[3, 0] = 1.0, -1.0
    grey = torch.full((1, 32, 32), 100, dtype=torch.uint8)
    picture = np.asarray(Explanation("cat", 0.9, evidence, exact=True, image=grey).picture()).astype(int)
    corners = {(row, column): picture[row, column].sum() for row in (30, -30) for column in (30, -30)}
    assert max(corners, key=lambda corner: corners[corner]) == (30, -30)
    assert corners[-30, 30] == pytest.approx(corners[-30, -30], abs=3) == 105  # what speaks against it is only dimmed


def test_mistakes_are_named(tmp_path: Path) -> None:
    predictor = make_predictor(tmp_path / "m.upcl", "ridge")
    with pytest.raises(UserError, match="unknown class 'bul': did you mean bull"):
        explain(predictor, PHOTO, "bul")
    with pytest.raises(BrokenImageError):
        explain(predictor, b"no image")
    predictor.method.net.backbone = torch.nn.Identity()  # type: ignore[assignment]
    with pytest.raises(UserError, match="has no map of places"):
        explain(predictor, PHOTO)
