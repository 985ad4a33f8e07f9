"""Which images of a folder are held out for evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    train, tested = split_by_folder(files)
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


def choose_held_out(
    digests: Iterable[str], learned: int = 0, held_out: int = 0, *, at_least_one: bool = True
) -> set[str]:
    """Which photos of a class are held out: those with the smallest digests, about a fifth.

    The choice depends on the set of photos alone, not on their order or on when they were learned. A class of at least
    five photos holds out one or more, and every class learns from one or more.

    Args:
        digests: digests of the content of the photos, in hexadecimal.
        learned: number of other photos of the class that are learned from in any case.
        held_out: number of other photos of the class that are held out in any case.
        at_least_one: whether a class of at least five photos that would hold out none gives up one.

    Returns:
        The digests of the photos to hold out.

    Example:
        >>> sorted(choose_held_out(f"{k:x}0000000" for k in range(10)))
        ['00000000', '10000000', '20000000', '30000000']
        >>> choose_held_out(["f0000000", "e0000000", "d0000000"], learned=2)
        {'d0000000'}
    """
    ordered = sorted(set(digests))
    chosen = [digest for digest in ordered if int(digest[:8], 16) < HELD_OUT_FRACTION * 16**8]
    if at_least_one and not chosen and not held_out and len(ordered) + learned >= MIN_HELD_OUT_FROM:
        chosen = ordered[:1]
    return set(chosen[:-1] if len(chosen) == len(ordered) and not learned else chosen)


def split_by_digest(
    files: Sequence[ImageFile], *, at_least_one: bool = True
) -> tuple[list[ImageFile], list[ImageFile]]:
    """Images to learn from and to hold out: those of a test folder, or what `choose_held_out` chooses of each class.

    Args:
        files: readable photos with the digests of their content, in hexadecimal.
        at_least_one: whether a class of at least five photos that would hold out none gives up one.

    Returns:
        The photos to learn from, and those to hold out.

    Example:
        >>> from pathlib import Path
        >>> files = [ImageFile(Path(f"{k}.jpg"), "cat", "train", digest=f"{k:x}0000000") for k in range(10)]
        >>> [file.path.name for file in split_by_digest(files)[1]]
        ['0.jpg', '1.jpg', '2.jpg', '3.jpg']
    """
    train, tested = split_by_folder(files)
    if tested:
        return train, tested
    by_label: dict[str, set[str]] = {}
    for file in train:
        by_label.setdefault(file.label, set()).add(file.digest)
    found = [choose_held_out(digests, at_least_one=at_least_one) for digests in by_label.values()]
    chosen = set().union(*found)
    return [file for file in train if file.digest not in chosen], [file for file in train if file.digest in chosen]


def split_by_folder(files: Sequence[ImageFile]) -> tuple[list[ImageFile], list[ImageFile]]:
    """Images of the training folder and of the test folder, which may be empty.

    Args:
        files: readable images.

    Example:
        >>> from pathlib import Path
        >>> split_by_folder([ImageFile(Path("a.jpg"), "cat", "test")])[0]
        []
    """
    return [file for file in files if file.split == "train"], [file for file in files if file.split == "test"]


def note_untrained_classes(
    train: Sequence[ImageFile], held_out: Sequence[ImageFile], known: Sequence[str]
) -> list[str]:
    """A remark on classes of a test folder that have no training images, if there are any.

    Args:
        train: images to learn from.
        held_out: images to hold out.
        known: names of classes that the model knows.

    Example:
        >>> from pathlib import Path
        >>> note_untrained_classes([], [ImageFile(Path("a.jpg"), "cat", "test")], known=["dog"])
        ['ignored: classes of the test folder without training images: cat']
    """
    ignored = sorted({file.label for file in held_out} - {file.label for file in train}.union(known))
    return [f"ignored: classes of the test folder without training images: {', '.join(ignored[:5])}"] if ignored else []
