"""How many exemplars a memory holds: budgets in images, in bytes, and in bytes that include the network."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .errors import UserError

Unit = Literal["images", "images/class", "bytes", "total bytes", "everything"]
Sharing = Literal["exact", "floor"]
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Budget:
    """A limit on the exemplars, which is never exceeded.

    Args:
        amount: the limit, in `unit`.
        unit: "images" in total, "images/class", "bytes" of raw pixels, "total bytes" of the network and raw pixels
            together, or "everything" for no limit.
        sharing: "exact" distributes the remainder of the division by the classes, one image each to the oldest
            classes, and gives what a small class cannot use to the others. "floor" gives every class
            floor(amount / classes) and leaves the rest unused (PyCIL, the paper).

    Example:
        >>> Budget(10).quotas([500, 500, 2], image_bytes=3072)
        [4, 4, 2]
        >>> Budget(10, sharing="floor").quotas([500, 500, 2], image_bytes=3072)
        [3, 3, 2]
    """

    amount: int
    unit: Unit = "images"
    sharing: Sharing = "exact"

    @staticmethod
    def parse(text: str, sharing: Sharing = "exact") -> Budget:
        """Read a budget from text.

        Args:
            text: such as `2000` (images in total), `20/class`, `50MB` or `50MB-total` (with the network).
            sharing: how the budget is shared among the classes.

        Raises:
            UserError: If the text is not a budget.

        Example:
            >>> Budget.parse("20/class")
            Budget(amount=20, unit='images/class', sharing='exact')
        """
        match = re.fullmatch(r"(\d{1,18})\s*(?:(/class)|([KMG]?i?B)(-total)?)?", text.strip(), re.IGNORECASE)
        if not match:
            raise UserError(
                f"memory '{text}': use a number of images (2000), images per class (20/class), bytes (50MB), or bytes "
                "that include the network (50MB-total)"
            )
        amount, unit = int(match[1]), (match[2] or match[3] or "").upper()
        if not unit:
            return Budget(amount, "images", sharing)
        if unit == "/CLASS":
            return Budget(amount, "images/class", sharing)
        return Budget(amount * BYTES[unit], "total bytes" if match[4] else "bytes", sharing)

    def capacity(self, num_classes: int, image_bytes: int, network_bytes: int = 0) -> int:
        """Return the number of images that the budget allows in total; for "everything", one per class at least.

        Args:
            num_classes: number of classes in the memory.
            image_bytes: size of one raw image.
            network_bytes: size of the network, which counts for "total bytes" only.

        Example:
            >>> Budget.parse("50MB").capacity(num_classes=100, image_bytes=3072)
            16276
            >>> Budget.parse("50MB-total").capacity(num_classes=100, image_bytes=3072, network_bytes=4_000_000)
            14973
        """
        if self.unit == "images/class":
            return self.amount * num_classes
        if self.unit == "everything":
            return num_classes
        if self.unit == "images":
            return self.amount
        used = network_bytes if self.unit == "total bytes" else 0
        return max(0, self.amount - used) // image_bytes

    def quotas(self, available: Sequence[int], image_bytes: int, network_bytes: int = 0) -> list[int]:
        """Return the number of exemplars of each class.

        Args:
            available: images that each class has; its quota is at most this.
            image_bytes: size of one raw image.
            network_bytes: size of the network, which counts for "total bytes" only.
        """
        if self.unit == "everything":
            return list(available)
        if self.unit == "images/class":
            return [min(self.amount, images) for images in available]
        total = self.capacity(len(available), image_bytes, network_bytes)
        if self.sharing == "floor":
            return [min(total // max(len(available), 1), images) for images in available]
        return divide_budget(total, available)


def parse_bytes(text: str, what: str) -> int:
    """Read a size in bytes.

    Args:
        text: such as `20MB` or `512KiB`.
        what: what the size is of, for the message.

    Raises:
        UserError: If the text is not a size.

    Example:
        >>> parse_bytes("20MB", "--budget")
        20000000
    """
    match = re.fullmatch(r"(\d{1,18})\s*([KMG]?i?B)", text.strip(), re.IGNORECASE)
    if not match or not int(match[1]):
        raise UserError(f"{what} '{text}': use a number of bytes above zero, such as 20MB or 512KiB")
    return int(match[1]) * BYTES[match[2].upper()]


def divide_budget(total: int, available: Sequence[int]) -> list[int]:
    """Share a number of slots among classes as evenly as their sizes allow; the first classes get the remainder.

    Args:
        total: number of slots.
        available: images that each class has.

    Returns:
        The number of slots of each class; their sum is `total`, or everything that is available if that is less.

    Example:
        >>> divide_budget(11, [2, 9, 9, 9])
        [2, 3, 3, 3]
        >>> divide_budget(12, [2, 9, 9, 9])
        [2, 4, 3, 3]
    """
    levels = range(max(available, default=0) + 1)
    level = bisect_right(levels, total, key=lambda each: sum(min(images, each) for images in available)) - 1
    quotas = [min(images, level) for images in available]
    rest = total - sum(quotas)
    for k, images in enumerate(available):
        if rest > 0 and images > level:
            quotas[k] += 1
            rest -= 1
    return quotas
