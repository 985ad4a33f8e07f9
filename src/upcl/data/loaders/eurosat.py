"""EuroSAT (Helber et al., 2019): land use in satellite images, as RGB."""

from __future__ import annotations

from pathlib import Path

import torch

from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD, default_augmentations
from upcl.data.io.decoding import decode_cached
from upcl.data.io.layouts import Layout
from upcl.data.transforms import Transform

from .listed import class_images, count_notes, split_by_name

LAYOUT = Layout("eurosat", "EuroSAT", ("EuroSAT_RGB", "2750", "EuroSAT/2750", "eurosat/2750"), ("AnnualCrop",))
NUM_IMAGES = 27_000
SIZE = 64
CLASSES = (
    "AnnualCrop",
    "Forest",
    "HerbaceousVegetation",
    "Highway",
    "Industrial",
    "Pasture",
    "PermanentCrop",
    "Residential",
    "River",
    "SeaLake",
)


def load_eurosat(root: Path) -> Dataset:
    """Load the 27,000 images of 64 x 64 pixels; `split_by_name` chooses a fifth of each class for testing.

    Args:
        root: the folder that holds `EuroSAT_RGB/`, or `2750/` as earlier archives call it, or `EuroSAT.zip`.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_eurosat(Path("data")).image_shape  # doctest: +SKIP
        (3, 64, 64)
    """
    folder = LAYOUT.find(root)
    train, test = split_by_name(class_images(folder, CLASSES))
    images = decode_cached([path for path, _ in (*train, *test)], SIZE, 3, "EuroSAT")
    samples = Samples(images, torch.tensor([label for _, label in (*train, *test)]))
    return Dataset(
        name="eurosat",
        train=samples[: len(train)],
        test=samples[len(train) :],
        classes=CLASSES,
        transform=Transform(IMAGENET_MEAN, IMAGENET_STD, default_augmentations(SIZE)),
        backbone="resnet18-7x7",
        tasks=5,
        notes=count_notes("eurosat", len(samples), NUM_IMAGES),
    )
