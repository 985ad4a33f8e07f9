"""CUB-200-2011 (Wah et al., 2011) in its original layout, with the split of its authors."""

from __future__ import annotations

from pathlib import Path

from upcl.core.errors import UserError
from upcl.core.files import read_text
from upcl.data.dataset import Dataset
from upcl.data.io.layouts import Layout

from .listed import LabelledPaths, count_notes, listed_path, photo_dataset

LAYOUT = Layout("cub200", "CUB-200-2011", ("CUB_200_2011",), ("images.txt",))
NUM_IMAGES = 11_788


def load_cub200(root: Path) -> Dataset:
    """Load the 200 species of birds: 5,994 training images and 5,794 test images.

    Args:
        root: the folder that holds `CUB_200_2011/` or `CUB_200_2011.tgz`.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_cub200(Path("data")).classes[0]  # doctest: +SKIP
        'Black footed Albatross'
    """
    folder = LAYOUT.find(root)
    images, classes, labels, in_train = (
        _read_table(folder / f"{name}.txt") for name in ("images", "classes", "image_class_labels", "train_test_split")
    )
    label_of = {number: label for label, number in enumerate(classes)}
    splits: dict[str, LabelledPaths] = {"1": [], "0": []}
    for number, name in images.items():
        path = listed_path(folder / "images", name, folder / "images.txt")
        if (found := labels.get(number)) not in label_of:
            raise UserError(
                f"{folder / 'image_class_labels.txt'}: image {number} has class {found}, not in classes.txt"
            )
        if (split := in_train.get(number)) not in splits:
            raise UserError(f"{folder / 'train_test_split.txt'}: image {number} has {split}, neither 1 (train) nor 0")
        splits[split].append((path, label_of[found]))
    names = [name.partition(".")[2].replace("_", " ") or name for name in classes.values()]
    notes = count_notes("cub200", len(images), NUM_IMAGES)
    return photo_dataset("cub200", folder, splits["1"], splits["0"], names, notes=notes)


def _read_table(path: Path) -> dict[str, str]:
    """Lines of a number and a value."""
    if not path.is_file():
        raise UserError(f"{path} is missing: unpack the archive again")
    rows: dict[str, str] = {}
    for line, text in enumerate(read_text(path).splitlines(), 1):
        number, _, value = text.strip().partition(" ")
        if text.strip() and (not number.isdecimal() or not value or number in rows):
            raise UserError(f"{path}:{line}: expected a new number and a value, not '{text.strip()}'")
        if number:
            rows[number] = value
    return rows
