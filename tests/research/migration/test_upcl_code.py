from __future__ import annotations

import pytest

from upcl.methods.registry import METHODS
from upcl.research.migration import pycil
from upcl.research.migration.upcl_code import MODELS, find_backbone, margin_of


def test_margins() -> None:
    assert margin_of(0.5) == {"margin": "prior", "prior_strength": 0.5}
    assert margin_of(0.0) == {"margin": "none"}
    assert margin_of(-0.3, new=2.0) == {"margin": "columns", "margin_old": 0.3, "margin_size": 2.0}
    for strength in (1.0, 0.0, -1.0):
        METHODS["upcl"](**margin_of(strength))


def test_options_of_nccil() -> None:
    convert = MODELS["nccil"].convert
    assert [convert["with_ftc"](flag) for flag in (True, False)] == ["full", "off"]
    assert [convert["with_fhtc"](flag) for flag in (True, False)] == [{"flight": "half"}, {}]


def test_the_projector_is_off_for_negative_dimensions() -> None:
    assert [MODELS["upcl"].convert["feature_dim"](dim) for dim in (-1, 0, 128)] == [0, 0, 128]


@pytest.mark.parametrize(
    ("convnet", "data", "init", "expected", "remark"),
    [
        ("resnet18", "cifar100", 10, "resnet18-7x7", "the first three revisions have a 3x3 stem for CIFAR"),
        ("resnet18", "imagenet100", 10, "resnet18-7x7", ""),
        ("resnet18", "imagenet100", 50, "resnet18-7x7", "the first three revisions have a 3x3 stem for unequal tasks"),
        ("resnet32", "cifar100", 10, "resnet32", ""),
    ],
)
def test_networks(convnet: str, data: str, init: int, expected: str, remark: str) -> None:
    content = {"convnet_type": convnet, "dataset": data, "init_cls": init, "increment": 10}
    found = find_backbone(content, MODELS["upcl"])
    assert found.name == expected
    assert found.remark.partition(":")[0] == remark


def test_shared_models_are_those_of_pycil_but_for_the_batch_size_of_icarl() -> None:
    assert MODELS["wa"] is pycil.MODELS["wa"]
    assert set(pycil.MODELS["icarl"].constants) - set(MODELS["icarl"].constants) == {"batch_size"}
    assert MODELS["icarl"].reads_key("batch_size")
