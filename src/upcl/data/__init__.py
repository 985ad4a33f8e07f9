"""Data sets by name, and the transforms of their images."""

from .dataset import Dataset
from .registry import DATASETS, load_dataset
from .strong_augmentations import Erase, TrivialAugment, strengthened
from .transforms import Brightness, Flip, PadCrop, RandomResizedCrop, Transform

__all__ = [
    "DATASETS",
    "Brightness",
    "Dataset",
    "Erase",
    "Flip",
    "PadCrop",
    "RandomResizedCrop",
    "Transform",
    "TrivialAugment",
    "load_dataset",
    "strengthened",
]
