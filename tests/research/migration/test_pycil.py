from __future__ import annotations

import pytest

from upcl.methods.registry import METHODS
from upcl.research.migration.pycil import MODELS, find_backbone


@pytest.mark.parametrize(
    ("convnet", "data", "init", "expected", "same"),
    [
        ("resnet32", "cifar100", 10, "resnet32", True),
        ("ResNet32", "cifar100", 50, "resnet32", True),
        ("resnet18", "cifar100", 50, "resnet18", True),
        ("resnet34", "cifar100", 10, "resnet18", False),
        ("resnet18", "imagenet100", 10, "resnet18-7x7", True),
        ("resnet18", "imagenet100", 50, "resnet18-7x7", False),
        ("resnet50", "imagenet1000", 10, "resnet50-7x7", True),
        ("cosine_resnet32", "cifar100", 10, "resnet32", False),
        ("resnet18_cbam", "cifar100", 10, "resnet18", False),
        ("", "cifar100", 10, "resnet18", False),
    ],
)
def test_networks(convnet: str, data: str, init: int, expected: str, same: bool) -> None:
    content = {"convnet_type": convnet, "dataset": data, "init_cls": init, "increment": 10}
    found = find_backbone(content, MODELS["icarl"])
    assert (found.name, found.same) == (expected, same)
    assert bool(found.remark) != same


def test_methods_with_signed_features_have_the_cosine_network() -> None:
    content = {"convnet_type": "cosine_resnet32", "dataset": "cifar100"}
    assert find_backbone(content, MODELS["coil"]).same
    assert find_backbone(content, MODELS["podnet"]).same
    assert find_backbone({"convnet_type": "resnet18", "dataset": "cifar100"}, MODELS["memo"]).name == "resnet18-7x7"


@pytest.mark.parametrize("name", ["finetune", "replay", "ewc", "lwf", "icarl", "wa"])
def test_recipes_of_the_methods_here_are_those_of_the_modules(name: str) -> None:
    """The methods' own recipes cite PyCIL: a change of either must be noticed."""
    constants, recipes = MODELS[name].constants, METHODS[name].recipes
    first = (constants["init_epoch"], constants["init_milestones"], constants["init_weight_decay"])
    later = (constants["epochs"], constants["milestones"], constants["weight_decay"])
    assert first == (recipes.first.epochs, recipes.first.milestones, recipes.first.weight_decay)
    assert later == (recipes.later.epochs, recipes.later.milestones, recipes.later.weight_decay)
