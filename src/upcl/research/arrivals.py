"""When images arrive: in the task of their class, or also in later ones. Every image arrives once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError


class Arrival(ABC):
    """When the images of a class arrive: in its own task, and which of them later.

    Example:
        >>> issubclass(Blurry, Arrival)
        True
    """

    @abstractmethod
    def counts(self, num_images: Sequence[int], num_later: Sequence[int], rng: np.random.RandomState) -> list[Tensor]:
        """Compute how many images of each class arrive in its own task and in each later one.

        Args:
            num_images: images of each class.
            num_later: number of tasks after the own task of each class.
            rng: what is random is drawn from it.

        Returns:
            For each class, 1 + `num_later` numbers, which sum to its images; the first one is not 0.
        """


@dataclass(frozen=True)
class Blurry(Arrival):
    """Blurred task borders: a share of the images of a class arrives in later tasks, evenly.

    Args:
        share: percentage of its images, rounded down, that arrive after the own task of a class.
        disjoint: percentage of the classes, rounded down and drawn at random, all of whose images arrive in their own
            task.

    Raises:
        UserError: if a percentage is out of range.

    References:
        J. Bang, H. Kim, Y. Yoo, J.-W. Ha and J. Choi. Rainbow Memory: Continual Learning with a Memory of Diverse
        Samples. CVPR 2021. H. Koh, D. Kim, J.-W. Ha and J. Choi. Online Continual Learning on Class Incremental Blurry
        Task Configuration with Anytime Inference. ICLR 2022.

    Example:
        >>> [counts.tolist() for counts in Blurry(40).counts([10, 10], [2, 0], np.random.RandomState(0))]
        [[6, 2, 2], [10]]
    """

    share: float = 10.0
    disjoint: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.share < 100 and 0 <= self.disjoint < 100):
            raise UserError("scenario blurry:M:N: M must be above 0 and below 100, N below 100, such as blurry:10:50")

    def counts(self, num_images: Sequence[int], num_later: Sequence[int], rng: np.random.RandomState) -> list[Tensor]:
        num_classes = len(num_images)
        stays = rng.permutation(num_classes) < _percent(self.disjoint, num_classes)
        found = []
        for images, later, whole in zip(num_images, num_later, stays, strict=True):
            moved = 0 if whole or not later else _percent(self.share, images)
            parts = torch.full((1 + later,), moved // max(later, 1))
            parts[1:] += torch.from_numpy(rng.permutation(later) < moved % max(later, 1))
            parts[0] = images - moved
            found.append(parts)
        return found

    def __str__(self) -> str:
        return f"blurry:{self.share:g}" + (f":{self.disjoint:g}" if self.disjoint else "")


@dataclass(frozen=True)
class Repeat(Arrival):
    """Repeated classes: a class comes back in some later tasks, with further images.

    Args:
        probability: percentage of the later tasks that a class comes back in, on average; each is drawn independently.

    Raises:
        UserError: if the percentage is out of range.

    References:
        A. Cossu, G. Graffieti, L. Pellegrini, D. Maltoni, D. Bacciu, A. Carta and V. Lomonaco. Is Class-Incremental
        Enough for Continual Learning? Frontiers in Artificial Intelligence, 2022. H. Hemati, A. Cossu, A. Carta,
        J. Hurtado, L. Pellegrini, D. Bacciu, V. Lomonaco and D. Borth. Class-Incremental Learning with Repetition.
        CoLLAs 2023.

    Example:
        >>> [counts.tolist() for counts in Repeat(100).counts([10, 10], [2, 0], np.random.RandomState(0))]
        [[4, 3, 3], [10]]
    """

    probability: float = 50.0

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 100:
            raise UserError("scenario repeat:P: P must be above 0 and at most 100, such as repeat:50")

    def counts(self, num_images: Sequence[int], num_later: Sequence[int], rng: np.random.RandomState) -> list[Tensor]:
        found = []
        for images, later in zip(num_images, num_later, strict=True):
            present = torch.from_numpy(np.append(True, 100 * rng.random_sample(later) < self.probability))
            share, rest = divmod(images, int(present.sum()))
            found.append(present * (share + (present.cumsum(0) <= rest)))
        return found

    def __str__(self) -> str:
        return f"repeat:{self.probability:g}"


def _percent(percentage: float, num: int) -> int:
    return int(percentage * num / 100 + 1e-9)  # 29 % of 100 is 29, whatever the rounding of floats
