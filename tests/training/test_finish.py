"""The end of a stage: averaged weights, the pull to old weights, balanced batch norms."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from tests.runs import Stop, quick_run
from upcl import Request, run
from upcl.checks import MethodHarness, few_digits
from upcl.core.types import Samples, Stage
from upcl.methods import METHODS
from upcl.training.engine import EpochResult, EpochSelector, fit
from upcl.training.finish import MovingAverage, balance_norms, pull, snapshot


def trained(**recipe: Any) -> tuple[Any, Stage]:
    harness = MethodHarness(METHODS["finetune"], few_digits(2))
    stage = next(harness.method.learn(harness.tasks[0]))
    stage = dataclasses.replace(stage, recipe=dataclasses.replace(stage.recipe, epochs=3, **recipe))
    setting = harness.method.setting
    fit(harness.method.net, stage, transform=setting.transform, device=setting.device, seed_path=(0,))
    return harness.method.net, stage


def test_the_average_follows_its_formula() -> None:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(layer.weight)
    average, wanted = MovingAverage(layer, [layer.weight], decay=0.6), 0.0
    for step in range(1, 40):
        nn.init.constant_(layer.weight, float(step))
        average.update()
        decay = min(0.6, step / (step + 9))
        wanted = decay * wanted + (1 - decay) * step
    average.apply()
    assert layer.weight.item() == pytest.approx(wanted, rel=1e-5)


def test_a_stage_ends_with_the_average_of_its_steps() -> None:
    plain, _ = trained()
    averaged, _ = trained(ema=0.9)
    names = [name for name, _ in plain.named_parameters()]
    assert any(not torch.equal(plain.state_dict()[name], averaged.state_dict()[name]) for name in names)
    assert all(torch.isfinite(value).all() for value in averaged.state_dict().values())


def test_pull_blends_the_backbone_and_nothing_else() -> None:
    harness = MethodHarness(METHODS["finetune"], few_digits(2))
    next(harness.method.learn(harness.tasks[0]))
    before = {name: value.clone() for name, value in harness.method.net.state_dict().items()}
    plain, _ = trained()
    pulled, _ = trained(pull=0.25)
    for name, value in plain.state_dict().items():
        if name.startswith("backbone.") and value.is_floating_point():
            value = 0.25 * before[name] + 0.75 * value
        assert torch.allclose(pulled.state_dict()[name], value, atol=1e-6), name


def test_pull_of_nothing_changes_nothing() -> None:
    layer = nn.BatchNorm2d(3)
    before = snapshot(layer)
    pull(layer, before, 0.5)
    assert all(torch.equal(layer.state_dict()[name], value) for name, value in before.items())


def test_balanced_norms_give_every_class_the_same_weight() -> None:
    """Two classes of constant images, one a hundred times as frequent: the mean is half way between them."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = self.backbone = nn.BatchNorm2d(1)
            self.beside = nn.BatchNorm2d(1)
            self.beside.register_buffer("running_mean", torch.full((1,), 3.0))

        def features(self, images: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.norm(images)
            return out

    inputs = torch.cat([torch.zeros(1000, 1, 2, 2), torch.full((10, 1, 2, 2), 255)]).to(torch.uint8)
    data = Samples(inputs, torch.tensor([0] * 1000 + [1] * 10))
    harness = MethodHarness(METHODS["finetune"], few_digits(1))
    stage = dataclasses.replace(next(harness.method.learn(harness.tasks[0])), data=data, augment=False)
    transform = dataclasses.replace(harness.method.setting.transform, mean=(0.0,), std=(1.0,))
    net = Net().train()
    torch.manual_seed(0)
    balance_norms(net, stage, data, transform, torch.device("cpu"))
    assert net.norm.running_mean is not None
    assert net.norm.running_mean.item() == pytest.approx(0.5, abs=0.03)
    assert net.norm.momentum == 0.1
    assert net.beside.running_mean is not None and net.beside.running_mean.item() == 3, "no features pass through it"
    frozen = Net().eval()
    balance_norms(frozen, stage, data, transform, torch.device("cpu"))
    assert frozen.norm.running_mean is not None and frozen.norm.running_mean.item() == 0, "frozen norms stay"


def test_weights_are_not_changed_by_balanced_norms() -> None:
    plain, _ = trained()
    balanced, _ = trained(balanced_norm=True)
    for (name, value), other in zip(plain.named_parameters(), balanced.parameters(), strict=True):
        assert torch.equal(value, other), name
    assert not torch.equal(plain.backbone.stem[0][1].running_mean, balanced.backbone.stem[0][1].running_mean)


def test_a_selector_judges_the_averaged_weights() -> None:
    harness = MethodHarness(METHODS["finetune"], few_digits(2))
    stage = next(harness.method.learn(harness.tasks[0]))
    stage = dataclasses.replace(stage, recipe=dataclasses.replace(stage.recipe, epochs=2, ema=0.9))
    net, setting = harness.method.net, harness.method.setting
    judged, raw = [], []

    def score() -> float:
        judged.append(copy.deepcopy(net.state_dict()))
        return float(len(judged))

    def on_epoch(result: EpochResult) -> None:
        raw.append(copy.deepcopy(result.state()["net"]))

    selector = EpochSelector(score, every=1)
    fit(
        net,
        stage,
        transform=setting.transform,
        device=setting.device,
        seed_path=(0,),
        selector=selector,
        on_epoch=on_epoch,
    )
    weight = "head.weight"
    assert not torch.equal(judged[-1][weight], raw[-1][weight])
    assert torch.equal(net.state_dict()[weight], judged[-1][weight])


def test_a_killed_run_with_every_option_ends_with_the_same_weights(tmp_path: Any) -> None:
    options = {
        "recipe.augment": "trivial",
        "recipe.erase": 0.25,
        "recipe.ema": 0.9,
        "later.pull": 0.3,
        "recipe.balanced_norm": True,
    }
    request = Request(method="icarl", data="digits:train=10,test=5", tasks=2, epochs=3, memory="10", options=options)
    whole = run(request)
    seen = 0

    def stop(_progress: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 5:
            raise Stop

    with pytest.raises(Stop):
        run(request, out=tmp_path / "run", on_progress=stop, save_seconds=0)
    assert run(request, out=tmp_path / "run", resume=True).weights_sha256 == whole.weights_sha256
    assert quick_run("icarl", "digits:train=10,test=5", tasks=2, epochs=3, memory="10").weights_sha256 != (
        whole.weights_sha256
    )
