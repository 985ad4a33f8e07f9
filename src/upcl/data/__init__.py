"""Data sets by name, and what is done to their images."""

from .augment import Brightness, Flip, PadCrop, RandomResizedCrop, Transform
from .datasets import Dataset
from .sources import DATASETS, load_dataset

__all__ = [
    "DATASETS",
    "Brightness",
    "Dataset",
    "Flip",
    "PadCrop",
    "RandomResizedCrop",
    "Transform",
    "load_dataset",
]
