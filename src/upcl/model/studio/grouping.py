"""Mixed photos, grouped by similarity, with a name proposed for each group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import torch
import torch.nn.functional as F
from sklearn.cluster import AgglomerativeClustering
from torch import Tensor

from upcl.model.predictor import NONE_OF_THESE

from .collection import Answer, Collection

MAX_PHOTOS = 2000  # that are compared with each other; the others join the group that is nearest
CENTRING = 0.7  # part of the mean that is subtracted from unit features before they are compared
MAX_DISTANCE = 0.9  # mean cosine distance between two groups that are not joined


@dataclass(frozen=True)
class Group:
    """Photos that resemble each other.

    Attributes:
        name: a name that is proposed for them.
        digests: the photos, the most typical first.

    Example:
        >>> Group("robin", ["0123456789abcdef"]).name
        'robin'
    """

    name: str
    digests: list[str]


def propose_groups(collection: Collection, answers: Sequence[Answer], num_groups: int | None = None) -> list[Group]:
    """Group photos by similarity, and propose a name for each group.

    Args:
        collection: the photos that a model knows, or that wait for a label.
        answers: the photos to group, with the answers of the model.
        num_groups: number of groups; by default as many as differ enough from each other.

    Returns:
        The groups, the largest first. Where nothing suggests a name, it is a number.

    Example:
        >>> propose_groups(collection, collection.answers(None))[0].name  # doctest: +SKIP
        'robin'
    """
    found: list[Group] = []
    for rows in group_photos(collection.features([answer.digest for answer in answers]), num_groups):
        known = [answers[row].answer or "" for row in rows if answers[row].label is None]
        proposal = propose_name([answers[row].file for row in rows], known)
        if proposal in ("", NONE_OF_THESE, *(answers[row].label for row in rows)):
            proposal = f"group {len(found) + 1}"
        found.append(Group(proposal, [answers[row].digest for row in rows]))
    return found


def group_photos(features: Tensor, num_groups: int | None = None) -> list[list[int]]:
    """Group photos by similarity: agglomerative clustering with average linkage.

    Args:
        features: features (N x d), of any length.
        num_groups: number of groups; by default as many as differ enough from each other.

    Returns:
        Positions by group, the largest group first, and the most typical photo of each group first.

    Example:
        >>> features = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.1, 0.0], [0.9, 0.0, 0.1]])
        >>> group_photos(features, num_groups=2)
        [[0, 2, 3], [1]]
    """
    if len(features) < 2:
        return [[row] for row in range(len(features))]
    unit = F.normalize(features.float())
    points = F.normalize(unit - CENTRING * unit.mean(0))
    compared = points[:MAX_PHOTOS]
    clusters = AgglomerativeClustering(
        n_clusters=None if num_groups is None else min(num_groups, len(compared)),
        distance_threshold=MAX_DISTANCE if num_groups is None else None,
        metric="cosine",
        linkage="average",
    )
    labels = torch.from_numpy(clusters.fit_predict(compared.numpy())).long()
    centres = F.normalize(torch.stack([compared[labels == label].mean(0) for label in range(int(labels.max()) + 1)]))
    labels = torch.cat([labels, (points[MAX_PHOTOS:] @ centres.T).argmax(1)])
    typical = (points * centres[labels]).sum(1)
    groups = []
    for label in range(len(centres)):
        rows = (labels == label).nonzero()[:, 0]
        groups.append(rows[typical[rows].argsort(descending=True, stable=True)].tolist())
    return sorted(groups, key=lambda rows: (-len(rows), rows))


def propose_name(files: Sequence[str], answers: Sequence[str]) -> str:
    """Propose a name for a group: what the model calls most of its photos, or what most of their files are called.

    Args:
        files: names of the files, perhaps with folders.
        answers: what the model calls the photos; empty where it knows nothing.

    Returns:
        The name; empty if neither suggests one.

    Example:
        >>> propose_name(["robin_1.jpg", "robin 02.jpg"], ["", ""]), propose_name(["IMG_1.jpg"], ["wren"])
        ('robin', 'wren')
    """
    for names in (answers, [_stem(file) for file in files]):
        name, num = Counter(names).most_common(1)[0] if names else ("", 0)
        if name and 2 * num > len(names):
            return name
    return ""


def _stem(file: str) -> str:
    """The folder that a file is in, or the words that its name begins with; empty for what cameras make up."""
    path = PurePosixPath(file)
    if len(path.parts) > 2:
        return path.parent.name
    words = re.split(r"[\W\d_]+", path.stem)
    name = " ".join(word for word in words if word)
    return (
        ""
        if name.lower() in ("img", "dsc", "dscn", "image", "photo", "pxl", "p", "jpeg", "") or len(name) < 3
        else name
    )
