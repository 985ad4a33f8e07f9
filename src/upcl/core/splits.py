"""The hold-out split: which samples are set aside for validation or testing."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Labels = Sequence[Any] | NDArray[Any] | Tensor

_ROUNDING = 1e-9  # so that a fraction of 0.29 holds out 29 of 100, although 100 * 0.29 is slightly less than 29


def hold_out(
    labels: Labels, fraction: float, seed: int, *, groups: Labels | None = None, min_per_class: int = 0
) -> NDArray[np.bool_]:
    """Choose a stratified random part of the samples to hold out.

    Every class gives up the same fraction of its groups, rounded down. The classes are visited in sorted order with one
    generator, so the split depends on nothing but the arguments.

    Args:
        labels: the class of each sample; any sortable, hashable values.
        fraction: the share of each class to hold out, from 0 to 1.
        seed: the seed of the random choice.
        groups: a hashable value per sample. Samples of one class with equal values, such as copies of one image, stay
            on the same side of the split. By default, every sample is a group of its own.
        min_per_class: the least number of groups to hold out of each class, as far as it has that many.

    Returns:
        A boolean mask with one entry per sample, True for the samples that are held out.

    Example:
        >>> held_out = hold_out(["cat"] * 4 + ["dog"] * 2, fraction=0.5, seed=0)
        >>> int(held_out[:4].sum()), int(held_out[4:].sum())
        (2, 1)
        >>> hold_out([0, 0, 0], 0.1, seed=0, groups=["a", "a", "a"], min_per_class=1).tolist()
        [True, True, True]
    """
    values = _as_list(labels)
    keys = list(range(len(values))) if groups is None else _as_list(groups)
    members: dict[Any, list[int]] = {}
    for index, label in enumerate(values):
        members.setdefault(label, []).append(index)
    rng = np.random.default_rng(seed)
    mask = np.zeros(len(values), dtype=np.bool_)
    for label in sorted(members):
        distinct = list(dict.fromkeys(keys[index] for index in members[label]))
        num = max(min_per_class, math.floor(len(distinct) * fraction + _ROUNDING))
        chosen = {distinct[k] for k in rng.permutation(len(distinct))[:num]}
        mask[[index for index in members[label] if keys[index] in chosen]] = True
    return mask


def _as_list(values: Labels) -> list[Hashable]:
    return values.tolist() if isinstance(values, np.ndarray | Tensor) else list(values)
