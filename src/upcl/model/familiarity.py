"""How much an image resembles anything learned: the cosine to the nearest class, where directions in which the photos
of a class differ from each other count less.

Features are centred in part and whitened by the covariance within classes; its few large eigenvalues are all that
matters. On classes that were left out, this separates known from unknown photos better than plain cosines, nearest
neighbours, distances or scores of classifiers do (`benchmarks/unknown.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from upcl.core.closed_form import CHUNK, Statistics, class_ranks, class_sums
from upcl.core.types import Samples

PREFIX = "familiarity."
SHRINKAGE = 0.01  # of the covariance within classes, relative to its trace
CENTRING = 0.7  # part of the mean of all photos that is subtracted
MAX_RANK = 100  # at most so many eigenvalues can be larger than the shrinkage
MAX_PHOTOS = 5000  # that the covariance is estimated from, and that folds and left-out classes are measured on
MAX_COSINES = 2**23  # that are computed at a time
MANY_PHOTOS = 1500  # their spread is that of any part of them: at 2,000, false alarms of 4.8 instead of 4.6 %
NUM_FOLDS = 5
ENOUGH = 400  # photos: no further fold is needed once so many were measured
Spread = tuple[Tensor, Tensor]
"""Axes along which the photos of a class differ most (d x rank), and the share of each that whitening takes away."""


class Familiarity(nn.Module):
    """Cosines between images and classes, in a whitened space.

    Args:
        tensors: what `fit_familiarity` returned.

    Example:
        >>> features = torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]])
        >>> samples = Samples(features, torch.tensor([0, 0, 1, 1]))
        >>> familiarity = Familiarity(fit_familiarity(samples, num_labels=2))
        >>> familiarity(torch.tensor([[2.0, 0.0]])).argmax(1).tolist()
        [0]
    """

    centre: Tensor
    basis: Tensor
    scales: Tensor
    means: Tensor
    without_mean: Tensor

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name in ("centre", "basis", "scales", "means"):
            self.register_buffer(name, tensors[PREFIX + name].float())
        self.register_buffer("without_mean", self.means.norm(dim=1) == 0)

    def forward(self, features: Tensor) -> Tensor:
        """Compare images with classes.

        Args:
            features: backbone features (N x d), of any length.

        Returns:
            Cosines (N x C); -1 for classes without photos.
        """
        whitened = _whiten(F.normalize(features), self.centre, self.basis, self.scales)
        return (F.normalize(whitened) @ self.means.T).masked_fill(self.without_mean, -1.0)

    def nearest(self, features: Tensor) -> Tensor:
        """The cosine of many images to their nearest class (N), without a table of all images and classes.

        Args:
            features: backbone features (N x d), of any length.
        """
        parts = features.split(max(1, min(CHUNK, MAX_COSINES // len(self.means))))
        return torch.cat([self(part.float()).max(1).values for part in parts])


def fit_familiarity(samples: Samples, num_labels: int, spread: Spread | None = None) -> dict[str, Tensor]:
    """Compute means and whitening from the features of all photos learned.

    Args:
        samples: features (N x d) with labels.
        num_labels: number of labels; some may have no photo.
        spread: how photos differ within classes; by default, as these photos do.

    Returns:
        Tensors by name, to be stored with the weights of a model.

    Example:
        >>> samples = Samples(torch.eye(4), torch.tensor([0, 0, 1, 1]))
        >>> sorted(fit_familiarity(samples, num_labels=2))
        ['familiarity.basis', 'familiarity.centre', 'familiarity.means', 'familiarity.scales']
    """
    features, labels = samples.inputs, samples.labels
    counts = torch.bincount(labels, minlength=num_labels).double()
    means = class_sums(features, labels, num_labels, unit=True) / counts.clamp(min=1)[:, None]
    if spread is None:
        some = _some(samples)
        spread = _principal_axes(F.normalize(some.inputs.float()).double() - means[some.labels])
    return _named_tensors(means, counts, spread)


def familiarity_of(statistics: Statistics) -> dict[str, Tensor]:
    """Compute means and whitening from sums over all photos, if their features are not kept.

    Args:
        statistics: of unit features.

    Returns:
        As `fit_familiarity`.

    Example:
        >>> samples = Samples(torch.eye(4), torch.tensor([0, 0, 1, 1]))
        >>> sums = familiarity_of(Statistics.of(samples.inputs, samples.labels, num_classes=2))
        >>> torch.allclose(sums["familiarity.means"], fit_familiarity(samples, 2)["familiarity.means"], atol=1e-5)
        True
    """
    gram, sums, counts = (value.cpu() for value in (statistics.gram, statistics.sums, statistics.counts))
    means = statistics.means.cpu()
    within = (gram - means.T @ sums) / counts.sum()
    values, basis = _largest(within, min(MAX_RANK, len(within)))
    return _named_tensors(means, counts, (basis, _axis_scales(values, float(within.trace()))))


def _named_tensors(means: Tensor, counts: Tensor, spread: Spread) -> dict[str, Tensor]:
    basis, scales = spread
    centre = CENTRING * (counts @ means) / counts.sum()
    directions = F.normalize(_whiten(means, centre, basis, scales)) * (counts > 0)[:, None]
    found = {"centre": centre, "basis": basis, "scales": scales, "means": directions}
    return {PREFIX + name: value.float() for name, value in found.items()}


def _whiten(features: Tensor, centre: Tensor, basis: Tensor, scales: Tensor) -> Tensor:
    """Multiply centred features by the inverse root of the shrunk covariance, up to a factor."""
    centred = features - centre
    return centred - (centred @ basis * scales) @ basis.T


def _principal_axes(residuals: Tensor) -> Spread:
    """How residuals (N x d) spread: the axes with the largest variance, and how much of each is taken away."""
    num, dim = residuals.shape
    rank = min(MAX_RANK, num, dim)
    if num >= dim:
        values, basis = _largest(residuals.T @ residuals / num, rank)
    else:  # the axes are in the span of the residuals
        values, vectors = _largest(residuals @ residuals.T / num, rank)
        basis = F.normalize(residuals.T @ vectors, dim=0)
    return basis, _axis_scales(values, float(residuals.square().sum(1).mean()))


def _axis_scales(values: Tensor, total: float) -> Tensor:
    """The share of each axis that whitening takes away, from its variance and the total variance."""
    shrinkage = max(SHRINKAGE * total, 1e-9)
    return 1 - (shrinkage / (values + shrinkage)).sqrt()


def _largest(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)  # SciPy finds some of them only, but its threads and torch's compete
    return values[-rank:].clamp(min=0), vectors[:, -rank:].contiguous()


def _some(samples: Samples) -> Samples:
    """About `MAX_PHOTOS` of many photos, spread over all classes, whatever the order of the classes."""
    return samples[class_ranks(samples.labels) % -(-max(len(samples), 1) // MAX_PHOTOS) == 0]


def without_familiarity(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the network alone.

    Args:
        weights: weights that a model stores.

    Example:
        >>> list(without_familiarity({"head.weight": torch.zeros(1), "familiarity.means": torch.zeros(1)}))
        ['head.weight']
    """
    return {name: value for name, value in weights.items() if not name.startswith(PREFIX)}


def cross_validated_familiarity(samples: Samples, num_labels: int, fitted: Mapping[str, Tensor]) -> Tensor:
    """The familiarity of photos by those learned in other folds: what new photos of known classes can be expected to
    have. Photos of classes without others are left out.

    Args:
        samples: features (N x d) with labels; equal labels are next to each other.
        num_labels: number of labels.
        fitted: what `fit_familiarity` computed from all of them.

    Returns:
        The familiarity of some photos, at least 400 of them if there are as many.

    Example:
        >>> samples = Samples(torch.rand(20, 8), torch.arange(2).repeat_interleave(10))
        >>> len(cross_validated_familiarity(samples, 2, fit_familiarity(samples, 2)))
        20
    """
    spread, folds = _shared_spread(samples, fitted), class_ranks(samples.labels) % NUM_FOLDS
    found = [torch.empty(0)]
    for fold in range(NUM_FOLDS):
        rest, chosen = samples[folds != fold], samples[folds == fold]
        chosen = chosen[torch.isin(chosen.labels, rest.labels)]
        if len(chosen):
            familiarity = Familiarity(fit_familiarity(rest, num_labels, spread))
            found.append(familiarity.nearest(_some(chosen).inputs))
        if sum(map(len, found)) >= ENOUGH:
            break
    return torch.cat(found)


def left_out_auroc(
    samples: Samples, held_out: Samples, names: Mapping[int, str], fitted: Mapping[str, Tensor]
) -> float | None:
    """Measure how well familiarity separates known from unknown photos: in turn, a fifth of the classes is left out,
    and their photos are compared with held-out photos of the others.

    Args:
        samples: features of photos learned from, with labels.
        held_out: features of held-out photos.
        names: names by label.
        fitted: what `fit_familiarity` computed from all photos learned from.

    Returns:
        The area under the ROC curve: 1 if every known photo is more familiar than every unknown one, 0.5 by chance;
        None with fewer than three classes, or without held-out photos.

    Example:
        >>> samples = Samples(torch.eye(3).repeat_interleave(4, 0), torch.arange(3).repeat_interleave(4))
        >>> left_out_auroc(samples, samples, {0: "ant", 1: "bee", 2: "cat"}, fit_familiarity(samples, 3))
        1.0
    """
    labels = sorted(names, key=lambda label: names[label])
    if len(labels) < 3 or not len(held_out):
        return None
    groups = torch.full((max(labels) + 1,), -1)
    groups[labels] = torch.arange(len(labels)) % min(NUM_FOLDS, len(labels))
    spread = _shared_spread(samples, fitted)
    areas = []
    for group in range(int(groups.max()) + 1 if spread is None else 1):  # many photos: one fifth is enough
        learned, known = (part[groups[part.labels] != group] for part in (samples, held_out))
        unknown = samples[groups[samples.labels] == group]
        known, unknown = _some(known), _some(unknown)
        if len(known) and len(unknown):
            familiarity = Familiarity(fit_familiarity(learned, len(groups), spread))
            scores = [familiarity.nearest(part.inputs) for part in (known, unknown)]
            is_known = np.repeat([1, 0], [len(known), len(unknown)])
            areas.append(float(roc_auc_score(is_known, torch.cat(scores).numpy())))
    return sum(areas) / len(areas) if areas else None


def _shared_spread(samples: Samples, fitted: Mapping[str, Tensor]) -> Spread | None:
    """The spread of many photos, which does not change if some are left out; None for few photos."""
    return spread_of(fitted) if len(samples) > MANY_PHOTOS else None


def spread_of(weights: Mapping[str, Tensor]) -> Spread | None:
    """How photos differ within classes, from what a model stores.

    Args:
        weights: weights that a model stores, or what `fit_familiarity` returned.

    Returns:
        The spread; None if the model has no familiarity.

    Example:
        >>> spread_of({}) is None
        True
    """
    if f"{PREFIX}basis" not in weights:
        return None
    return weights[f"{PREFIX}basis"].double(), weights[f"{PREFIX}scales"].double()
