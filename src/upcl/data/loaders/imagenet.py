"""ImageNet (ILSVRC2012) and subsets of 100 classes, from the folders that its archives unpack to."""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from upcl.core.errors import UserError
from upcl.core.files import read_text
from upcl.core.options import option
from upcl.data.dataset import Dataset
from upcl.data.io.download import IMAGENET_INSTRUCTIONS
from upcl.data.io.images import list_images
from upcl.data.io.matlab import read_matlab
from upcl.data.io.paths import expand_home
from upcl.data.subset import SubsetOptions
from upcl.data.transforms import Augmentation, Brightness, Flip

from .listed import LabelledPaths, photo_dataset

SUBSET_SIZE = 100
LUCIR_SEED = 1993
FOLDERS = ("imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC")
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"


@dataclass(frozen=True, kw_only=True)
class ImageNet100Options(SubsetOptions):
    """Which 100 classes to use, and how many images of each.

    Args:
        train: number of training images per class; 0 for all.
        test: number of test images per class; 0 for all.
        list: "lucir" (the random choice of LUCIR with seed 1993), "first" (by WordNet ID), or a file with one WordNet
            ID per line. By default "lucir", or all classes of a folder that has exactly 100.

    Example:
        >>> ImageNet100Options(list="first", train=10).list
        'first'
    """

    list: str = option(
        "",
        "which 100 of the 1,000 classes: 'lucir' (the random choice of LUCIR with seed 1993), 'first' (by WordNet ID), "
        "or a FILE with one WordNet ID per line. By default lucir, or all classes of a folder that has exactly 100",
    )


def lucir_classes(num_classes: int = 1000) -> list[int]:
    """Classes of ImageNet-100 as chosen in LUCIR's code, in the order of the draw.

    Args:
        num_classes: the number of classes to choose from.

    Returns:
        Positions among the sorted WordNet IDs.

    Example:
        >>> lucir_classes()[:4]
        [54, 7, 894, 512]
    """
    return [int(k) for k in np.random.RandomState(LUCIR_SEED).permutation(num_classes)[:SUBSET_SIZE]]


def load_imagenet(root: Path, options: SubsetOptions) -> Dataset:
    """Load all classes of `ROOT/imagenet`; its validation images are used for testing.

    Args:
        root: the folder that holds the data sets.
        options: the number of images per class.

    Raises:
        UserError: the files are missing or incomplete.

    Example:
        >>> len(load_imagenet(Path("data"), SubsetOptions()).classes)  # doctest: +SKIP
        1000
    """
    folder = _find(root, FOLDERS, "ImageNet")
    return options.apply(_dataset("imagenet1000", folder, _list_classes(folder), (Flip(0.5), Brightness(63 / 255))))


def load_imagenet100(root: Path, options: ImageNet100Options) -> Dataset:
    """Load 100 classes of `ROOT/imagenet`, or of `ROOT/imagenet100` if it exists.

    Args:
        root: the folder that holds the data sets.
        options: which classes, and the number of images per class.

    Raises:
        UserError: the files are missing or incomplete, or the list of classes is unknown.

    Example:
        >>> load_imagenet100(Path("data"), ImageNet100Options()).name  # doctest: +SKIP
        'imagenet100:list=lucir'
    """
    folder = _find(root, ("imagenet100", *FOLDERS), "ImageNet-100")
    found = _list_classes(folder)
    if options.list == "" and len(found) == SUBSET_SIZE:
        name, chosen, choice = "imagenet100", found, "all classes of the folder"
    else:
        wanted = options.list or "lucir"
        name, chosen, choice = f"imagenet100:list={wanted}", _choose(wanted, found, folder), f"list '{wanted}'"
    dataset = _dataset(name, folder, chosen, (Flip(0.5),))
    note = f"imagenet100 uses {len(chosen)} of the {len(found)} classes in the folder: {choice}"
    return options.of_any_data().apply(dataclasses.replace(dataset, notes=(note,)))


def _find(root: Path, names: Sequence[str], title: str) -> Path:
    for name in names:
        if (root / name / "train").is_dir():
            return root / name
    expected = " or ".join(f"{name}/train" for name in names)
    raise UserError(f"{title} is not in {root} (expected {expected}): {IMAGENET_INSTRUCTIONS}")


def _list_classes(folder: Path) -> list[str]:
    train = folder / "train"
    if archives := sorted(train.glob("n*.tar")):
        raise UserError(
            f"{train} contains archives that are not unpacked ({len(archives)}): unpack each into a folder of the same "
            f"name, such as {archives[0].stem}/"
        )
    found = sorted(path.name for path in train.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise UserError(f"{train} has no class folders: {IMAGENET_INSTRUCTIONS}")
    return found


def _choose(name: str, found: list[str], folder: Path) -> list[str]:
    """The WordNet IDs of a named list, sorted as those of a folder are."""
    if name in ("lucir", "first"):
        if len(found) != 1000:
            raise UserError(
                f"list '{name}' chooses from the 1,000 classes of ImageNet, but {folder / 'train'} has {len(found)}: "
                "use list=FILE"
            )
        return sorted(found[k] for k in lucir_classes()) if name == "lucir" else found[:SUBSET_SIZE]
    path = expand_home(name)
    if not os.path.isfile(path):  # noqa: PTH113 (a name may be longer than a path can be)
        raise UserError(f"unknown list '{name}': choose lucir, first, or a file with one WordNet ID per line")
    lines = [line.partition("#")[0].split() for line in read_text(path).splitlines()]
    wanted = {words[0] for words in lines if words}
    if missing := sorted(wanted - set(found)):
        raise UserError(f"{path} lists classes that are not in {folder / 'train'}: {', '.join(missing[:5])}")
    return sorted(wanted)


def _dataset(name: str, folder: Path, classes: list[str], augmentations: tuple[Augmentation, ...]) -> Dataset:
    label_of = {wnid: k for k, wnid in enumerate(classes)}
    train = [(path, k) for wnid, k in label_of.items() for path in list_images(folder / "train" / wnid)]
    test = _validation(folder, label_of)
    if not test:
        raise UserError(f"{folder / 'val'} has no images of these classes: {IMAGENET_INSTRUCTIONS}")
    memory = "2000" if len(classes) <= SUBSET_SIZE else "20000"
    return photo_dataset(name, folder, train, test, classes, augmentations=augmentations, memory=memory)


def _validation(folder: Path, label_of: Mapping[str, int]) -> LabelledPaths:
    """Validation images with labels: in class folders, or in one folder with the labels in one of ImageNet's files."""
    val = folder / "val"
    if not val.is_dir():
        raise UserError(f"{folder} has no val folder: {IMAGENET_INSTRUCTIONS}")
    if any(path.is_dir() for path in val.iterdir()):
        return [(p, k) for wnid, k in label_of.items() if (val / wnid).is_dir() for p in list_images(val / wnid)]
    wnid_of = _ground_truth(folder)
    return [(p, label_of[wnid_of[p.stem]]) for p in list_images(val) if wnid_of.get(p.stem) in label_of]


def _ground_truth(folder: Path) -> dict[str, str]:
    """WordNet ID of each validation image, from Kaggle's table or from the development kit."""
    for place in (folder, *list(folder.resolve().parents)[:3]):
        if (table := place / "LOC_val_solution.csv").is_file():
            return _read_with(_read_table, table)
        for kit in (place / "ILSVRC2012_devkit_t12" / "data", place / "data"):
            if (kit / GROUND_TRUTH).is_file() and (kit / "meta.mat").is_file():
                return _read_with(_read_kit, kit)
    raise UserError(
        f"{folder / 'val'} has no class folders, and neither LOC_val_solution.csv nor ILSVRC2012_devkit_t12/data "
        f"({GROUND_TRUTH}, meta.mat) is next to it: {IMAGENET_INSTRUCTIONS}"
    )


def _read_with(read: Callable[[Path], dict[str, str]], path: Path) -> dict[str, str]:
    try:
        return read(path)
    except (UserError, OSError):
        raise
    except Exception as error:  # a damaged table or MATLAB file can fail in any way
        raise UserError(f"{path} is damaged: it does not hold the classes of the validation images ({error})") from None


def _read_table(path: Path) -> dict[str, str]:
    rows = csv.DictReader(read_text(path).splitlines())
    return {row["ImageId"]: row["PredictionString"].split()[0] for row in rows}


def _read_kit(folder: Path) -> dict[str, str]:
    synsets = read_matlab(folder / "meta.mat", ["synsets"])["synsets"]
    wnid_of = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    lines = read_text(folder / GROUND_TRUTH).split()
    return {f"ILSVRC2012_val_{i:08d}": wnid_of[int(k)] for i, k in enumerate(lines, 1)}
