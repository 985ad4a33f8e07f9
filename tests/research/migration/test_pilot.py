from __future__ import annotations

import pytest

from upcl.research.migration.pilot import MODELS, PILOT, find_backbone, read_by_network


@pytest.mark.parametrize(
    ("name", "weights", "same"),
    [
        ("pretrained_vit_b16_224", "augreg_in21k_ft_in1k", True),
        ("vit_base_patch16_224", "augreg_in21k_ft_in1k", True),
        ("vit_base_patch16_224_in21k", "augreg_in21k", True),
        ("pretrained_vit_b16_224_in21k_adapter", "augreg_in21k", False),
        ("vit_base_patch16_224_l2p", "augreg_in21k_ft_in1k", False),
    ],
)
def test_transformers(name: str, weights: str, same: bool) -> None:
    found = find_backbone({"backbone_type": name}, MODELS["simplecil"])
    assert found.name == f"timm:vit_base_patch16_224.{weights}"
    assert (found.same, found.frozen) == (same, True)


def test_what_the_network_reads() -> None:
    assert read_by_network({"backbone_type": "pretrained_vit_b16_224_adapter"}) == ("ffn_num",)
    assert read_by_network({"backbone_type": "vit_base_patch16_224"}) == ()
    assert read_by_network({}) == ()


def test_only_methods_without_training_are_equivalent() -> None:
    assert {name for name, model in MODELS.items() if model.method} == {"simplecil", "ranpac"}
    assert PILOT.torch_seed is None


def test_expansion_is_a_whole_number_of_times_the_features() -> None:
    convert = MODELS["ranpac"].convert["M"]
    assert [convert(num) for num in (10_000, 768, 1000, 1)] == [13, 1, 1, 1]
