"""Data sets as features of a frozen backbone: resized, computed once, cached; and runs on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from upcl import Request, run
from upcl.core.errors import UserError
from upcl.data import load_dataset
from upcl.nets import BACKBONES, FeatureExtractor, make_backbone
from upcl.research.report.rerun import train_command
from upcl.training import features
from upcl.training.pretrained import PRETRAINED_BACKBONES, PretrainedBackbone

DATA = "synthetic:classes=4,train=6,test=3"


class Means(FeatureExtractor):
    """Stands for a pretrained backbone: the mean of each channel, repeated; counts the images that it sees."""

    dim = BACKBONES["small"].dim
    seen = 0

    def forward(self, images: Tensor) -> Tensor:
        assert images.shape[1:] == (3, 24, 24)
        Means.seen += len(images)
        return images.mean((2, 3)).repeat(1, 43)[:, : self.dim]


@pytest.fixture
def pretrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small backbone of random weights under the name of a pretrained one."""
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(PRETRAINED_BACKBONES, "means", PretrainedBackbone("small", "here", "", 0, "none", size=24))
    monkeypatch.setattr(features, "load_backbone", lambda _: Means())
    monkeypatch.setattr("upcl.research.run.load_backbone", lambda _: make_backbone("small"))
    Means.seen = 0
    return "means"


def test_images_are_resized_normalised_and_looked_at_once(pretrained: str) -> None:
    data = load_dataset(DATA)
    found = features.frozen_features(data, pretrained, torch.device("cpu"))
    assert found.train.inputs.dtype == torch.float16 and found.image_shape == (BACKBONES["small"].dim,)
    assert torch.equal(found.test.labels, data.test.labels) and Means.seen == len(data.train) + len(data.test)
    mean, std = PRETRAINED_BACKBONES[pretrained].mean[0], PRETRAINED_BACKBONES[pretrained].std[0]
    red = data.train.inputs[:, 0].float().mean((1, 2)) / 255
    assert torch.allclose(found.train.inputs[:, 0].float(), (red - mean) / std, atol=0.02)
    again = features.frozen_features(data, pretrained, torch.device("cpu"))
    assert Means.seen == len(data.train) + len(data.test), "computed again"
    assert torch.equal(again.train.inputs, found.train.inputs)


def test_grey_images_become_colour(pretrained: str) -> None:
    data = load_dataset("digits:train=3,test=2")
    assert features.frozen_features(data, pretrained, torch.device("cpu")).test.inputs.shape == (20, 128)


@pytest.mark.parametrize("method", ["ridge", "icarl", "fetril"])
def test_methods_run_on_features(method: str, pretrained: str, tmp_path: Path) -> None:
    request = Request(method=method, data=DATA, backbone=pretrained, frozen=True, tasks=2, epochs=2)
    record = run(request, out=tmp_path / "run")
    assert record.config.backbone == "frozen:means" and record.config.frozen_backbone == "means"
    assert record.a_last.head is not None
    assert "--backbone means --frozen" in train_command(record)
    assert run(request, out=tmp_path / "run", resume=True).weights_sha256 == record.weights_sha256


def test_mistakes_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="torchvision:resnet18 is a pretrained backbone: add --frozen"):
        run(Request(method="ncm", data=DATA, backbone="torchvision:resnet18"))
    with pytest.raises(UserError, match="unknown pretrained backbone 'smal'"):
        run(Request(method="ncm", data=DATA, backbone="smal", frozen=True))
    monkeypatch.setattr("upcl.research.config.default_pretrained", lambda: None)
    with pytest.raises(UserError, match=r"pip install 'upcl\[photos\]'"):
        run(Request(method="ncm", data=DATA, frozen=True))
