"""What features reveal about photos in class folders: likely wrong labels, near-duplicates and outliers.

Every photo is judged by a classifier that was computed without it (cross-validation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.closed_form import Statistics, class_ranks, discriminant, row_space
from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.io.listing import ImageFile
from upcl.data.io.paths import printable_path

from .bundle import Bundle
from .calibration import confidence, fit_temperature
from .extractor import feature_extractor
from .familiarity import Familiarity, fit_familiarity
from .photo_features import PhotoFeatures, extract_photos

NUM_FOLDS = 5
SHRINKAGE = 3e-3  # finds most of 5 % swapped labels (benchmarks/labels.py)
DUPLICATE_COSINE = 0.88  # photos that were scaled, cropped or compressed again are mostly above it, others below
OUTLIER_DEVIATIONS = 3.0  # below the median familiarity
MAD = 1.4826  # standard deviation of a normal distribution, in median absolute deviations
CHUNK = 1024


@dataclass(frozen=True)
class LabelDoubt:
    """A photo that a classifier computed without it gives another name.

    Attributes:
        row: position of the photo.
        given: its label.
        likely: the most likely label.
        probability: of the given label, calibrated.

    Example:
        >>> LabelDoubt(row=3, given=0, likely=1, probability=0.02).likely
        1
    """

    row: int
    given: int
    likely: int
    probability: float


def doubtful_labels(samples: Samples, num_labels: int) -> list[LabelDoubt]:
    """Find photos that are likely to be in the wrong class.

    Args:
        samples: features (N x d) with labels; a class with a single photo is not judged.
        num_labels: number of labels; some may have no photo.

    Returns:
        The photos that another class fits better, the most doubtful label first.

    Example:
        >>> features = torch.eye(2).repeat_interleave(6, 0) + 0.01 * torch.rand(12, 2)
        >>> labels = torch.arange(2).repeat_interleave(6)
        >>> labels[0] = 1
        >>> [(doubt.row, doubt.likely) for doubt in doubtful_labels(Samples(features, labels), num_labels=2)]
        [(0, 0)]
    """
    features, labels = F.normalize(samples.inputs.float()), samples.labels
    if len(labels.unique()) < 2:
        return []
    features = row_space(features)
    scores = torch.full((len(labels), num_labels), -torch.inf, dtype=torch.float64)
    for chosen, rest in _folds(labels):
        statistics = Statistics.of(features[rest], labels[rest], num_labels)
        weight, bias = discriminant(statistics, SHRINKAGE)
        scores[chosen] = (features[chosen] @ weight.T + bias).masked_fill(statistics.counts == 0, -torch.inf)
    judged = scores.gather(1, labels[:, None])[:, 0].isfinite().nonzero()[:, 0]
    if not len(judged):
        return []
    probabilities = confidence(scores[judged], fit_temperature(scores[judged], labels[judged]))
    own = probabilities.gather(1, labels[judged, None])[:, 0]
    likely = probabilities.argmax(1)
    found = [
        LabelDoubt(int(judged[i]), int(labels[judged[i]]), int(likely[i]), float(own[i]))
        for i in own.argsort(stable=True).tolist()
    ]
    return [doubt for doubt in found if doubt.likely != doubt.given]


def near_duplicates(features: Tensor, min_cosine: float = DUPLICATE_COSINE) -> list[tuple[int, int, float]]:
    """Find pairs of photos that are nearly the same.

    Args:
        features: features (N x d), of any length.
        min_cosine: cosine from which on two photos count as nearly the same.

    Returns:
        Positions of the two photos and their cosine, the most similar pair first.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.01]])
        >>> [(first, second) for first, second, _ in near_duplicates(features)]
        [(0, 2)]
    """
    unit, found = F.normalize(features.float()), list[tuple[int, int, float]]()
    for start in range(0, len(unit), CHUNK):
        cosines = (unit[start : start + CHUNK] @ unit[start:].T).triu(1)
        for row, column in (cosines >= min_cosine).nonzero().tolist():
            found.append((start + row, start + column, float(cosines[row, column])))
    return sorted(found, key=lambda pair: -pair[2])


def unlike_all_others(samples: Samples, num_labels: int) -> list[tuple[int, float]]:
    """Find photos that resemble no class, not even their own.

    Args:
        samples: features (N x d) with labels.
        num_labels: number of labels; some may have no photo.

    Returns:
        Positions of the photos with their familiarity, the least familiar first.

    Example:
        >>> features = torch.eye(4)[[0] * 8 + [1] * 8 + [3]] + 0.05 * torch.rand(17, 4)
        >>> samples = Samples(features, torch.tensor([0] * 8 + [1] * 9))
        >>> [row for row, _ in unlike_all_others(samples, num_labels=2)]
        [16]
    """
    familiarity = torch.ones(len(samples))
    for chosen, rest in _folds(samples.labels):
        if len(rest):
            fitted = Familiarity(fit_familiarity(samples[rest], num_labels))
            familiarity[chosen] = fitted.nearest(samples.inputs[chosen].float())
    if not len(samples):
        return []
    median = familiarity.median()
    deviation = MAD * (familiarity - median).abs().median().clamp(min=1e-3)
    rows = (familiarity < median - OUTLIER_DEVIATIONS * deviation).nonzero()[:, 0].tolist()
    return sorted(((row, float(familiarity[row])) for row in rows), key=lambda found: found[1])


@dataclass(frozen=True)
class Inspection:
    """What features reveal about a folder of photos.

    Attributes:
        doubtful_labels: photo, its class, the class that fits better, and the probability of its own; the most doubtful
            first.
        near_duplicates: two photos that are nearly the same, and their cosine; the most similar first.
        outliers: photos that resemble no class, with their familiarity; the least familiar first.

    Example:
        >>> Inspection([("cat/1.jpg", "cat", "dog", 0.02)], [], []).to_json()["outliers"]
        []
    """

    doubtful_labels: list[tuple[str, str, str, float]]
    near_duplicates: list[tuple[str, str, float]]
    outliers: list[tuple[str, float]]

    def to_json(self) -> dict[str, Any]:
        """The result as JSON-serialisable values, with one key per attribute."""
        return asdict(self)


def photo_features(bundle: Bundle, files: Sequence[ImageFile], device: torch.device) -> PhotoFeatures:
    """Compute features of photos by the network of a model; the cache knows those seen before.

    Args:
        bundle: the model.
        files: the photos.
        device: where to compute.

    Raises:
        UserError: if the model does not work on features of a frozen network.

    Example:
        >>> photo_features(bundle, files, torch.device("cpu")).features.shape  # doctest: +SKIP
        torch.Size([200, 1280])
    """
    if not bundle.spec.features:
        raise UserError(
            "this needs a model on features of a pretrained network, the default of `upcl learn` with upcl[photos] "
            "installed; the network of this model was trained"
        )
    return extract_photos(files, bundle.spec.size, *feature_extractor(bundle.spec, bundle.state, device))


def inspect_photos(bundle: Bundle, root: Path, files: Sequence[ImageFile], device: torch.device) -> Inspection:
    """Inspect the photos of a folder by the features that the network of a model computes.

    The photos are compared with each other only; it does not matter what the model has learned.

    Args:
        bundle: the model.
        root: the folder.
        files: its photos, with their classes.
        device: where to compute.

    Raises:
        UserError: if the model does not work on features of a frozen network.

    Example:
        >>> inspect_photos(bundle, Path("birds"), files, torch.device("cpu")).outliers  # doctest: +SKIP
        [('robin/17.jpg', 0.08)]
    """
    photos = photo_features(bundle, files, device)
    readable = photos.readable
    names = sorted({file.label for file in readable})
    labels = {name: label for label, name in enumerate(names)}
    samples = Samples(photos.features, torch.tensor([labels[file.label] for file in readable], dtype=torch.int64))

    def path(row: int) -> str:
        return printable_path(readable[row].path.relative_to(root))

    return Inspection(
        [
            (path(doubt.row), names[doubt.given], names[doubt.likely], round(doubt.probability, 4))
            for doubt in doubtful_labels(samples, len(names))
        ],
        [
            (path(first), path(second), round(cosine, 4))
            for first, second, cosine in near_duplicates(samples.inputs)
            if readable[first].digest != readable[second].digest
        ],
        [(path(row), round(familiarity, 4)) for row, familiarity in unlike_all_others(samples, len(names))],
    )


def _folds(labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows that are left out, a fifth of each class in turn, and the other rows."""
    folds = class_ranks(labels) % NUM_FOLDS
    for fold in range(NUM_FOLDS):
        chosen = (folds == fold).nonzero()[:, 0]
        if len(chosen):
            yield chosen, (folds != fold).nonzero()[:, 0]
