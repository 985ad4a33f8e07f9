"""Small photos on disk, and quick options to learn them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from upcl import load_dataset
from upcl.model.options import LearnOptions

QUICK = LearnOptions(epochs=4, backbone="small", memory="4/class", max_forgetting=None)
QUICK_WORDS = ("--epochs", "4", "--backbone", "small", "--memory", "4/class", "--max-forgetting", "100")


def save_images(folder: Path, images: Iterable[Tensor]) -> Path:
    """Write images (3 x H x W) as 0.png, 1.png, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / f"{number}.png")
    return folder


def write_photos(root: Path) -> Path:
    """Folders `first` and `second` with three classes of 20 images each, and `extra` with 9 more of class 1."""
    data = load_dataset("synthetic:classes=6,train=20,test=9,noise=20")
    for label in range(6):
        folder = root / ("first" if label < 3 else "second") / f"kind {label}"
        save_images(folder, data.train.inputs[data.train.labels == label])
    save_images(root / "extra" / "kind 1", data.test.inputs[data.test.labels == 1])
    return root


def mix_folders(target: Path, *sources: Path) -> Path:
    """One folder with the classes of several."""
    for source in sources:
        shutil.copytree(source, target, dirs_exist_ok=True)
    return target


def noise(num: int) -> Tensor:
    """Images that show nothing."""
    return torch.randint(0, 256, (num, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
