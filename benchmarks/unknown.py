"""Which measure of familiarity tells photos of known classes from photos of others? Prints a table of docs/photos.md.

    UPCL_DATA=FOLDER python benchmarks/unknown.py        # FOLDER holds tiny-imagenet-200; features are cached

Some classes of Tiny-ImageNet are learned, from features of EfficientNet-Lite0; photos of the other classes are unknown.
The threshold is the 5 % quantile of cross-validated photos that were learned from.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor

from upcl.core.closed_form import Statistics, discriminant
from upcl.core.types import Samples
from upcl.data import load_dataset
from upcl.model.calibration import fit_threshold
from upcl.model.familiarity import NUM_FOLDS, Familiarity, fit_familiarity
from upcl.training.features import frozen_features

SHAPES = ((2, 10), (5, 10), (5, 40), (20, 10), (20, 40), (100, 40))  # known classes, photos of each
NUM_DRAWS = 10
Measure = Callable[[Samples, int, Tensor], Tensor]


def whitened_cosine(learned: Samples, num: int, queries: Tensor) -> Tensor:
    cosines: Tensor = Familiarity(fit_familiarity(learned, num))(queries)
    return cosines.max(1).values


def cosine(learned: Samples, num: int, queries: Tensor) -> Tensor:
    means = Statistics.of(learned.inputs, learned.labels, num).means.float()
    return (queries @ F.normalize(means).T).max(1).values


def neighbours(learned: Samples, num: int, queries: Tensor) -> Tensor:  # noqa: ARG001
    return (queries @ learned.inputs.T).topk(5, 1).values.mean(1)


def mahalanobis(learned: Samples, num: int, queries: Tensor) -> Tensor:
    found = Statistics.of(learned.inputs, learned.labels, num)
    within = (found.gram - found.means.T @ found.sums) / len(learned)
    within.diagonal().add_(0.01 * within.trace())
    factor = torch.linalg.cholesky(within)
    white = [torch.linalg.solve_triangular(factor, x.double().T, upper=False).T for x in (queries, found.means)]
    return -torch.cdist(*white).min(1).values.float()


def discriminant_score(learned: Samples, num: int, queries: Tensor) -> Tensor:
    weight, bias = discriminant(Statistics.of(learned.inputs, learned.labels, num), 0.01)
    return (queries.double() @ weight.T + bias).max(1).values.float()


MEASURES: dict[str, Measure] = {
    "whitened cosine (ours)": whitened_cosine,
    "cosine to class means": cosine,
    "five nearest neighbours": neighbours,
    "Mahalanobis distance": mahalanobis,
    "largest score of LDA": discriminant_score,
}


def measure(name: str, learned: Samples, num: int, known: Tensor, unknown: Tensor) -> tuple[float, float, float]:
    """Area under the ROC curve, false alarms and unknown photos found, in percent."""
    compute = MEASURES[name]
    folds = torch.arange(len(learned)) % NUM_FOLDS
    left_out = [compute(learned[folds != fold], num, learned.inputs[folds == fold]) for fold in range(NUM_FOLDS)]
    threshold = fit_threshold(torch.cat(left_out))
    high, low = compute(learned, num, known), compute(learned, num, unknown)
    area = roc_auc_score(np.repeat([1, 0], [len(known), len(unknown)]), torch.cat([high, low]).numpy())
    false_alarms, detected = (100 * float((part < threshold).float().mean()) for part in (high, low))
    return 100 * float(area), false_alarms, detected


def main() -> None:
    data = frozen_features(load_dataset("tinyimagenet:train=40,test=10"), "efficientnet-lite0", torch.device("cpu"))
    train, test = (Samples(F.normalize(part.inputs.float()), part.labels) for part in (data.train, data.test))
    generator = torch.Generator().manual_seed(0)
    found: dict[str, list[str]] = {name: [] for name in MEASURES}
    for num, per_class in SHAPES:
        results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in MEASURES}
        for _ in range(NUM_DRAWS if num < 100 else 2):
            labels = torch.full((len(data.classes),), -1)
            labels[torch.randperm(len(labels), generator=generator)[:num]] = torch.arange(num)
            parts = [train[labels[train.labels] == label][:per_class].inputs for label in range(num)]
            learned = Samples(torch.cat(parts), torch.arange(num).repeat_interleave(per_class))
            is_known = labels[test.labels] >= 0
            for name, values in results.items():
                values.append(measure(name, learned, num, test.inputs[is_known], test.inputs[~is_known][::5]))
        for name, values in results.items():
            means = [statistics.mean(column) for column in zip(*values, strict=True)]
            found[name].append(" / ".join(f"{mean:.1f}" for mean in means))
    lines = ["| familiarity | " + " | ".join(f"{num} x {per_class}" for num, per_class in SHAPES) + " |"]
    lines += ["|---" * (len(SHAPES) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in found.items()]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
