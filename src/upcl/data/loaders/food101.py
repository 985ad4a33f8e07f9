"""Food-101 (Bossard et al., 2014) in its original layout, with the split of its authors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from upcl.core.errors import UserError
from upcl.core.files import parse_json, read_text
from upcl.data.dataset import Dataset
from upcl.data.io.layouts import Layout

from .listed import LabelledPaths, count_notes, listed_path, photo_dataset

LAYOUT = Layout("food101", "Food-101", ("food-101", "food101"), ("meta",))
NUM_IMAGES = 101_000


def load_food101(root: Path) -> Dataset:
    """Load the 101 dishes: 750 training images, which were not cleaned, and 250 test images of each.

    Args:
        root: the folder that holds `food-101/` or `food-101.tar.gz`.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_food101(Path("data")).classes[0]  # doctest: +SKIP
        'apple pie'
    """
    folder = LAYOUT.find(root)
    lists = {split: _read_list(folder / "meta", split) for split in ("train", "test")}
    names = _read_classes(folder / "meta", lists["train"][0])
    label_of = {name: label for label, name in enumerate(names)}
    found: dict[str, LabelledPaths] = {}
    for split, (images, source) in lists.items():
        if unknown := next((name for name in images if name.partition("/")[0] not in label_of), None):
            raise UserError(f"{source}: '{unknown}' has a class that is not in {folder / 'meta' / 'classes.txt'}")
        paths = ((listed_path(folder / "images", f"{name}.jpg", source), name) for name in images)
        found[split] = [(path, label_of[name.partition("/")[0]]) for path, name in paths]
    classes = [name.replace("_", " ") for name in names]
    notes = count_notes("food101", len(found["train"]) + len(found["test"]), NUM_IMAGES)
    return photo_dataset("food101", folder, found["train"], found["test"], classes, notes=notes)


def _read_classes(meta: Path, images: list[str]) -> list[str]:
    if (meta / "classes.txt").is_file():
        return read_text(meta / "classes.txt").split()
    return sorted({name.partition("/")[0] for name in images})


def _read_list(meta: Path, split: str) -> tuple[list[str], Path]:
    """Images of a split as `CLASS/NUMBER`, from the text file or the JSON file, which say the same; and that file."""
    if (path := meta / f"{split}.txt").is_file():
        return read_text(path).split(), path
    path = meta / f"{split}.json"
    if not path.is_file():
        raise UserError(f"{meta} has neither {split}.txt nor {split}.json: unpack the archive again")
    try:
        lists = parse_json(read_text(path))
    except ValueError:
        lists = None
    values = list(lists.values()) if isinstance(lists, dict) else [None]
    names: list[Any] = [name for value in values for name in (value if isinstance(value, list) else [None])]
    if not all(isinstance(name, str) for name in names):
        raise UserError(f"{path} is damaged: it does not list the images of each class")
    return names, path
