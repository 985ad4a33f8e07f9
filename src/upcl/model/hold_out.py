"""Which images of a folder are held out for evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from upcl.core.splits import hold_out
from upcl.data.io.listing import ImageFile

HELD_OUT_FRACTION = 0.2  # of each class's images
MIN_HELD_OUT_FROM = 5  # photos of a class: with fewer, it may be that none is held out


def split_files(files: Sequence[ImageFile]) -> tuple[list[ImageFile], list[ImageFile]]:
    """Images to learn from and to hold out: those of a test folder, or a part of each class.

    Copies of one image stay together. A class with a single distinct image has none to hold out.

    Args:
        files: readable images with their digests.

    Returns:
        The images to learn from, and those to hold out.

    Example:
        >>> from pathlib import Path
        >>> files = [ImageFile(Path(f"{k}.jpg"), "cat", "train", digest=str(k)) for k in range(10)]
        >>> [len(part) for part in split_files(files)]
        [8, 2]
    """
    tested = [file for file in files if file.split == "test"]
    train = [file for file in files if file.split == "train"]
    if tested:
        return train, tested
    distinct: dict[str, set[str]] = {}
    for file in train:
        distinct.setdefault(file.label, set()).add(file.digest)
    single = [file for file in train if len(distinct[file.label]) == 1]
    divided = sorted((file for file in train if len(distinct[file.label]) > 1), key=lambda file: file.label)
    labels, digests = [file.label for file in divided], [file.digest for file in divided]
    mask = hold_out(labels, HELD_OUT_FRACTION, seed=0, groups=digests, min_per_class=1)
    learned = [file for file, held in zip(divided, mask, strict=True) if not held]
    return [*learned, *single], [file for file, held in zip(divided, mask, strict=True) if held]


def split_by_digest(files: Sequence[ImageFile]) -> tuple[list[ImageFile], list[ImageFile]]:
    """Images to learn from and to hold out: those of a test folder, or the fifth with the smallest digests.

    Whether a photo is held out depends on its content alone, not on when it arrives or with which others. Only a class
    of at least five photos that would have none gives up one.

    Args:
        files: readable photos with the digests of their content, in hexadecimal.

    Returns:
        The photos to learn from, and those to hold out.

    Example:
        >>> from pathlib import Path
        >>> files = [ImageFile(Path(f"{k}.jpg"), "cat", "train", digest=f"{k:x}0000000") for k in range(10)]
        >>> [file.path.name for file in split_by_digest(files)[1]]
        ['0.jpg', '1.jpg', '2.jpg', '3.jpg']
    """
    tested = [file for file in files if file.split == "test"]
    train = [file for file in files if file.split == "train"]
    if tested:
        return train, tested
    chosen: set[str] = set()
    by_label: dict[str, set[str]] = {}
    for file in train:
        by_label.setdefault(file.label, set()).add(file.digest)
    for found in by_label.values():
        digests = sorted(found)
        small = [digest for digest in digests if int(digest[:8], 16) < HELD_OUT_FRACTION * 16**8]
        small = digests[:1] if not small and len(digests) >= MIN_HELD_OUT_FROM else small
        chosen.update(small if len(small) < len(digests) else small[:-1])
    return [file for file in train if file.digest not in chosen], [file for file in train if file.digest in chosen]
