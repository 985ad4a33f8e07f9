"""Defaults for images that come without a published setting: your own folders and arrays.

The benchmark loaders (CIFAR, ImageNet) follow the literature. Folders and arrays, whether they are loaded as a data set
for an experiment or learned by a model, share the choices made here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .dataset import channel_statistics
from .io.crops import Photos
from .io.listing import ImageFile
from .transforms import Augmentation, Flip, PadCrop, RandomResizedCrop

MAX_DECODED_SIZE = 64  # pixels: larger images stay in their files and are decoded for each batch
MAX_PADDED_SIZE = 32  # pixels: up to this size, images are padded and cropped as CIFAR's are
CROP_SCALE = (0.3, 1.0)  # share of an image's area that a training crop covers
NUM_MEASURED = 2000  # training images, evenly spaced, from which mean and standard deviation are estimated
DEFAULT_MEMORY = "20/class"
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # what pretrained weights expect


def default_image_size(files: Sequence[ImageFile]) -> int:
    """Height and width to resize images to.

    Images that are all the same square of at most 64 pixels keep their size; all others become 64 x 64.

    Args:
        files: the readable images of a folder.

    Returns:
        The side of the square, in pixels.

    Example:
        >>> from pathlib import Path
        >>> icon = ImageFile(Path("icon.png"), "icons", "train", width=32, height=32)
        >>> photo = ImageFile(Path("photo.jpg"), "photos", "train", width=640, height=480)
        >>> default_image_size([icon]), default_image_size([icon, photo])
        (32, 64)
    """
    shapes = {(file.width, file.height) for file in files}
    width, height = shapes.pop() if len(shapes) == 1 else (0, 1)
    return width if width == height and width <= MAX_DECODED_SIZE else MAX_DECODED_SIZE


def default_channels(files: Sequence[ImageFile]) -> int:
    """Number of channels to decode: 1 if every image is grey, else 3.

    Args:
        files: the readable images of a folder.

    Example:
        >>> from pathlib import Path
        >>> scan = ImageFile(Path("scan.png"), "scans", "train", grey=True)
        >>> photo = ImageFile(Path("photo.jpg"), "photos", "train")
        >>> default_channels([scan]), default_channels([scan, photo])
        (1, 3)
    """
    return 1 if all(file.grey for file in files) else 3


def default_backbone(size: int) -> str:
    """Name of the backbone for images of this size.

    Args:
        size: height and width of the images.

    Example:
        >>> default_backbone(64), default_backbone(224)
        ('medium', 'resnet18-7x7')
    """
    return "medium" if size <= MAX_DECODED_SIZE else "resnet18-7x7"


def default_augmentations(size: int, *, crop: bool = True) -> tuple[Augmentation, ...]:
    """Augmentations for training on images of this size: a random crop and a horizontal flip.

    Args:
        size: height and width of the images.
        crop: False for images that are already cropped at random while they are decoded (see `Photos`).

    Example:
        >>> default_augmentations(32)
        (PadCrop(pad=4), Flip(probability=0.5))
        >>> default_augmentations(224, crop=False)
        (Flip(probability=0.5),)
    """
    if not crop:
        return (Flip(0.5),)
    if size <= MAX_PADDED_SIZE:
        return (PadCrop(max(1, size // 8)), Flip(0.5))
    return (RandomResizedCrop(size, scale=CROP_SCALE), Flip(0.5))


def default_normalisation(inputs: Tensor, photos: Photos | None = None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, estimated on about 2,000 evenly spaced training images.

    Args:
        inputs: uint8 training images (N x C x H x W), or the positions of their files in `photos`.
        photos: decodes the images, if they stay in their files.

    Returns:
        The means and the standard deviations, of pixel values in [0, 1].

    Example:
        >>> default_normalisation(torch.full((4, 1, 2, 2), 51, dtype=torch.uint8))
        ((0.2,), (0.001,))
    """
    positions = torch.arange(0, len(inputs), max(1, len(inputs) // NUM_MEASURED)).split(64)
    if photos:
        return channel_statistics(photos.batches(inputs, positions, augment=False))
    return channel_statistics(inputs[index] for index in positions)
