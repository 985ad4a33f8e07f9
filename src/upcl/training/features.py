"""Data sets as features of a frozen pretrained backbone, computed once and cached."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.files import write_atomic
from upcl.core.identity import json_sha256
from upcl.core.progress import track
from upcl.core.types import Samples
from upcl.data import Dataset, Transform
from upcl.data.io.paths import cache_root
from upcl.nets import Execution, LinearHead, Network, Precision, frozen_copy

from .precision import choose_precision
from .pretrained import find_pretrained, load_backbone

BATCH_SIZE = 64


def frozen_features(dataset: Dataset, name: str, device: torch.device, precision: Precision | None = None) -> Dataset:
    """Replace the images of a data set by features of a frozen pretrained backbone.

    Images are resized to what the backbone expects. Nothing is augmented: every image is looked at once.

    Args:
        dataset: the data set.
        name: a name as `find_pretrained` takes it.
        device: where to compute.
        precision: what to compute in; by default the faster one on this machine.

    Returns:
        The data set with features (N x dim, half precision) instead of images.

    Raises:
        UserError: if there is no such backbone, or its weights cannot be had.

    Example:
        >>> from upcl.data import load_dataset
        >>> data = load_dataset("synthetic:classes=2,train=4,test=2")
        >>> frozen_features(data, "efficientnet-lite0", torch.device("cpu")).image_shape  # doctest: +SKIP
        (1280,)
    """
    pretrained = find_pretrained(name)
    precision = precision or choose_precision(device, pretrained.size)
    identity = [dataset.fingerprint(), dataset.transform.to_json(), dataclasses.asdict(pretrained), precision]
    path = cache_root() / "features" / f"{json_sha256(identity)[:16]}.safetensors"
    if path.is_file():
        features = safetensors.torch.load_file(path)
    else:
        backbone = load_backbone(name)
        net = Network(backbone, LinearHead(backbone.dim)).to(device)
        net.set_execution(Execution(precision))
        net, expected = frozen_copy(net), Transform(pretrained.mean, pretrained.std)
        features = {}
        with track("computing features", len(dataset.train) + len(dataset.test)) as advance, torch.no_grad():
            for split, samples in (("train", dataset.train), ("test", dataset.test)):
                rows = []
                for images in _batches(dataset, samples):
                    resized = _resized(images.to(device), pretrained.size)
                    rows.append(net.features(expected.test(resized)).half().cpu())
                    advance(len(images))
                features[split] = torch.cat(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, safetensors.torch.save(features))
    return dataclasses.replace(
        dataset,
        train=Samples(features["train"], dataset.train.labels),
        test=Samples(features["test"], dataset.test.labels),
        transform=dataclasses.replace(dataset.transform, photos=None),
    )


def _batches(dataset: Dataset, samples: Samples) -> Iterator[Tensor]:
    """uint8 images, batch by batch."""
    parts = torch.arange(len(samples)).split(BATCH_SIZE)
    photos = dataset.transform.photos
    yield from photos.batches(samples.inputs, parts, augment=False) if photos else (samples.inputs[i] for i in parts)


def _resized(images: Tensor, size: int) -> Tensor:
    """Colour images of the given size, with values in [0, 1]."""
    colour = images.expand(-1, 3, -1, -1).float() / 255
    return F.interpolate(colour, size=(size, size), mode="bilinear", antialias=True, align_corners=False).clamp(0, 1)
