"""The frozen network of a model: where its weights come from, and the features that it computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.core.identity import weights_sha256
from upcl.core.seeding import preserve_rng_state
from upcl.methods import Method
from upcl.nets import frozen_copy, num_features
from upcl.nets.pretrained import load_pretrained, read_weights
from upcl.training.precision import choose_precision
from upcl.training.pretrained import is_pretrained, weights_file

from .bundle import ModelSpec, ModelState
from .intake import NewImages, image_digest
from .photo_features import BATCH_SIZE, DIGEST_DIGITS, FeatureCache, feature_cache
from .sources import fit_images, split_images
from .spec import make_method


def load_pretrained_weights(method: Method[Any], spec: ModelSpec) -> None:
    """Load the pretrained weights that a new model starts from into its backbone.

    Args:
        method: a method built by `make_method`.
        spec: what the model is made with.

    Raises:
        UserError: if the weights are missing, damaged, or do not fit.

    Example:
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> load_pretrained_weights(make_method(spec, 2, torch.device("cpu")), spec)  # nothing to do
    """
    if spec.pretrained:
        file = weights_file(spec.pretrained) if is_pretrained(spec.pretrained) else Path(spec.pretrained)
        load_pretrained(method.net.backbone, spec.backbone, read_weights(file), file)


def backbone_weights(state: ModelState) -> dict[str, Tensor]:
    """The weights of the backbone of a state, by their names in the backbone.

    Args:
        state: the state.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> weights = {"backbone.stem": torch.zeros(1), "head.weight": torch.zeros(2)}
        >>> list(backbone_weights(ModelState(weights, (1,), ("cat",), NO_SAMPLES, NO_SAMPLES)))
        ['stem']
    """
    prefix = "backbone."
    return {name.removeprefix(prefix): value for name, value in state.weights.items() if name.startswith(prefix)}


def feature_extractor(
    spec: ModelSpec, state: ModelState | None, device: torch.device
) -> tuple[Callable[[Tensor], Tensor], FeatureCache]:
    """What computes the features of photos, and the cache of those computed before.

    Args:
        spec: what the model is made with.
        state: the state of the model, which holds the network; None for a new model, which loads pretrained weights.
        device: where to compute.

    Returns:
        A function from uint8 images (B x 3 x size x size) to features (B x dim), and the cache.

    Raises:
        UserError: if the weights are missing, damaged, or do not fit.

    Example:
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> compute, cache = feature_extractor(spec, None, torch.device("cpu"))
        >>> compute(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([2, 128])
    """
    precision = choose_precision(device, spec.size)
    with preserve_rng_state():
        method = make_method(spec, 1, device, precision=precision)
    if state:
        method.net.backbone.load_state_dict(backbone_weights(state))
    else:
        load_pretrained_weights(method, spec)
    net, transform = frozen_copy(method.net), method.setting.transform
    weights = weights_sha256(method.net.backbone.state_dict())
    identity = f"{weights} {spec.size} {spec.mean} {spec.std} {precision}"

    @torch.no_grad()
    def compute(images: Tensor) -> Tensor:
        return torch.cat([net.features(transform.test(part.to(device))) for part in split_images(images)])

    return compute, feature_cache(identity, method.net.backbone.dim)


def extract_images(images: NewImages, spec: ModelSpec, compute: Callable[[Tensor], Tensor]) -> NewImages:
    """Replace images in memory by their features.

    Args:
        images: uint8 images (N x C x H x W) of any size.
        spec: what the model is made with.
        compute: as `feature_extractor` returns it.

    Example:
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> pixels = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
        >>> compute, _ = feature_extractor(spec, None, torch.device("cpu"))
        >>> extract_images(NewImages(pixels, ["cat", "cat"], pixels[:1], ["cat"]), spec, compute).train.shape
        torch.Size([2, 128])
    """
    dim = num_features(spec.backbone)

    def features(part: Tensor) -> Tensor:
        squares = (fit_images(images, spec) for images in part.split(BATCH_SIZE) if len(images))
        return torch.cat([torch.empty(0, dim).half(), *(compute(batch).half().cpu() for batch in squares)])

    digests = [[image_digest(image)[:DIGEST_DIGITS] for image in part] for part in (images.train, images.held_out)]
    train, held_out = features(images.train), features(images.held_out)
    return dataclasses.replace(images, train=train, held_out=held_out, digests=(digests[0], digests[1]))
