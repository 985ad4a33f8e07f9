"""Weights that were learned elsewhere: ResNet-18, 34 and 50 under the names that torchvision and timm give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from upcl.core.errors import UserError

from .backbones import BACKBONES, BackboneConfig, FeatureExtractor

WRAPPERS = ("module.", "model.", "backbone.", "encoder.", "state_dict.")
PARTS = {"1": "first", "2": "second", "3": "third"}
KNOWN = ("resnet18-7x7", "resnet34-7x7", "resnet50-7x7")
SHOWN = 3  # names in a message


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or a state dict; no code of the file is run."""
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except Exception as error:  # readers of pickles and archives raise many kinds for what is neither
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{path} cannot be read as weights: {told[0]}") from None
    while not isinstance(content, Mapping) or not any(isinstance(value, Tensor) for value in content.values()):
        if not isinstance(content, Mapping):
            raise UserError(f"{path} holds no tensors under names but {type(content).__name__}")
        inner = [content[key] for key in ("state_dict", "model", "model_state_dict") if key in content]
        if not inner:
            raise UserError(f"{path} holds no tensors under names")
        content = inner[0]
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def infer_backbone(weights: Mapping[str, Tensor], path: Path) -> str:
    """Which of our backbones these weights are of, by their blocks."""
    names = set(_plain_names(weights))
    blocks = [len({n.split(".")[1] for n in names if n.startswith(f"layer{i}.")}) for i in range(1, 5)]
    bottleneck = any(".conv3." in name for name in names)
    for name in KNOWN:
        shape = BACKBONES[name]
        if shape.stages() == blocks and shape.bottleneck == bottleneck:
            return name
    raise UserError(
        f"{path} is no ResNet-18, 34 or 50: its stages have {blocks} blocks; its first names are "
        f"{', '.join(sorted(weights)[:SHOWN])}"
    )


def _plain_names(weights: Mapping[str, Tensor]) -> dict[str, str]:
    """The file's names without what wraps them, and as they are."""
    found = {}
    for name in weights:
        plain = name
        while wrapper := next((w for w in WRAPPERS if plain.startswith(w)), None):
            plain = plain.removeprefix(wrapper)
        found[plain] = name
    return found


def _ours(name: str, shape: BackboneConfig) -> str | None:
    """Our name for one of theirs; None for what a backbone has not (the classifier, counters)."""
    if name.startswith(("fc.", "head.", "classifier.")) or name.endswith("num_batches_tracked"):
        return None
    if found := re.fullmatch(r"(conv|bn)1\.(\w+)", name):
        return f"stem.0.{int(found[1] == 'bn')}.{found[2]}"
    if found := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", name):
        stage, block, kind, part, rest = found.groups()
        return f"blocks.{_place(stage, block, shape)}.{PARTS.get(part, part)}.{int(kind == 'bn')}.{rest}"
    if found := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.(\d)\.(\w+)", name):
        stage, block, part, rest = found.groups()
        return f"blocks.{_place(stage, block, shape)}.shortcut.{part}.{rest}"
    return name


def _place(stage: str, block: str, shape: BackboneConfig) -> int:
    return sum(shape.stages()[: int(stage) - 1]) + int(block)


def load_pretrained(backbone: FeatureExtractor, name: str, weights: Mapping[str, Tensor], path: Path) -> None:
    """Fill a backbone; whatever is missing, left over or of another shape is named."""
    own = {key: value for key, value in backbone.state_dict().items() if not key.endswith("num_batches_tracked")}
    given = {
        ours: weights[theirs]
        for plain, theirs in _plain_names(weights).items()
        if (ours := _ours(plain, BACKBONES[name])) is not None
    }
    missing, strange = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    wrong = [key for key in own if key in given and own[key].shape != given[key].shape]
    for names, told in ((missing, "lacks"), (strange, "has, unknown to us,"), (wrong, "has in another shape")):
        if names:
            raise UserError(f"{path} does not fit {name}: it {told} {', '.join(names[:SHOWN])} ({len(names)} in all)")
    backbone.load_state_dict(given, strict=False)
