"""Finding wrong labels and choosing photos to label: how much better than chance? Tables of docs/performance.md.

    UPCL_DATA=FOLDER python benchmarks/labels.py         # FOLDER holds tiny-imagenet-200; features are cached

Classes of Tiny-ImageNet, features of EfficientNet-Lite0. First, 5 % of the labels are swapped at random; which share of
them is among the first tenth of the suggestions? Then, starting from five photos, ten more are labelled at a time, as
suggested or at random; how many photos that were never labelled are classified correctly? A picture is drawn, too.
Last, mixed photos are grouped by similarity: how many groups are there, how pure are they, and how well do they agree
with the classes (adjusted Rand index)?
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from upcl.core.closed_form import Statistics, nearest_mean
from upcl.core.types import Samples
from upcl.data import load_dataset
from upcl.model.inspection import doubtful_labels
from upcl.model.studio.grouping import group_photos
from upcl.model.suggestions import suggest_photos
from upcl.training.features import frozen_features

NUM_CLASSES, NUM_SETS, NUM_SEEDS, NUM_TRAIN = 20, 5, 5, 40
FIRST, STEP, NUM_STEPS = 5, 10, 5
TEMPERATURE = 0.05
PICTURE = Path("docs/images/labels.svg")


def load_sets() -> list[tuple[Samples, Samples]]:
    """Five sets of 20 classes: 40 photos of each to learn from, 10 to test with."""
    dataset = load_dataset(f"tinyimagenet:num_classes={NUM_CLASSES * NUM_SETS}")
    features = frozen_features(dataset, "efficientnet-lite0", torch.device("cpu"), "float32").train
    sets = []
    for number in range(NUM_SETS):
        rows = features.rows_by_class(NUM_CLASSES * NUM_SETS)[number * NUM_CLASSES : (number + 1) * NUM_CLASSES]
        parts = []
        for part in (slice(0, NUM_TRAIN), slice(NUM_TRAIN, None)):
            chosen = features[torch.cat([found[part] for found in rows])]
            parts.append(Samples(chosen.inputs, chosen.labels - number * NUM_CLASSES))
        sets.append((parts[0], parts[1]))
    return sets


def share_of_errors_found(samples: Samples, seed: int) -> float:
    """Swap 5 % of the labels, and count how many are among the first tenth of the doubtful ones."""
    generator, num = torch.Generator().manual_seed(seed), len(samples)
    wrong = torch.randperm(num, generator=generator)[: round(0.05 * num)]
    labels = samples.labels.clone()
    labels[wrong] = (labels[wrong] + torch.randint(1, NUM_CLASSES, (len(wrong),), generator=generator)) % NUM_CLASSES
    doubts = doubtful_labels(Samples(samples.inputs, labels), NUM_CLASSES)[: num // 10]
    return len({doubt.row for doubt in doubts} & set(wrong.tolist())) / len(wrong)


def classify(labelled: Samples, inputs: Tensor) -> Tensor:
    """Probabilities by the nearest mean of the labelled photos."""
    unit = torch.nn.functional.normalize
    found = Statistics.of(unit(labelled.inputs.float()), labelled.labels, NUM_CLASSES)
    cosines = unit(inputs.float()).double() @ nearest_mean(found)[0].T
    return (cosines.masked_fill(found.counts == 0, -torch.inf) / TEMPERATURE).softmax(1)


def accuracy_by_labels(train: Samples, test: Samples, seed: int, *, suggested: bool) -> list[float]:
    """Accuracy in percent after every step of labelling."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(train), generator=generator)[:FIRST].tolist()
    curve = []
    for step in range(NUM_STEPS + 1):
        curve.append(
            100 * float((classify(train[torch.tensor(chosen)], test.inputs).argmax(1) == test.labels).double().mean())
        )
        left = torch.tensor([row for row in range(len(train)) if row not in set(chosen)])
        if step == NUM_STEPS:
            return curve
        if suggested:
            wrong = 1 - classify(train[torch.tensor(chosen)], train.inputs[left]).max(1).values
            rows = [s.row for s in suggest_photos(train.inputs[left], wrong, train.inputs[chosen], STEP)]
        else:
            rows = torch.randperm(len(left), generator=generator)[:STEP].tolist()
        chosen += left[rows].tolist()
    raise AssertionError


def groups_found(samples: Samples, num_classes: int) -> tuple[int, float, float]:
    """Number of groups of the photos of the first classes, share of the most frequent class of each, Rand index."""
    chosen = samples[(samples.labels < num_classes).nonzero()[:, 0]]
    groups = group_photos(chosen.inputs)
    found = torch.zeros(len(chosen), dtype=torch.int64)
    for number, rows in enumerate(groups):
        found[rows] = number
    pure = sum(int(chosen.labels[rows].bincount().max()) for rows in groups) / len(chosen)
    return len(groups), pure, float(adjusted_rand_score(chosen.labels.numpy(), found.numpy()))


def draw(counts: list[int], curves: dict[str, list[list[float]]]) -> None:
    """Means over all sets and seeds, with standard errors."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.5, 3.5), layout="constrained")
    for title, found in curves.items():
        columns = list(zip(*found, strict=True))
        errors = [statistics.stdev(column) / math.sqrt(len(column)) for column in columns]
        axes.errorbar(
            counts, [statistics.mean(column) for column in columns], errors, label=title, marker="o", capsize=3
        )
    axes.set(xlabel="photos labelled", ylabel="accuracy on photos never labelled, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    torch.set_num_threads(1)
    sets = load_sets()
    print("| classes | wrong labels found among the first tenth, % (five seeds) | mean |\n|---|---|---|", flush=True)
    everything = []
    for number, (train, _) in enumerate(sets):
        found = [100 * share_of_errors_found(train, seed) for seed in range(NUM_SEEDS)]
        everything += found
        print(f"| set {number} | {', '.join(f'{share:.0f}' for share in found)} | {statistics.mean(found):.1f} |")
    print(f"| all | | {statistics.mean(everything):.1f} |\n")
    counts = [FIRST + STEP * step for step in range(NUM_STEPS + 1)]
    print(f"| photos labelled | {' | '.join(map(str, counts))} |\n|---{'|---' * len(counts)}|")
    curves = {
        title: [
            accuracy_by_labels(train, test, seed, suggested=suggested)
            for train, test in sets
            for seed in range(NUM_SEEDS)
        ]
        for title, suggested in (("suggested", True), ("at random", False))
    }
    for title, found_curves in curves.items():
        means = (statistics.mean(column) for column in zip(*found_curves, strict=True))
        print(f"| {title} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    draw(counts, curves)
    print("\n| classes, 40 photos each | groups | pure, % | adjusted Rand index |\n|---|---|---|---|")
    for num_classes in (2, 5, 10, 20):
        results = [groups_found(train, num_classes) for train, _ in sets]
        num, pure, index = (statistics.mean(column) for column in zip(*results, strict=True))
        print(f"| {num_classes} | {num:.1f} | {100 * pure:.1f} | {index:.2f} |")


if __name__ == "__main__":
    main()
