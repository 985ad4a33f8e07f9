"""ImageNet (ILSVRC2012) and its subsets of 100 classes, from the folders that its archives unpack to."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
import torch

from upcl.core.errors import UserError
from upcl.core.options import option
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD
from upcl.data.io.crops import Photos
from upcl.data.io.images import images_in
from upcl.data.subset import Slice
from upcl.data.transforms import Augmentation, Brightness, Flip, Transform

SIZE = 224
LUCIR_SEED, SUBSET = 1993, 100
HOW = (
    "image-net.org gives the archives of ILSVRC2012 to those who ask; unpack them to train/WNID/*.JPEG and "
    "val/*.JPEG (with LOC_val_solution.csv or the development kit beside it) or val/WNID/*.JPEG"
)


TRUTH = "ILSVRC2012_validation_ground_truth.txt"


@dataclass(frozen=True, kw_only=True)
class Subset(Slice):
    """Which 100 classes, and how many images of each."""

    list: str = option(
        "",
        "which 100 of the 1,000 classes: 'lucir' (LUCIR's draw with seed 1993), 'first' (by WordNet number), or a FILE "
        "with a WordNet number a line. Nothing: lucir, or all classes of a folder that has 100",
    )


def lucir_choice(num_classes: int = 1000) -> list[int]:
    """The classes of LUCIR's ImageNet-100 as positions among the sorted WordNet numbers, in the order of the draw."""
    return [int(k) for k in np.random.RandomState(LUCIR_SEED).permutation(num_classes)[:SUBSET]]


def load_imagenet(root: Path, options: Slice) -> Dataset:
    """All classes of ROOT/imagenet."""
    folder = _folder(root, ["imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC"], "ImageNet")
    brightness = Brightness(63 / 255)
    return options.of(_dataset("imagenet1000", folder, _classes(folder), (Flip(0.5), brightness)))


def load_imagenet100(root: Path, options: Subset) -> Dataset:
    """A named subset of ROOT/imagenet; or of ROOT/imagenet100, where 100 classes were sorted out already."""
    folder = _folder(root, ["imagenet100", "imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC"], "ImageNet-100")
    found = _classes(folder)
    if options.list == "" and len(found) == SUBSET:
        name, chosen, said = "imagenet100", found, "as the folder has them"
    else:
        asked = options.list or "lucir"
        name, chosen, said = f"imagenet100:list={asked}", _chosen(asked, found, folder), f"list '{asked}'"
    dataset = _dataset(name, folder, chosen, (Flip(0.5),))
    note = f"the classes of imagenet100 are {len(chosen)} of the {len(found)} in the folder: {said}"
    return Slice(train=options.train, test=options.test).of(dataclasses.replace(dataset, notes=(note,)))


def _folder(root: Path, names: list[str], what: str) -> Path:
    for name in names:
        if (root / name / "train").is_dir():
            return root / name
    looked = ", ".join(f"{name}/train" for name in names)
    raise UserError(f"{what} is not in {root}: looked for {looked}. {HOW}")


def _classes(folder: Path) -> list[str]:
    train = folder / "train"
    if archives := sorted(train.glob("n*.tar")):
        raise UserError(
            f"{train} still holds {len(archives)} archives: unpack each into a folder of its own name, such as "
            f"{archives[0].stem}/"
        )
    found = sorted(path.name for path in train.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise UserError(f"{train} holds no class folders. {HOW}")
    return found


def _chosen(name: str, found: list[str], folder: Path) -> list[str]:
    """The WordNet numbers of a named list, sorted as every folder reader sorts them."""
    if name in ("lucir", "first"):
        if len(found) != 1000:
            raise UserError(
                f"list '{name}' chooses among the 1,000 classes of ImageNet, but {folder / 'train'} has {len(found)}: "
                "give your list as a file, list=FILE"
            )
        return sorted(found[k] for k in lucir_choice()) if name == "lucir" else found[:SUBSET]
    path = Path(name).expanduser()
    if not os.path.isfile(path):  # noqa: PTH113 (a name may be longer than a path can be)
        raise UserError(f"list '{name}': say lucir, first, or a file with a WordNet number a line")
    lines = [line.partition("#")[0].split() for line in path.read_text().splitlines()]
    wanted = [words[0] for words in lines if words]
    if missing := sorted(set(wanted) - set(found)):
        raise UserError(f"{path}: {len(missing)} classes are not in {folder / 'train'}, such as {missing[0]}")
    return sorted(set(wanted))


def _dataset(name: str, folder: Path, classes: list[str], augmentations: tuple[Augmentation, ...]) -> Dataset:
    number = {wnid: k for k, wnid in enumerate(classes)}
    train = [(path, k) for wnid, k in number.items() for path in images_in(folder / "train" / wnid)]
    test = _validation(folder, number)
    if not test:
        raise UserError(f"{folder / 'val'} holds no images of these classes. {HOW}")
    paths = Photos.names([path for path, _ in [*train, *test]])
    labels = torch.tensor([label for _, label in [*train, *test]])
    every = Samples(torch.arange(len(paths)), labels)
    return Dataset(
        name=name,
        train=every[: len(train)],
        test=every[len(train) :],
        classes=tuple(classes),
        transform=Transform(
            IMAGENET_MEAN, IMAGENET_STD, augmentations, Photos(paths, SIZE, _identity(folder, [*train, *test]))
        ),
        backbone="resnet18-7x7",
        memory="2000" if len(classes) <= SUBSET else "20000",
        tasks=10,
    )


def _identity(folder: Path, files: Sequence[tuple[Path, int]]) -> str:
    """Of the files' names and sizes: to read them all would take hours."""
    digest = hashlib.sha256()
    for path, _ in files:
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _validation(folder: Path, number: Mapping[str, int]) -> list[tuple[Path, int]]:
    """Validation images with labels: sorted into folders, or flat with the labels in one of ImageNet's own files."""
    val = folder / "val"
    if not val.is_dir():
        raise UserError(f"{folder} has no val folder. {HOW}")
    if any(path.is_dir() for path in val.iterdir()):
        return [(p, k) for wnid, k in number.items() if (val / wnid).is_dir() for p in images_in(val / wnid)]
    truth = _truth(folder)
    return [(p, number[truth[p.stem]]) for p in images_in(val) if truth.get(p.stem) in number]


def _truth(folder: Path) -> dict[str, str]:
    """File name to WordNet number, from Kaggle's table or from the development kit."""
    for place in (folder, *list(folder.resolve().parents)[:3]):
        if (table := place / "LOC_val_solution.csv").is_file():
            with table.open(newline="") as file:
                return {row["ImageId"]: row["PredictionString"].split()[0] for row in csv.DictReader(file)}
        for kit in (place / "ILSVRC2012_devkit_t12" / "data", place / "data"):
            if (kit / TRUTH).is_file() and (kit / "meta.mat").is_file():
                synsets = scipy.io.loadmat(kit / "meta.mat", squeeze_me=True)["synsets"]
                wnid_of = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
                lines = (kit / TRUTH).read_text().split()
                return {f"ILSVRC2012_val_{i:08d}": wnid_of[int(k)] for i, k in enumerate(lines, 1)}
    raise UserError(
        f"{folder / 'val'} is not sorted into class folders, and neither LOC_val_solution.csv nor "
        f"ILSVRC2012_devkit_t12/data ({TRUTH}, meta.mat) lies beside it. {HOW}"
    )
