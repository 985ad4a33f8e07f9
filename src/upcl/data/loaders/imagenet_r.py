"""ImageNet-R (Hendrycks et al., 2021): art, cartoons, toys and other renditions of 200 classes of ImageNet."""

from __future__ import annotations

import re
from pathlib import Path

from upcl.core.errors import UserError
from upcl.core.files import read_text
from upcl.data.dataset import Dataset
from upcl.data.io.layouts import Layout

from .listed import class_images, count_notes, photo_dataset, split_by_name

WNID = "n" + "[0-9]" * 8
LAYOUT = Layout("imagenetr", "ImageNet-R", ("imagenet-r",), (WNID, f"train/{WNID}"))
NUM_IMAGES = 30_000


def load_imagenet_r(root: Path) -> Dataset:
    """Load the 30,000 images; `split_by_name` chooses a fifth of each class for testing.

    A copy in which somebody has divided the images into `train/` and `test/` keeps that split, with a note.

    Args:
        root: the folder that holds `imagenet-r/` or `imagenet-r.tar`.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_imagenet_r(Path("data")).classes[0]  # doctest: +SKIP
        'goldfish'
    """
    folder = LAYOUT.find(root)
    divided = not any(folder.glob(WNID))
    wnids = sorted(path.name for path in (folder / "train" if divided else folder).glob(WNID) if path.is_dir())
    if divided:
        train, test = (class_images(folder / split, wnids) for split in ("train", "test"))
    else:
        train, test = split_by_name(class_images(folder, wnids))
    notes = count_notes("imagenetr", len(train) + len(test), NUM_IMAGES)
    if divided:
        notes = (*notes, "imagenetr has the split of its folders train and test")
    return photo_dataset("imagenetr", folder, train, test, _read_names(folder, wnids), notes=notes)


def _read_names(folder: Path, wnids: list[str]) -> list[str]:
    """Names of the classes from the README; their WordNet IDs if it is not there, or names two classes alike."""
    try:
        text = read_text(folder / "README.txt") if (folder / "README.txt").is_file() else ""
    except UserError:  # the images do not depend on it
        text = ""
    found = dict(re.findall(rf"^({WNID})[ \t]+(\S.*?)[ \t]*$", text, re.MULTILINE))
    names = [found.get(wnid, wnid).replace("_", " ") for wnid in wnids]
    return names if len(set(names)) == len(names) else wnids
