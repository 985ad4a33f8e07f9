"""Learning with a pretrained backbone, frozen or fine-tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.nets.test_pretrained import torchvision_weights
from upcl.core.errors import UserError
from upcl.model.learner import Learner
from upcl.model.spec import LearnOptions
from upcl.nets.pretrained import read_weights


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "resnet18.safetensors"
    safetensors.torch.save_file(torchvision_weights("resnet18-7x7"), path)
    return path


def options(weights: Path, **changes: Any) -> LearnOptions:
    return LearnOptions(epochs=1, backbone=str(weights), size=16, memory="2/class", max_forgetting=None, **changes)


@pytest.mark.parametrize("frozen", [True, False])
def test_weights_change_unless_the_backbone_is_frozen(
    frozen: bool, photos: Path, weights: Path, tmp_path: Path
) -> None:
    learner = Learner(tmp_path / "model.upcl").learn(photos / "first", options(weights, method="icarl", frozen=frozen))
    stored = learner.require_bundle().state.weights["backbone.stem.0.0.weight"]
    assert torch.equal(stored, read_weights(weights)["conv1.weight"]) is frozen


def test_upcl_gets_a_projector_on_a_frozen_backbone(photos: Path, weights: Path, tmp_path: Path) -> None:
    learner = Learner(tmp_path / "model.upcl").learn(photos / "first", options(weights, method="upcl", frozen=True))
    assert learner.require_bundle().spec.options["projector"] > 0


def test_a_frozen_backbone_without_anything_to_train_is_an_error(photos: Path, weights: Path, tmp_path: Path) -> None:
    bare = options(weights, method="upcl", frozen=True, options={"projector": 0})
    with pytest.raises(UserError, match="frozen"):
        Learner(tmp_path / "model.upcl").learn(photos / "first", bare)
