"""Networks of timm as backbones: features, names of weights, and what is missing."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from upcl.core.errors import UserError
from upcl.nets import LinearHead, Network, frozen_copy, make_backbone, num_features
from upcl.nets.pretrained import load_pretrained
from upcl.nets.timm_backbone import TimmBackbone, import_timm


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_features_equal_those_before_the_classifier_of_timm(timm: ModuleType, name: str) -> None:
    reference = timm.create_model(name, num_classes=10).eval()
    backbone = make_backbone(f"timm:{name}").eval()
    load_pretrained(backbone, f"timm:{name}", reference.state_dict(), Path("weights.safetensors"))
    images = torch.rand(2, 3, 160, 160)
    with torch.no_grad():
        expected = reference.forward_head(reference.forward_features(images), pre_logits=True)
        assert torch.allclose(backbone(images), expected, atol=1e-6)
        frozen = frozen_copy(Network(backbone, LinearHead(backbone.dim)))
        assert torch.allclose(frozen.features(images), expected, atol=1e-5)
    assert backbone.dim == num_features(f"timm:{name}") == expected.shape[1]


def test_the_number_of_features_is_that_after_a_hidden_layer_of_the_classifier(timm: ModuleType) -> None:  # noqa: ARG001
    backbone = TimmBackbone("mobilenetv3_small_050").eval()
    assert backbone(torch.rand(1, 3, 32, 32)).shape == (1, backbone.dim)


def test_grey_images_have_one_channel(timm: ModuleType) -> None:  # noqa: ARG001
    assert make_backbone("timm:test_resnet", channels=1).eval()(torch.rand(1, 1, 32, 32)).shape == (1, 96)


def test_weights_that_do_not_fit_are_refused_by_name(timm: ModuleType) -> None:  # noqa: ARG001
    backbone = make_backbone("timm:test_resnet")
    with pytest.raises(UserError, match=r"w\.pth does not fit timm:test_resnet: .* tensors are missing"):
        load_pretrained(backbone, "timm:test_resnet", {"fc.weight": torch.zeros(1)}, Path("w.pth"))


def test_an_unknown_network_is_refused_with_the_nearest_name(timm: ModuleType) -> None:  # noqa: ARG001
    with pytest.raises(UserError, match=r"unknown network of timm 'resnet188': did you mean .*resnet18"):
        make_backbone("timm:resnet188")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (ImportError("no timm", name="timm"), r"networks of timm need timm: pip install 'upcl\[timm\]'"),
        (RuntimeError("operator torchvision::nms does not exist"), r"timm cannot be imported: operator .* belong"),
    ],
)
def test_without_timm_the_extra_is_named(problem: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_timm(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "timm":
            raise problem
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_timm)
    with pytest.raises(UserError, match=message):
        import_timm()
