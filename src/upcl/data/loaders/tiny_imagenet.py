"""Tiny-ImageNet-200 in its original layout: no folder has to be re-arranged."""

from __future__ import annotations

from pathlib import Path

import torch

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD
from upcl.data.io.images import decode, images_in
from upcl.data.io.paths import find_folder
from upcl.data.transforms import Flip, RandomResizedCrop, Transform


def load_tiny(root: Path) -> Dataset:
    how = "`upcl data get tinyimagenet` downloads it"
    folder = find_folder(root, "tiny-imagenet-200", ["tiny-imagenet-200.zip"], "Tiny-ImageNet", how)
    wnids = (folder / "wnids.txt").read_text().split()
    lines = (folder / "words.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    number = {wnid: k for k, wnid in enumerate(wnids)}
    train = [(p, number[w]) for w in wnids for p in images_in(folder / "train" / w / "images")]
    test = []
    for line in (folder / "val" / "val_annotations.txt").read_text().splitlines():
        if not line.strip():
            continue
        file, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in number:
            raise UserError(f"{folder / 'val' / 'val_annotations.txt'}: {wnid} is not in wnids.txt")
        test.append((folder / "val" / "images" / file, number[wnid]))

    def samples(part: list[tuple[Path, int]], what: str) -> Samples:
        images = decode([path for path, _ in part], 64, 3, f"Tiny-ImageNet {what}")
        return Samples(images, torch.tensor([label for _, label in part]))

    return Dataset(
        name="tinyimagenet",
        train=samples(train, "train"),
        test=samples(test, "validation"),
        classes=tuple(words.get(wnid, wnid).split(",")[0] for wnid in wnids),
        transform=Transform(IMAGENET_MEAN, IMAGENET_STD, (RandomResizedCrop(64), Flip(0.5))),
        backbone="resnet18-7x7",
        recipe="own",
        memory="2000",
        tasks=10,
    )
