from __future__ import annotations

from typing import Any

import pytest

from upcl.core.errors import UserError
from upcl.data.registry import parse_stream
from upcl.research.migration import PROGRAMS
from upcl.research.migration.draft import Draft
from upcl.research.migration.general_keys import judge_general


def judged(program: str = "pycil", data: str | None = None, **keys: Any) -> Draft:
    content = {
        "model_name": "icarl",
        "dataset": "cifar100",
        "init_cls": 10,
        "increment": 10,
        "memory_size": 2000,
    } | keys
    model = PROGRAMS[program].models[str(content["model_name"])]
    draft = Draft(content, PROGRAMS[program], model, model.method)
    judge_general(draft, data)
    return draft


def task_sizes_by_the_trainer(num_classes: int, init: int, increment: int) -> list[int]:
    """The loop of the three programs' data managers: tasks of equal size while more than one is left."""
    sizes = [init]
    while sum(sizes) + increment < num_classes:
        sizes.append(increment)
    return sizes + ([num_classes - sum(sizes)] if sum(sizes) < num_classes else [])


@pytest.mark.parametrize("init", [1, 5, 10, 40, 50, 99, 100])
@pytest.mark.parametrize("increment", [1, 3, 5, 10, 40, 100])
def test_tasks(init: int, increment: int) -> None:
    draft = judged(init_cls=init, increment=increment)
    expected = task_sizes_by_the_trainer(100, init, increment)
    if "tasks" in draft.values:
        assert expected == [100 // draft.values["tasks"]] * draft.values["tasks"]
    else:
        sizes = parse_stream(draft.values["data"].removeprefix("cifar100/"), 100)
        assert isinstance(sizes, tuple)
        assert list(sizes) == expected
    assert draft.verdicts["init_cls"].kind == draft.verdicts["increment"].kind == "becomes"


def test_tasks_that_are_impossible() -> None:
    with pytest.raises(UserError, match="the first task must fit into 100 classes"):
        judged(init_cls=101)
    with pytest.raises(UserError, match="'increment' must be a whole number from 1 on"):
        judged(increment=0)  # an endless loop there


def test_another_data_set_keeps_the_tasks() -> None:
    assert judged(data="digits", init_cls=2, increment=2).values == {
        "data": "digits",
        "tasks": 5,
        "memory": "2000",
        "backbone": "resnet18",
    }
    assert judged(data="synthetic:classes=4", init_cls=3).values["data"] == "synthetic/B3-Inc10:classes=4"
    assert judged(data="digits/T5").values["data"] == "digits/T5"
    assert "takes its place" in judged(data="digits").verdicts["dataset"].text


def test_data_sets() -> None:
    assert judged(dataset="CIFAR100").values["data"] == "cifar100"
    unknown = judged(dataset="mine")
    assert (unknown.values["data"], unknown.verdicts["dataset"].kind) == ("folder/B0-Inc10:PATH", "no equivalent")
    assert judged(dataset="digits").verdicts["dataset"].kind == "no equivalent"  # PyCIL does not have it
    folder = judged("pilot", dataset="vtab", model_name="simplecil")
    assert (folder.values["data"], folder.values["tasks"]) == ("folder:data/vtab-cil/vtab", 5)


def test_memory() -> None:
    total = judged(memory_per_class=20, fixed_memory=False)
    assert total.values["memory"] == "2000"
    assert total.verdicts["memory_per_class"].kind == "ignored"
    fixed = judged(memory_per_class=20, fixed_memory=True)
    assert fixed.values["memory"] == "20/class"
    assert fixed.verdicts["memory_size"].kind == "ignored"
    with pytest.raises(UserError, match="no 'memory_per_class'"):
        judged(fixed_memory=True)
    with pytest.raises(UserError, match="'memory_size' must be a whole number"):
        judged(memory_size="many")


def test_memory_that_the_module_decides() -> None:
    without = judged(model_name="lwf")
    assert "memory" not in without.values
    assert without.verdicts["memory_size"].kind == "ignored"
    coil = judged(model_name="coil", memory_size=500)
    assert coil.values["memory"] == "2000"
    assert coil.verdicts["memory_size"].kind == "ignored"


def test_seeds() -> None:
    assert judged(seed=[1993, 2024, 1993]).seeds == [(1993, 1), (2024, 1)]
    assert judged("pilot", seed=[1993, 5]).seeds == [(1993, 1993), (5, 5)]
    assert judged(seed=7).seeds == [(7, 1)]
    assert any("not a list" in note for note in judged(seed=7).notes)
    assert judged().seeds == [(1993, 1)]


@pytest.mark.parametrize("seed", [[-1], [2**32], ["1"], [True], [1.5], [[1]], "1993"])
def test_seeds_that_are_none(seed: Any) -> None:
    with pytest.raises(UserError, match="'seed' must hold whole numbers"):
        judged(seed=seed)


def test_no_seed_at_all() -> None:
    with pytest.raises(UserError, match="nothing would be run"):
        judged(seed=[])


def test_without_shuffling_the_seed_changes_nothing_in_pycil() -> None:
    plain = judged(shuffle=False, seed=[1, 2])
    assert plain.values["order"] == tuple(map(str, range(100)))
    assert plain.seeds == [(0, 1)]
    assert plain.verdicts["seed"].kind == "ignored"
    pilot = judged("pilot", shuffle=False, seed=[1, 2])
    assert pilot.seeds == [(0, 1), (0, 2)]
    assert judged(shuffle=False, data="synthetic:classes=4").verdicts["shuffle"].kind == "no equivalent"


@pytest.mark.parametrize(
    ("device", "kind", "words"),
    [
        (["0"], "becomes", "auto"),
        (["0", "1"], "no equivalent", "auto"),
        ([-1], "becomes", "cpu"),
        (["-1"], "becomes", "cpu"),
        ("0", "becomes", "auto"),
    ],
)
def test_devices(device: Any, kind: str, words: str) -> None:
    draft = judged(device=device)
    assert (draft.verdicts["device"].kind, draft.device) == (kind, words)


def test_long_tails_of_upcl() -> None:
    tail = judged("upcl", lt=True, lt_imb_factor=0.5)
    assert tail.values["longtail"] == "exp:0.01:ordered"  # lt_imb_factor is not the key that is read
    assert tail.verdicts["lt_imb_factor"].kind == "ignored"
    assert judged("upcl", lt=True, imb_factor=0.1).values["longtail"] == "exp:0.1:ordered"
    assert "longtail" not in judged("upcl", lt=False, imb_factor=0.1).values
    with pytest.raises(UserError):
        judged("upcl", lt=True, imb_factor="much")


def test_keys_that_the_trainer_needs_are_missed() -> None:
    draft = judged()
    again = Draft({"model_name": "icarl", "increment": 10}, draft.program, draft.model, "icarl")
    judge_general(again)
    assert any("'init_cls'" in note for note in again.notes)
    assert any("'dataset'" in note for note in again.notes)
    assert any("'convnet_type'" in note for note in again.notes)
