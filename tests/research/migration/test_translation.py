from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.research.migration.shipped import ALL, shipped
from upcl.core.errors import UserError
from upcl.data.registry import DATASETS
from upcl.methods.registry import METHODS, VARIANTS
from upcl.research.migration import translate
from upcl.research.migration.program import Kind
from upcl.research.migration.pycil import PYCIL
from upcl.research.migration.upcl_code import UPCL_CODE
from upcl.research.run import run


def leaves(content: dict[str, Any], outer: str = "") -> list[str]:
    """The keys of a file; of nested ones, the innermost with dots between."""
    found = []
    for key, value in content.items():
        path = f"{outer}{key}"
        found += leaves(value, f"{path}.") if isinstance(value, dict) and value else [path]
    return found


@pytest.mark.parametrize(("program", "name"), ALL)
def test_every_key_of_every_shipped_file_gets_a_verdict(program: str, name: str) -> None:
    content = shipped(program, name)
    found = translate(content)
    assert [verdict.key for verdict in found.verdicts] == leaves(content)
    for verdict in (*found.verdicts, *found.hard_coded):
        assert verdict.kind in get_args(Kind)
        assert verdict.text
        assert verdict.text[-1] not in ".:"
    assert len({verdict.key for verdict in found.verdicts}) == len(found.verdicts)


@pytest.mark.parametrize(("program", "name"), ALL)
def test_every_shipped_file_becomes_a_command_or_names_the_nearest(program: str, name: str) -> None:
    found = translate(shipped(program, name), program)
    assert found.equivalent == (found.model.method in METHODS or found.model.method in VARIANTS)
    assert found.method in METHODS or found.method in VARIANTS
    assert found.commands
    assert bool(found.obstacle) != found.equivalent
    assert found.reason == ""
    assert json.loads(json.dumps(found.to_json()))["commands"] == found.commands


CARS = "stanfordcars/B0-Inc5" if "stanfordcars" in DATASETS else "folder/B0-Inc5:data/StanfordCars"
COMMANDS = {
    ("pycil", "icarl"): "icarl --data cifar100 --tasks 10 --memory 2000 --backbone resnet32 --order-seed 1993 --seed 1 "
    "--recipe own --protocol paper --select last",
    ("pycil", "lwf"): "lwf --data cifar100 --tasks 10 --backbone resnet32 --order-seed 1993 --seed 1 --recipe own "
    "--protocol paper --select last",
    ("pycil", "fetril"): "fetril --data cifar100/B40-Inc1 --backbone resnet32 --order-seed 1993 --seed 1 --recipe own "
    "--protocol paper --select last",
    ("pycil", "bic"): "bic --data cifar100 --tasks 10 --memory 2000 --backbone resnet32 --order-seed 1993 --seed 1 "
    "--recipe own --protocol paper --select last --set penalty=0 --set corrections=all",
    ("upcl", "upcl"): "upcl --data cifar100 --tasks 10 --memory 500 --backbone resnet18-7x7 --order-seed 1993 --seed 1 "
    "--recipe own --protocol paper --set recipe.batch_size=128",
    ("upcl", "runs/debug"): f"upcl --data {CARS} --memory 20/class --backbone resnet18-7x7 "
    "--order-seed 1993 --seed 1 --recipe own --protocol paper --longtail exp:0.01:ordered --set recipe.batch_size=128",
    ("pilot", "simplecil"): "ncm --data cifar100 --tasks 10 --backbone timm:vit_base_patch16_224.augreg_in21k_ft_in1k "
    "--frozen --order-seed 1993 --seed 1993 --recipe own --protocol paper --select last",
    ("pilot", "ranpac"): "ranpac --data cifar100 --tasks 10 --backbone timm:vit_base_patch16_224.augreg_in21k_ft_in1k "
    "--frozen --order-seed 1993 --seed 1993 --recipe own --protocol paper --select last --set expansion=13",
    ("pycil", "acil"): "ridge --data cifar100/B50-Inc5 --frozen --order-seed 1993 --seed 1 --protocol paper "
    "--select last",
}


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_known_commands(program: str, name: str) -> None:
    (command,) = translate(shipped(program, name), program).commands
    assert command == f"upcl train {COMMANDS[program, name]}"


def test_several_seeds_become_several_commands_with_folders_of_their_own() -> None:
    found = translate(shipped("upcl", "ec8ba1a:runs/upcl_cifar100_B50I10_M2000"))
    folders = [command.rpartition(" --out ")[2] for command in found.commands]
    assert folders == [f"runs/upcl-order{seed}-seed1" for seed in (2024, 2023, 1993)]
    assert [request.order_seed for request in found.requests] == [2024, 2023, 1993]


def test_runs_that_differ_in_nothing_are_one() -> None:
    found = translate(shipped("upcl", "ec8ba1a:runs/fixed_upcl_cifar100_B0I10_M2000"))
    (request,) = found.requests
    assert request.order == tuple(map(str, range(100)))
    assert "--order-seed" not in found.commands[0]


def test_epochs_take_the_place_of_all_epochs_and_milestones() -> None:
    found = translate(shipped("pycil", "der"), epochs=2)
    assert found.requests[0].options == {"later.weight_decay": 2e-4, "head_share": 0}
    assert found.requests[0].epochs == 2
    assert "--epochs 2 " in found.commands[0]
    assert any("--epochs 2" in note for note in found.notes)


def test_a_method_that_is_not_registered_yet_is_replaced_by_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    content = shipped("pycil", "icarl") | {"model_name": "foster"}
    monkeypatch.delitem(METHODS, "foster", raising=False)
    found = translate(content)
    assert (found.equivalent, found.method) == (False, "der")
    monkeypatch.setitem(METHODS, "foster", METHODS["der"])
    assert translate(content).equivalent


TRAINED = [
    (program.name, name)
    for program in (PYCIL, UPCL_CODE)
    for name, model in program.models.items()
    if model.method in METHODS or model.method in VARIANTS
]


@pytest.mark.no_cover
@pytest.mark.parametrize(("program", "name"), TRAINED)
def test_requests_of_every_method_train(program: str, name: str) -> None:
    content = shipped("pycil", "icarl") | {"model_name": name, "init_cls": 2, "increment": 1, "memory_size": 4}
    found = translate(content, program, data="synthetic:classes=4,train=4,test=2", epochs=1)
    record = run(found.requests[0], device="cpu")
    assert record.config.method == found.method
    assert record.config.task_sizes == (2, 1, 1)
    assert record.config.recipes.first.epochs == record.config.recipes.later.epochs == 1
    assert record.config.backbone == "resnet32"
    for setting, value in found.requests[0].options.items():
        if "." not in setting:
            assert record.config.options[setting] == value


def test_values_that_no_method_would_take_are_refused() -> None:
    content = shipped("upcl", "upcl")
    with pytest.raises(UserError, match="milestones"):
        translate(content | {"milestones": "late"})
    with pytest.raises(UserError, match="tau"):
        translate(content | {"temperature": -1})
    with pytest.raises(UserError, match="memory '9"):
        translate(content | {"memory_size": 10**30 - 1})
    with pytest.raises(UserError, match="BiC needs exemplars"):
        translate(shipped("pycil", "bic") | {"memory_size": 0})


def test_hostile_values_are_no_surprise() -> None:
    """Whatever JSON holds, the answer is a translation or an error for the user."""
    strange: list[Any] = [None, True, -1, 1e400, "", "x\x1b[31m", [], [[]], {}, {"a": {"b": None}}, 10**40]
    for program, name in (("pycil", "icarl"), ("pilot", "ranpac"), ("upcl", "upcl")):
        content = shipped(program, name)
        for key in content:
            for value in strange:
                try:
                    found = translate(content | {key: value, "model_name": content["model_name"]}, program)
                except UserError:
                    continue
                assert found.commands
