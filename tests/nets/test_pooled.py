"""The pooled backbone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.runs import quick_run
from upcl.core.errors import UserError
from upcl.nets import LinearHead, Network, frozen_copy, make_backbone
from upcl.nets.pooled import ConvPool, PooledBackbone, PooledConfig, Residual


def test_a_stage_by_hand() -> None:
    torch.manual_seed(0)
    stage, maps = ConvPool(3, 5).eval(), torch.randn(2, 3, 6, 6)
    stage.norm.running_mean = torch.rand(5)
    wanted = F.max_pool2d(F.conv2d(maps, stage.conv.weight, padding=1), 2) - stage.norm.running_mean[:, None, None]
    assert torch.allclose(stage(maps), F.relu(wanted), atol=1e-4)


def test_a_residual_block_adds_to_its_input() -> None:
    block, maps = Residual(4).eval(), torch.rand(2, 4, 6, 6)
    torch.nn.init.zeros_(block.second[0].weight)  # type: ignore[arg-type]
    assert torch.equal(block(maps), maps)


@pytest.mark.parametrize("size", [7, 8, 28, 32, 33])
def test_any_size_of_image_is_accepted(size: int) -> None:
    config = PooledConfig((4, 8, 8, 16), residual=(3,), dim=24)
    assert PooledBackbone(config, 1, last_relu=True)(torch.rand(2, 1, size, size)).shape == (2, 24)


def test_a_teacher_with_folded_norms_has_the_same_features() -> None:
    torch.manual_seed(0)
    backbone = make_backbone("pooled")
    for _ in range(3):
        backbone(torch.randn(8, 3, 32, 32))  # moves the statistics
    net, images = Network(backbone, LinearHead(backbone.dim)).eval(), torch.randn(4, 3, 32, 32)
    assert torch.allclose(frozen_copy(net).features(images), net.features(images), atol=1e-4)


@pytest.mark.parametrize("method", ["upcl", "icarl", "lucir"])
def test_methods_learn_with_it(method: str) -> None:
    record = quick_run(method, backbone="pooled", tasks=2)
    assert record.finished


def test_scrollnet_refuses_it() -> None:
    with pytest.raises(UserError, match="splits residual stages"):
        quick_run("scrollnet", backbone="pooled")
