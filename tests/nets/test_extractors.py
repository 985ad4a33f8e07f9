"""What backbones show of an image, stage by stage."""

from __future__ import annotations

import pytest
import torch

from upcl.nets import make_backbone
from upcl.nets.extractors import StagedExtractor, pool_map


@pytest.mark.parametrize(
    ("name", "last"), [("small", 230_144), ("resnet32", 351_488), ("resnet18", 8_393_728), ("pooled", 435_968)]
)
@pytest.mark.parametrize("last_relu", [True, False])
def test_both_parts_of_a_divided_backbone_are_the_backbone(name: str, last: int, last_relu: bool) -> None:
    torch.manual_seed(0)
    backbone, images = make_backbone(name, last_relu=last_relu).eval(), torch.randn(2, 3, 16, 16)
    assert isinstance(backbone, StagedExtractor)
    shared, stage = backbone.divide()
    assert torch.equal(stage(shared(images)), backbone(images)) and stage.dim == backbone.dim
    sizes = [sum(p.numel() for p in part.parameters()) for part in (shared, stage, backbone)]
    assert sizes[0] + sizes[1] == sizes[2] and sizes[1] == last


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("resnet18", [(64, 32), (128, 16), (256, 8), (512, 4)]),
        ("resnet18-7x7", [(64, 8), (128, 4), (256, 2), (512, 1)]),
        ("resnet50-7x7", [(256, 8), (512, 4), (1024, 2), (2048, 1)]),
        ("resnet32", [(16, 32), (32, 16), (64, 8)]),
        ("pooled", [(16, 32), (32, 16), (64, 8), (512, 4)]),
        ("mobilenet-v2", [(16, 16), (24, 8), (32, 4), (64, 2), (96, 2), (160, 1), (1280, 1)]),
    ],
)
@pytest.mark.parametrize("last_relu", [True, False])
def test_maps_of_all_stages_end_with_that_of_the_features(
    name: str, shapes: list[tuple[int, int]], last_relu: bool
) -> None:
    torch.manual_seed(0)
    backbone = make_backbone(name, last_relu=last_relu).eval()
    assert isinstance(backbone, StagedExtractor)
    with torch.no_grad():
        maps = backbone.stage_maps(images := torch.randn(2, 3, 32, 32))
        assert [(m.shape[1], m.shape[2]) for m in maps] == shapes
        assert torch.equal(maps[-1], backbone.maps(images)) and torch.equal(maps[-1].mean((2, 3)), backbone(images))


def test_pooled_map_is_a_unit_vector_of_sums_over_rows_and_columns() -> None:
    maps = torch.randn(2, 3, 4, 5)
    for image, row in zip(maps, pool_map(maps), strict=True):
        over_columns = [sum(float(image[c, y, x]) ** 2 for x in range(5)) for c in range(3) for y in range(4)]
        over_rows = [sum(float(image[c, y, x]) ** 2 for y in range(4)) for c in range(3) for x in range(5)]
        wanted = torch.tensor([*over_columns, *over_rows])
        assert torch.allclose(row, wanted / wanted.norm(), atol=1e-5)
    assert pool_map(maps.bfloat16()).dtype == torch.float32 and pool_map(maps.double()).dtype == torch.float64
