"""The slimmable backbone of ScrollNet."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from upcl.core.errors import UserError
from upcl.nets import SlimmableBackbone
from upcl.nets.registry import RESNETS
from upcl.nets.slimmable import Roll


@pytest.mark.parametrize("scroll", [1, 5])
def test_effective_channels_are_rolled_stored_channels(scroll: int) -> None:
    roll = Roll(4)
    roll.scroll = scroll % 4
    assert roll.take(torch.arange(8)).tolist() == [2, 3, 4, 5, 6, 7, 0, 1]
    roll.width = 2
    assert roll.take(torch.arange(8)).tolist() == [2, 3, 4, 5]
    assert roll.put(torch.tensor([-1, -2, -3, -4]), torch.arange(8)).tolist() == [0, 1, -1, -2, -3, -4, 6, 7]


def test_batch_norms_roll_with_their_channels() -> None:
    torch.manual_seed(0)
    backbone = SlimmableBackbone(RESNETS["small"], 3, 4).eval()
    for name, value in backbone.named_parameters():
        if "norms" in name:
            nn.init.uniform_(value, 0.5, 1.5)
    for buffer in backbone.buffers():
        nn.init.uniform_(buffer, 0.5, 1.5)
    images, outputs = torch.randn(2, 3, 8, 8), []
    for scroll in range(4):
        backbone.roll.scroll = scroll
        outputs.append(backbone(images))
    assert all(torch.allclose(outputs[0], other, atol=1e-4) for other in outputs), "at full width nothing is left out"
    narrow = backbone.at_width(images, 1)
    used = narrow.abs().sum(0) > 0
    assert used.nonzero().min() >= 96, "the fourth group of 128 features"


def test_scrolled_weights_are_contiguous_in_every_width() -> None:
    """oneDNN's backward of a convolution wrote past its memory for weights that are views, from 48 pixels on."""
    backbone = SlimmableBackbone(RESNETS["small"], 3, 4)
    backbone.roll.scroll = 1
    for width in (1, 2, 3, 4):
        backbone.at_width(torch.randn(2, 3, 64, 64), width).square().sum().backward()
        backbone.roll.width = width
        assert all(
            backbone.roll.take(p, axis).is_contiguous() for p in backbone.parameters() if p.ndim == 4 for axis in (0, 1)
        )
        backbone.roll.width = 4


def test_the_scroll_is_saved_with_the_weights() -> None:
    backbone, other = (SlimmableBackbone(RESNETS["small"], 3, 4) for _ in range(2))
    backbone.roll.scroll = 3
    other.load_state_dict(backbone.state_dict())
    assert other.roll.scroll == 3


def test_the_full_width_is_restored_after_a_narrow_pass() -> None:
    backbone = SlimmableBackbone(RESNETS["small"], 3, 4)
    backbone.at_width(torch.randn(2, 3, 8, 8), 1)
    assert backbone.roll.width == 4


def test_groups_must_divide_the_widths() -> None:
    with pytest.raises(UserError, match=r"5 sub-networks must divide the widths \(32, 64, 128\)"):
        SlimmableBackbone(RESNETS["small"], 3, 5)
