"""Data sets by name, and the transforms of their images."""

from .dataset import Dataset
from .registry import DATASETS, load_dataset
from .transforms import Brightness, Flip, PadCrop, RandomResizedCrop, Transform

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
