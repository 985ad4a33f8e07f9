"""Pretrained weights of ResNet-18, 34 and 50, under the names that torchvision and timm use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from upcl.core.errors import UserError

from .backbones import BackboneConfig, FeatureExtractor
from .registry import RESNETS

PRETRAINED = ("resnet18-7x7", "resnet34-7x7", "resnet50-7x7")
_PREFIXES = ("module.", "model.", "backbone.", "encoder.", "state_dict.")
_CONVOLUTIONS = {"1": "first", "2": "second", "3": "third"}
_SHOWN = 3  # names in a message


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file or a PyTorch state dict; no code in the file is executed.

    Args:
        path: the file. A state dict may be nested under "state_dict", "model" or "model_state_dict".

    Returns:
        The tensors by name.

    Raises:
        UserError: If the file does not exist or contains no named tensors.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "weights.pth"
        >>> torch.save({"state_dict": {"fc.bias": torch.zeros(2)}}, path)
        >>> list(read_weights(path))
        ['fc.bias']
    """
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except Exception as error:  # readers of pickles and archives raise many types for files that are neither
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"cannot read weights from {path}: {reason[0]}") from None
    while not isinstance(content, Mapping) or not any(isinstance(value, Tensor) for value in content.values()):
        if not isinstance(content, Mapping):
            raise UserError(f"{path} is not a state dict but a {type(content).__name__}")
        inner = [content[key] for key in ("state_dict", "model", "model_state_dict") if key in content]
        if not inner:
            raise UserError(f"{path} contains no named tensors")
        content = inner[0]
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def infer_backbone(weights: Mapping[str, Tensor], path: Path) -> str:
    """Find out which backbone weights belong to, from their blocks.

    Args:
        weights: tensors under the names that torchvision and timm use.
        path: where they come from, for messages.

    Returns:
        A key of `RESNETS`.

    Raises:
        UserError: If they are not those of a ResNet-18, 34 or 50.

    Example:
        >>> names = [f"layer{stage}.{block}.conv1.weight" for stage in range(1, 5) for block in range(2)]
        >>> infer_backbone({name: torch.zeros(1) for name in names}, Path("resnet18.pth"))
        'resnet18-7x7'
    """
    names = set(_plain_names(weights))
    blocks = [len({n.split(".")[1] for n in names if n.startswith(f"layer{i}.")}) for i in range(1, 5)]
    bottleneck = any(".conv3." in name for name in names)
    for name in PRETRAINED:
        config = RESNETS[name]
        if config.blocks_per_stage() == blocks and config.bottleneck == bottleneck:
            return name
    raise UserError(
        f"{path} is not a ResNet-18, 34 or 50: its stages have {blocks} blocks; its first names are "
        f"{', '.join(sorted(weights)[:_SHOWN])}"
    )


def _plain_names(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """The names in the file, by the same names without prefixes."""
    found = {}
    for name in weights:
        plain = name
        while prefix := next((p for p in _PREFIXES if plain.startswith(p)), None):
            plain = plain.removeprefix(prefix)
        found[plain] = name
    return found


def _our_name(name: str, config: BackboneConfig) -> str | None:
    """Our name for one of torchvision's; None for what a backbone does not have (classifier, counters)."""
    if name.startswith(("fc.", "head.", "classifier.")) or name.endswith("num_batches_tracked"):
        return None
    if found := re.fullmatch(r"(conv|bn)1\.(\w+)", name):
        return f"stem.0.{int(found[1] == 'bn')}.{found[2]}"
    if found := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", name):
        stage, block, kind, part, rest = found.groups()
        return f"blocks.{_block_index(stage, block, config)}.{_CONVOLUTIONS.get(part, part)}.{int(kind == 'bn')}.{rest}"
    if found := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.(\d)\.(\w+)", name):
        stage, block, part, rest = found.groups()
        return f"blocks.{_block_index(stage, block, config)}.shortcut.{part}.{rest}"
    return name


def _block_index(stage: str, block: str, config: BackboneConfig) -> int:
    return sum(config.blocks_per_stage()[: int(stage) - 1]) + int(block)


def load_pretrained(backbone: FeatureExtractor, name: str, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights into a backbone; all of them must fit.

    Args:
        backbone: the backbone to fill.
        name: its key in `RESNETS`.
        weights: tensors under the names that torchvision and timm use; a classifier among them is ignored.
        path: where they come from, for messages.

    Raises:
        UserError: If tensors are missing, unexpected or of another shape; the message names some.

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
    own = {key: value for key, value in backbone.state_dict().items() if not key.endswith("num_batches_tracked")}
    given = {
        ours: weights[theirs]
        for plain, theirs in _plain_names(weights).items()
        if (ours := _our_name(plain, RESNETS[name])) is not None
    }
    problems = {
        "missing": sorted(own.keys() - given.keys()),
        "unexpected": sorted(given.keys() - own.keys()),
        "of another shape": [key for key in own if key in given and own[key].shape != given[key].shape],
    }
    for problem, names in problems.items():
        if names:
            shown = ", ".join(names[:_SHOWN])
            raise UserError(f"{path} does not fit {name}: {len(names)} tensors are {problem}, such as {shown}")
    backbone.load_state_dict(given, strict=False)
