"""Pretrained weights of residual and mobile networks, under the names that torchvision, timm and others use."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import check_archive
from upcl.core.pickles import check_nesting, check_torch_archive

from .extractors import FeatureExtractor
from .mobile import rename_efficientnet, rename_mobilenet
from .registry import RESNETS, make_backbone
from .timm_backbone import TimmBackbone

_PREFIXES = ("module.", "model.", "backbone.", "encoder.", "state_dict.")
_CLASSIFIERS = ("fc.", "_fc.", "head.", "classifier.")
_CONVOLUTIONS = {"1": "first", "2": "second", "3": "third"}
_SHOWN = 3  # names in a message
_MAX_NAME = 250  # characters of a tensor's name
_LEGACY_PICKLES = 5  # in a file of PyTorch before 1.6: two numbers, the system, the object and its storages
_MAX_NESTING = 4  # a state dict under "model" under "state_dict", for example


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file or a PyTorch state dict; no code in the file is executed.

    Args:
        path: the file. A state dict may be nested under "state_dict", "model" or "model_state_dict".

    Returns:
        The tensors by name.

    Raises:
        UserError: If the file does not exist or contains no named tensors, or tensors that are sparse or quantised.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "weights.pth"
        >>> torch.save({"state_dict": {"fc.bias": torch.zeros(2)}}, path)
        >>> list(read_weights(path))
        ['fc.bias']
    """
    if not path.is_file():
        raise UserError(f"no such file: {path}")
    try:
        content: Any = _load(path)
    except Exception as error:  # readers of pickles and archives raise many types for files that are neither
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"cannot read weights from {path}: {reason[0]}") from None
    for _ in range(_MAX_NESTING):
        if not isinstance(content, Mapping):
            raise UserError(f"{path} is not a state dict but a {type(content).__name__}")
        tensors = {name: value for name, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return _checked(tensors, path)
        content = next((content[key] for key in ("state_dict", "model", "model_state_dict") if key in content), {})
    raise UserError(f"{path} contains no named tensors")


def _load(path: Path) -> Any:
    if path.suffix == ".safetensors":
        return safetensors.torch.load_file(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_archive(path, archive)
            check_torch_archive(archive)
    else:
        with path.open("rb") as file:
            for _ in range(_LEGACY_PICKLES):
                check_nesting(file)
    return torch.load(path, map_location="cpu", weights_only=True)


def _checked(tensors: Mapping[Any, Tensor], path: Path) -> dict[str, Tensor]:
    """Tensors that a network can be filled with."""
    for name, value in tensors.items():
        if not isinstance(name, str) or len(name) > _MAX_NAME:
            raise UserError(f"{path} has a tensor whose name is not text of at most {_MAX_NAME} characters")
        if value.layout is not torch.strided or value.is_quantized or value.is_meta or value.is_nested:
            raise UserError(f"{path}: {name} is sparse, quantised or without values: save it as a plain tensor")
    return dict(tensors)


def infer_backbone(weights: Mapping[str, Tensor], path: Path) -> str:
    """Find out which backbone weights belong to, from their names and shapes.

    Args:
        weights: tensors under the names that torchvision, timm or EfficientNet-PyTorch use.
        path: where they come from, for messages.

    Returns:
        The key in `PRETRAINED` that shares the most tensors with them.

    Raises:
        UserError: If most tensors fit none of these backbones.

    Example:
        >>> from upcl.nets import make_backbone
        >>> infer_backbone(make_backbone("mobilenet-v2").state_dict(), Path("mobile.pth"))
        'mobilenet-v2'
        >>> infer_backbone({"x": torch.zeros(1)}, Path("other.pth"))
        Traceback (most recent call last):
        upcl.core.errors.UserError: other.pth fits none of resnet18-7x7, ...: its first names are x
    """

    def overlap(name: str) -> float:
        own, given = _shapes(make_backbone(name)), {key: v.shape for key, v in _renamed(name, weights).items()}
        return len(own.items() & given.items()) / len(own.keys() | given.keys())

    overlaps = {name: overlap(name) for name in PRETRAINED}
    best = max(overlaps, key=lambda name: overlaps[name])
    if overlaps[best] > 1 / 2:
        return best
    names = ", ".join(sorted(weights)[:_SHOWN])
    raise UserError(f"{path} fits none of {', '.join(PRETRAINED)}: its first names are {names}")


def _shapes(backbone: FeatureExtractor) -> dict[str, torch.Size]:
    """Shapes of a backbone's tensors by name, without counters."""
    state = backbone.state_dict()
    return {key: value.shape for key, value in state.items() if not key.endswith("num_batches_tracked")}


def _renamed(name: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names, without classifiers and counters."""
    return {
        PRETRAINED[name](plain): weights[theirs]
        for plain, theirs in _plain_names(weights).items()
        if not plain.startswith(_CLASSIFIERS) and not plain.endswith("num_batches_tracked")
    }


def _timm_names(backbone: TimmBackbone, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names, without classifiers and counters."""
    ignored = backbone.classifiers
    return {
        f"net.{name}": value
        for name, value in weights.items()
        if not name.startswith(ignored) and not name.endswith("num_batches_tracked")
    }


def _plain_names(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """The names in the file, by the same names without prefixes."""
    found = {}
    for name in weights:
        plain = name
        while prefix := next((p for p in _PREFIXES if plain.startswith(p)), None):
            plain = plain.removeprefix(prefix)
        found[plain] = name
    return found


def _rename_resnet(name: str, backbone: str) -> str:
    """Our name for one of torchvision's, or the name itself if it is not one of them."""
    if found := re.fullmatch(r"(conv|bn)1\.(\w+)", name):
        return f"stem.0.{int(found[1] == 'bn')}.{found[2]}"
    if found := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", name):
        stage, block, kind, part, rest = found.groups()
        at = _block_index(stage, block, backbone)
        return f"blocks.{at}.{_CONVOLUTIONS.get(part, part)}.{int(kind == 'bn')}.{rest}"
    if found := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.(\d)\.(\w+)", name):
        stage, block, part, rest = found.groups()
        return f"blocks.{_block_index(stage, block, backbone)}.shortcut.{part}.{rest}"
    return name


def _block_index(stage: str, block: str, backbone: str) -> int:
    return sum(RESNETS[backbone].blocks_per_stage()[: int(stage) - 1]) + int(block)


PRETRAINED: dict[str, Callable[[str], str]] = {
    **{name: partial(_rename_resnet, backbone=name) for name in ("resnet18-7x7", "resnet34-7x7", "resnet50-7x7")},
    "mobilenet-v2": rename_mobilenet,
    "efficientnet-lite0": rename_efficientnet,
}
"""Backbones for which pretrained weights can be loaded, each with what turns names in files into ours."""


def load_pretrained(backbone: FeatureExtractor, name: str, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights into a backbone; all of them must fit.

    Args:
        backbone: the backbone to fill.
        name: its key in `PRETRAINED`, or `timm:NAME`.
        weights: tensors under the names that `infer_backbone` knows, or timm's; a classifier among them is ignored.
        path: where they come from, for messages.

    Raises:
        UserError: If tensors are missing, unexpected, of another shape or type, or not finite; the message names some.

    Example:
        >>> from upcl.nets import make_backbone
        >>> path = Path("resnet18.pth")
        >>> weights = read_weights(path)  # doctest: +SKIP
        >>> name = infer_backbone(weights, path)  # doctest: +SKIP
        >>> load_pretrained(make_backbone(name), name, weights, path)  # doctest: +SKIP
        >>> load_pretrained(make_backbone("resnet18-7x7"), "resnet18-7x7", {}, path)
        Traceback (most recent call last):
        upcl.core.errors.UserError: resnet18.pth does not fit resnet18-7x7: 100 tensors are missing, such as ...
    """
    own = _shapes(backbone)
    given = _timm_names(backbone, weights) if isinstance(backbone, TimmBackbone) else _renamed(name, weights)
    both, floats = own.keys() & given.keys(), {key for key, v in backbone.state_dict().items() if v.is_floating_point()}
    problems = {
        "missing": sorted(own.keys() - given.keys()),
        "unexpected": sorted(given.keys() - own.keys()),
        "of another shape": sorted(key for key in both if own[key] != given[key].shape),
        "of another type": sorted(key for key in both if given[key].is_floating_point() != (key in floats)),
    }
    if not any(problems.values()):  # they are as large as the backbone's, so that this takes little memory
        problems["not finite"] = sorted(key for key, value in given.items() if not value.float().isfinite().all())
    for problem, names in problems.items():
        if names:
            shown = ", ".join(names[:_SHOWN])
            raise UserError(f"{path} does not fit {name}: {len(names)} tensors are {problem}, such as {shown}")
    backbone.load_state_dict(given, strict=False)
