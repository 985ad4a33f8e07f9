"""What to look at next: wrong answers, doubtful labels, near-duplicates, outliers, and classes that need photos."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from upcl.core.types import Samples
from upcl.model.card import FEW_PHOTOS
from upcl.model.inspection import doubtful_labels, near_duplicates, unlike_all_others

from .teacher import Teacher

MAX_SHOWN = 200  # photos of a kind
LOW_ACCURACY = 70.0  # percent: classes below it need photos


@dataclass(frozen=True)
class Doubt:
    """A photo whose label may be wrong.

    Attributes:
        digest: the photo.
        label: its class.
        likely: the class that fits better.
        probability: of its own class.

    Example:
        >>> Doubt("0123456789abcdef", "robin", "wren", 0.02).likely
        'wren'
    """

    digest: str
    label: str
    likely: str
    probability: float


@dataclass(frozen=True)
class Confusion:
    """Held-out photos of a class that the model takes for another.

    Attributes:
        label: their class.
        answer: what the model sees.
        digests: the photos.

    Example:
        >>> Confusion("robin", "wren", ["0123456789abcdef"]).answer
        'wren'
    """

    label: str
    answer: str
    digests: list[str]


@dataclass(frozen=True)
class Review:
    """What to look at next.

    Attributes:
        doubts: labels that may be wrong, the most doubtful first.
        confusions: held-out photos that get a wrong answer, the most frequent first.
        duplicates: two photos that are nearly the same, and their cosine.
        outliers: photos that resemble no class, not even their own.
        needs: classes that need photos, with the reason.

    Example:
        >>> Review([], [], [], [], {"robin": "only 3 training photos"}).needs
        {'robin': 'only 3 training photos'}
    """

    doubts: list[Doubt]
    confusions: list[Confusion]
    duplicates: list[tuple[str, str, float]]
    outliers: list[str]
    needs: dict[str, str]


def review(teacher: Teacher) -> Review:
    """Compare all photos with each other.

    Args:
        teacher: the model and its photos.

    Example:
        >>> review(teacher).needs  # doctest: +SKIP
        {'robin': 'only 3 training photos'}
    """
    bundle, labels = teacher.bundle, teacher.labels()
    if bundle is None:
        return Review([], [], [], [], {})
    names, digests = bundle.state.class_names, sorted(labels)
    targets = torch.tensor([names.index(labels[digest][0]) for digest in digests])
    samples = Samples(teacher.features(digests).float(), targets)
    confirmed = teacher.workspace.confirmed
    doubts = [
        Doubt(digests[doubt.row], names[doubt.given], names[doubt.likely], round(doubt.probability, 4))
        for doubt in doubtful_labels(samples, len(names))
        if (digests[doubt.row], names[doubt.given]) not in confirmed
    ]
    outliers = [
        digests[row]
        for row, _ in unlike_all_others(samples, len(names))
        if (digests[row], labels[digests[row]][0]) not in confirmed
    ]
    duplicates = [
        (digests[first], digests[second], round(cosine, 3))
        for first, second, cosine in near_duplicates(samples.inputs)
        if tuple(sorted((digests[first], digests[second]))) not in confirmed
    ]
    return Review(
        doubts=doubts[:MAX_SHOWN],
        confusions=_confusions(teacher),
        duplicates=duplicates[:MAX_SHOWN],
        outliers=outliers[:MAX_SHOWN],
        needs=_needs(teacher),
    )


def _confusions(teacher: Teacher) -> list[Confusion]:
    """Wrong answers on photos that were never learned from."""
    held_out = [digest for digest, (_, held) in teacher.labels().items() if held]
    predictions, found = teacher.predict(held_out), defaultdict[tuple[str, str], list[str]](list)
    for digest, top in zip(held_out, predictions.top(1) if predictions else [], strict=True):
        label = teacher.labels()[digest][0]
        if top.name != label:
            found[label, top.name].append(digest)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [Confusion(label, answer, digests) for (label, answer), digests in ordered]


def _needs(teacher: Teacher) -> dict[str, str]:
    bundle = teacher.bundle
    assert bundle is not None
    needs = {}
    for name in bundle.state.class_names:
        num, accuracy = len(bundle.state.trained.get(name, ())), bundle.history[-1].by_class.get(name)
        if num < FEW_PHOTOS:
            needs[name] = f"only {num} training photo{'s' * (num != 1)}"
        elif accuracy is not None and accuracy < LOW_ACCURACY:
            needs[name] = f"{accuracy:.0f} % of its held-out photos are recognised"
    return needs
