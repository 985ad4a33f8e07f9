from __future__ import annotations

import torch

from upcl.research.config import Request, resolve
from upcl.research.setting import make_protocol, make_setting
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
