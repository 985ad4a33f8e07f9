from __future__ import annotations

import pytest

from upcl.core.recipes import Recipe
from upcl.data.registry import DATASETS
from upcl.methods.registry import METHODS, VARIANTS
from upcl.nets import BACKBONES
from upcl.research.migration import PROGRAMS
from upcl.research.migration.program import COSINE, STEPS, Model, Program, step_constants

MODELS = [(program, name) for program in PROGRAMS.values() for name in program.models]
ANNOUNCED = {"foster", "memo", "podnet", "pass", "tagfex"}  # methods that tables name before they are registered


def test_a_key_that_the_module_sets_itself_is_not_read() -> None:
    model = Model(title="x", file="x.py", settings=STEPS, constants={"epochs": 3}, reads="alpha beta")
    assert [model.reads_key(key) for key in ("lrate", "epochs", "beta", "bet")] == [True, False, True, False]


@pytest.mark.parametrize("keys", [STEPS, COSINE])
def test_schedules_become_fields_of_recipes(keys: dict[str, str]) -> None:
    for setting in keys.values():
        part, _, name = setting.partition(".")
        assert part in ("first", "later", "recipe")
        assert name in Recipe.__dataclass_fields__
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(("program", "name"), MODELS, ids=lambda each: getattr(each, "name", each))
def test_tables_are_consistent(program: Program, name: str) -> None:
    model = program.models[name]
    assert name == name.lower()
    assert model.file.startswith("models/")
    if model.method not in METHODS and model.method not in VARIANTS:
        assert model.method in ANNOUNCED | {""}
        assert any(nearest in METHODS for nearest in model.nearest), "nothing to suggest"
        assert model.why
        assert not model.why.endswith(".")
    for key in model.constants:
        assert key not in model.built_in
        assert key not in model.absent
        assert key not in model.unused
    assert set(model.convert) <= set(model.settings)
    assert {key for key, setting in model.settings.items() if setting == "*"} <= set(model.convert)
    assert model.memory in ("file", "none", "2000")


def test_every_data_set_is_here_or_a_folder() -> None:
    for program in PROGRAMS.values():
        for source in program.sources.values():
            assert source.folder or any(name in DATASETS for name in source.names)


def test_networks_that_are_the_same_are_here() -> None:
    for name in ("resnet32", "resnet18", "cosine_resnet32", "resnet50"):
        for data in ("cifar100", "imagenet100"):
            content = {"convnet_type": name, "dataset": data, "init_cls": 10, "increment": 10}
            for key in ("pycil", "upcl"):
                program = PROGRAMS[key]
                assert program.backbone(content, program.models["icarl"]).name in BACKBONES


def test_constants_of_the_usual_schedule() -> None:
    constants = step_constants(250, (60, 120, 180, 220), (60, 120, 160))
    assert constants["init_milestones"] == (60, 120, 160)
    assert (constants["epochs"], constants["init_epoch"]) == (250, 200)
    assert (constants["init_weight_decay"], constants["weight_decay"]) == (5e-4, 2e-4)
