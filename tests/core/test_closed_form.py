"""Closed-form classifiers against scikit-learn, and the arithmetic of statistics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from torch import Tensor

from upcl.core.closed_form import Linear, Statistics, discriminant, nearest_mean, ridge, row_space


def clouds(num_classes: int = 4, num: int = 30, dim: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_classes).repeat_interleave(num)
    centres = torch.randn(num_classes, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), dim, generator=generator, dtype=torch.float64)
    return centres[labels] + noise @ torch.randn(dim, dim, generator=generator, dtype=torch.float64), labels


@pytest.mark.parametrize("strength", [0.001, 0.1, 2.0])
def test_discriminant_equals_a_plain_solve(strength: float) -> None:
    features, labels = clouds()
    weight, bias = discriminant(Statistics.of(features, labels, 4), strength)
    within = np.mean([np.cov(features[labels == k].numpy().T, bias=True) for k in range(4)], axis=0)
    shrunk = within + strength * np.trace(within) * np.eye(6)
    means = np.stack([features[labels == k].numpy().mean(0) for k in range(4)])
    assert np.allclose(weight.numpy(), np.linalg.solve(shrunk, means.T).T)
    assert np.allclose(bias.numpy(), -np.einsum("cd,cd->c", means @ np.linalg.inv(shrunk), means) / 2)


def test_discriminant_without_shrinkage_predicts_as_scikit_learn() -> None:
    features, labels = clouds()
    weight, bias = discriminant(Statistics.of(features, labels, 4), strength=0.0)
    reference = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.25] * 4).fit(features.numpy(), labels.numpy())
    predictions = (features @ weight.T + bias).argmax(1).numpy()
    assert (predictions == reference.predict(features.numpy())).all()


@pytest.mark.parametrize("solve", [discriminant, ridge])
def test_few_features_in_the_space_that_they_span_give_the_same_scores(solve: Callable[..., Linear]) -> None:
    features, labels = clouds(num=3, dim=40)
    small = row_space(features)
    assert small.shape == (12, 12)
    scores = []
    for rows in (features, small):
        weight, bias = solve(Statistics.of(rows, labels, 4), 0.01)
        scores.append(rows @ weight.T + bias)
    assert torch.allclose(scores[0], scores[1])
    assert row_space(features.T).shape == (40, 12)


@pytest.mark.parametrize("strength", [0.001, 0.5, 20.0])
def test_ridge_equals_scikit_learn(strength: float) -> None:
    features, labels = clouds()
    weight, bias = ridge(Statistics.of(features, labels, 4), strength)
    centred = features - features.mean(0)
    penalty = strength * float((centred**2).sum())
    reference = Ridge(alpha=penalty, solver="cholesky").fit(features.numpy(), np.eye(4)[labels.numpy()])
    assert np.allclose(weight.numpy(), reference.coef_) and np.allclose(bias.numpy(), reference.intercept_)


def test_nearest_mean_equals_scikit_learn_on_the_sphere() -> None:
    features, labels = clouds()
    unit = torch.nn.functional.normalize(features)
    weight, bias = nearest_mean(Statistics.of(unit, labels, 4))
    means = NearestCentroid().fit(unit.numpy(), labels.numpy()).centroids_
    assert np.allclose(weight.numpy(), means / np.linalg.norm(means, axis=1, keepdims=True))
    assert not bias.any()


@given(cut=st.integers(0, 120), order=st.permutations(range(4)))
def test_statistics_add_up_whatever_the_order_and_the_split(cut: int, order: list[int]) -> None:
    features, labels = clouds()
    total = Statistics.of(features, labels, 4)
    shuffled = torch.cat([(labels == k).nonzero()[:, 0] for k in order])
    first, second = shuffled[:cut], shuffled[cut:]
    parts = [Statistics.of(features[part], labels[part], 4) for part in (first, second)]
    for name in ("gram", "sums", "counts"):
        assert torch.allclose(getattr(parts[0] + parts[1], name), getattr(total, name))
        assert torch.allclose(getattr(total - parts[1], name), getattr(parts[0], name), atol=1e-9)


def test_classes_without_images_and_a_single_image_are_no_error() -> None:
    features = torch.tensor([[0.6, 0.8]])
    statistics = Statistics.of(features, torch.tensor([1]), 3)
    for weight, bias in (nearest_mean(statistics), discriminant(statistics, 0.1), ridge(statistics, 0.1)):
        assert weight.shape == (3, 2) and torch.isfinite(weight).all() and torch.isfinite(bias).all()
