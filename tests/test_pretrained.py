"""Weights from elsewhere, in files that the test makes: names and wrappings of torchvision and timm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from upcl import UserError
from upcl.model.learner import Learner
from upcl.model.spec import LearnOptions
from upcl.nets import make_backbone
from upcl.nets.pretrained import KNOWN, infer_backbone, load_pretrained, read_weights

from .test_models import photos

__all__ = ["photos"]
STAGES = {"resnet18-7x7": (2, 2, 2, 2), "resnet34-7x7": (3, 4, 6, 3), "resnet50-7x7": (3, 4, 6, 3)}


def theirs(name: str) -> dict[str, Tensor]:
    """Our fresh weights under torchvision's names, with a classifier and counters, as their files have."""
    backbone = make_backbone(name)
    ends = [sum(STAGES[name][: i + 1]) for i in range(4)]
    found = {}
    for key, value in backbone.state_dict().items():
        key = re.sub(r"^stem\.0\.0", "conv1", re.sub(r"^stem\.0\.1", "bn1", key))
        if block := re.match(r"blocks\.(\d+)\.", key):
            place = int(block[1])
            stage = next(i for i, end in enumerate(ends) if place < end)
            inside = place - (ends[stage - 1] if stage else 0)
            rest = key[block.end() :].replace("shortcut.", "downsample.")
            for word, number in (("first", 1), ("second", 2), ("third", 3)):
                rest = re.sub(rf"^{word}\.0", f"conv{number}", re.sub(rf"^{word}\.1", f"bn{number}", rest))
            key = f"layer{stage + 1}.{inside}.{rest}"
        found[key] = value + 0.01 * torch.rand_like(value) if value.is_floating_point() else value
    return {**found, "fc.weight": torch.randn(1000, backbone.dim), "fc.bias": torch.randn(1000)}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("style", ["torchvision.pth", "timm.safetensors", "wrapped.pth"])
def test_both_styles_are_understood(name: str, style: str, tmp_path: Path) -> None:
    weights, path = theirs(name), tmp_path / style
    if style.startswith("timm"):
        safetensors.torch.save_file(weights, path)
    else:
        wrapped = {f"module.{k}": v for k, v in weights.items()}
        torch.save({"state_dict": wrapped} if style.startswith("wrapped") else weights, path)
    read = read_weights(path)
    assert infer_backbone(read, path) == name
    backbone = make_backbone(name)
    load_pretrained(backbone, name, read, path)
    own = backbone.state_dict()
    assert torch.equal(own["stem.0.0.weight"], weights["conv1.weight"])
    last = "third" if "50" in name else "second"
    number = 3 if "50" in name else 2
    at, end = len(backbone.blocks) - 1, STAGES[name][3] - 1
    assert torch.equal(own[f"blocks.{at}.{last}.0.weight"], weights[f"layer4.{end}.conv{number}.weight"])
    assert torch.equal(own[f"blocks.{at}.{last}.1.running_var"], weights[f"layer4.{end}.bn{number}.running_var"])


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    weights, path = theirs("resnet18-7x7"), tmp_path / "w.pth"
    backbone = make_backbone("resnet18-7x7")
    with pytest.raises(UserError, match=r"lacks stem\.0\.0\.weight"):
        load_pretrained(backbone, "resnet18-7x7", {k: v for k, v in weights.items() if k != "conv1.weight"}, path)
    with pytest.raises(UserError, match=r"another shape stem\.0\.0\.weight"):
        load_pretrained(backbone, "resnet18-7x7", {**weights, "conv1.weight": torch.zeros(64, 1, 7, 7)}, path)
    with pytest.raises(UserError, match="unknown to us, strange"):
        load_pretrained(backbone, "resnet18-7x7", {**weights, "strange": torch.zeros(1)}, path)
    with pytest.raises(UserError, match=r"no ResNet-18, 34 or 50: its stages have \[0, 0, 0, 0\] blocks"):
        infer_backbone({"x": torch.zeros(1)}, path)
    path.write_bytes(b"no weights")
    with pytest.raises(UserError, match="cannot be read as weights"):
        read_weights(path)
    with pytest.raises(UserError, match="there is no file"):
        read_weights(tmp_path / "missing.safetensors")


def test_learning_from_a_pretrained_backbone_frozen_or_not(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file(theirs("resnet18-7x7"), path)
    weights = {"epochs": 1, "backbone": str(path), "size": 16, "memory": "2/class", "max_forgetting": None}
    for frozen in (True, False):
        asked = LearnOptions(method="icarl", frozen=frozen, **weights)  # type: ignore[arg-type]
        learner = Learner(tmp_path / f"{frozen}.upcl").learn(photos / "first", asked)
        stored = learner.require_bundle().state.weights["backbone.stem.0.0.weight"]
        assert torch.equal(stored, read_weights(path)["conv1.weight"]) is frozen
    learner = Learner(tmp_path / "upcl.upcl").learn(photos / "first", LearnOptions(frozen=True, **weights))  # type: ignore[arg-type]
    assert learner.require_bundle().spec.options["projector"] > 0
    bare = LearnOptions(frozen=True, options={"projector": 0}, **weights)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="nothing to learn when the backbone stands still"):
        Learner(tmp_path / "bare.upcl").learn(photos / "first", bare)
