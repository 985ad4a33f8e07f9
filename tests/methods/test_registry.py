"""Methods by name, their options and recipes, and how they are built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.methods.scenarios import built, make_setting, small_data, split_tasks, train
from upcl.core.errors import UserError
from upcl.core.identity import weights_sha256
from upcl.core.seeding import seed_all
from upcl.methods import METHODS, VARIANTS, Setting, build_method, find_method, method_options
from upcl.methods.icarl import ICaRL
from upcl.methods.upcl import UPCL

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


CLOSED_FORM = ("ncm", "slda", "ridge", "ranpac")  # they train nothing


def test_methods_of_the_paper_come_first_in_its_order() -> None:
    paper = "joint finetune focal ldam la lwf fetril icarl lucir coil bic wa cwd nccil scrollnet upcl"
    field = "replay ewc si efc der foster memo podnet pass tagfex"
    assert list(METHODS) == [*paper.split(), "upcl+", *field.split(), *CLOSED_FORM]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_describes_itself_and_cites_its_paper(name: str) -> None:
    method = METHODS[name]
    assert method.name == name
    assert method.title and method.paper and method.summary
    text = method.__doc__ or ""
    assert ("`L = " in text or name in CLOSED_FORM) and "References:" in text and "Example:" in text


# --- find_method


def test_methods_and_variants_are_found_by_name() -> None:
    assert all(find_method(name) is method for name, method in METHODS.items())
    assert all(find_method(name) is variant.method for name, variant in VARIANTS.items())


def test_a_method_is_loaded_from_a_file() -> None:
    assert find_method(f"{EXAMPLE}:FeatureDistillation").name == "feature-distillation"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("icral", "unknown method 'icral': did you mean icarl"),
        ("nowhere.py:Mine", "no such Python file: nowhere.py"),
        (f"{EXAMPLE}:FeatureDistilation", "did you mean FeatureDistillation"),
        (f"{EXAMPLE}:dataclass", "unknown method in .*own_method.py 'dataclass'"),
        (f"{EXAMPLE.parents[1] / 'README.md'}:Mine", "no such Python file"),
    ],
)
def test_unknown_methods_are_errors(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_method(name)


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("def fail():\n    raise ValueError('my mistake')\nfail()", "line 2, in fail"),
        ("x = (", "SyntaxError"),
        ("import nosuchmodule", "line 1, in <module>"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_fails_on_import_is_shown_with_its_own_traceback(code: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(code)
    with pytest.raises(UserError) as caught:
        find_method(f"{tmp_path / 'own.py'}:Mine")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'own.py'} failed on import:\n") and shown in message
    assert "registry.py" not in message and "importlib" not in message


# --- method_options


def test_every_option_gets_a_value() -> None:
    assert method_options("icarl", ICaRL, {}) == {"temperature": 2.0}
    assert method_options("upcl", UPCL, {})["tau"] == 0.07


def test_given_options_override_the_variant_and_the_official_code() -> None:
    assert method_options("upcl", UPCL, {})["lose_task0_assignment"] is False
    assert method_options("upcl", UPCL, {}, official=True)["lose_task0_assignment"] is True
    assert (
        method_options("upcl", UPCL, {"lose_task0_assignment": "false"}, official=True)["lose_task0_assignment"]
        is False
    )
    assert method_options("up+fm", UPCL, {})["margin"] == "fixed"
    assert method_options("up+fm", UPCL, {"margin": "none"})["margin"] == "none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tua": 1}, "unknown option of upcl 'tua': did you mean tau"),
        ({"tau": 0}, "tau: Input should be greater than 0"),
        ({"margin": "wide"}, "margin: Input should be 'prior'"),
    ],
)
def test_wrong_options_are_errors(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        method_options("upcl", UPCL, options)


# --- build_method


def weights(method: Any) -> str:
    return weights_sha256(method.net.state_dict())


def test_a_method_is_created_then_seeded_then_started(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("upcl.methods.registry.seed_all", lambda *path: calls.append(path))

    class Spy(ICaRL):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            calls.append("created")

        def start(self, setting: Setting) -> None:
            calls.append(setting)

    setting = make_setting(small_data(), ICaRL)
    method = build_method(Spy, {"temperature": 3.0}, setting, 7)
    assert calls == ["created", (7, "start"), setting]
    assert isinstance(method, Spy) and method.temperature == 3.0


def test_initial_weights_depend_on_the_seed_alone() -> None:
    setting = make_setting(small_data(), ICaRL)
    torch.manual_seed(5)
    np.random.seed(5)
    first, again, other = (build_method(ICaRL, {}, setting, seed) for seed in (0, 0, 1))
    assert weights(first) == weights(again) != weights(other)
    by_hand = ICaRL()
    seed_all(0, "start")
    by_hand.start(setting)
    assert weights(by_hand) == weights(first)
    assert len(first.memory.samples) == 0 and first.net.head.num_classes == 0


# --- the ablation


def test_the_seven_rows_of_the_ablation_are_built_from_the_same_parts() -> None:
    assert list(VARIANTS) == ["baseline", "cos", "cos+fm", "cos+dm", "up", "up+fm", "up+dm"]
    data = small_data()

    def learned(name: str) -> str:
        method_class = find_method(name)
        method = built(method_class, data, method_options(name, method_class, {}), memory="6", epochs=4)
        for task in split_tasks(data, [2, 2]):
            train(method, task)
        return weights(method)

    rows = {name: learned(name) for name in VARIANTS}
    assert rows["up+dm"] == learned("upcl")
    assert rows["baseline"] == learned("icarl")
    assert len(set(rows.values())) == 7


# --- recipes

Numbers = tuple[int, float, tuple[int, ...], float, int]
SPECIFIED: dict[str, list[Numbers]] = {  # epochs, rate, milestones, weight decay, batch size: first and later tasks
    "joint": [(200, 0.1, (60, 120, 170), 5e-4, 128), (200, 0.1, (60, 120, 170), 5e-4, 128)],
    "finetune": [(200, 0.1, (60, 120, 170), 5e-4, 128), (80, 0.1, (40, 70), 2e-4, 128)],
    "icarl": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (80, 120), 2e-4, 128)],
    "wa": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (60, 100, 140), 2e-4, 128)],
    "lwf": [(200, 0.1, (60, 120, 160), 5e-4, 128), (250, 0.1, (60, 120, 180, 220), 2e-4, 128)],
    "bic": [(170, 0.1, (60, 100, 140), 2e-4, 128), (170, 0.1, (60, 100, 140), 2e-4, 128)],
    "coil": [(160, 0.1, (80, 120), 5e-4, 128), (160, 0.1, (80, 120), 5e-4, 128)],
    "fetril": [(200, 0.1, (), 5e-4, 128), (50, 0.05, (), 5e-4, 128)],
    "lucir": [(160, 0.1, (80, 120), 5e-4, 128), (160, 0.1, (80, 120), 5e-4, 128)],
    "nccil": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (80, 120, 150), 2e-4, 128)],
    "scrollnet": [(200, 0.1, (80, 120), 0.0, 64), (200, 0.1, (80, 120), 0.0, 64)],
    "upcl": [(200, 0.1, (60, 120, 170), 5e-4, 256), (170, 0.1, (80, 120, 150), 2e-4, 256)],
    "der": [(170, 0.1, (100, 120), 5e-4, 128), (170, 0.1, (100, 120), 5e-4, 128)],
    "foster": [(200, 0.1, (), 5e-4, 128), (170, 0.1, (), 5e-4, 128)],
    "replay": [(200, 0.1, (60, 120, 170), 5e-4, 128), (70, 0.1, (30, 50), 2e-4, 128)],
    "ewc": [(200, 0.1, (60, 120, 170), 5e-4, 128), (180, 0.1, (70, 120, 150), 2e-4, 128)],
    "si": [(200, 0.1, (60, 120, 170), 5e-4, 128), (80, 0.1, (40, 70), 2e-4, 128)],
    "efc": [(160, 0.1, (80, 120, 150), 5e-4, 64), (100, 0.1, (), 2e-4, 64)],
    "podnet": [(160, 0.1, (), 5e-4, 128), (160, 0.1, (), 5e-4, 128)],
    "pass": [(100, 0.1, (45, 90), 2e-4, 64), (100, 0.1, (45, 90), 2e-4, 64)],
    "tagfex": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (80, 120, 150), 2e-4, 128)],
    "memo": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (80, 120, 150), 2e-4, 128)],
}
SAME_AS = {"focal": "icarl", "ldam": "icarl", "la": "icarl", "cwd": "lucir", "upcl+": "upcl"}


@pytest.mark.parametrize("name", [name for name in METHODS if name not in CLOSED_FORM])
def test_recipes_of_the_specification(name: str) -> None:
    recipes = METHODS[name].recipes
    wanted = SPECIFIED[SAME_AS.get(name, name)]
    for recipe, (epochs, lr, milestones, decay, batch) in zip((recipes.first, recipes.later), wanted, strict=True):
        assert (recipe.epochs, recipe.lr, recipe.milestones) == (epochs, lr, milestones)
        assert (recipe.weight_decay, recipe.batch_size, recipe.gamma) == (decay, batch, 0.1)
        assert recipe.momentum == (0.0 if name == "scrollnet" else 0.9)
        assert recipe.schedule == ("cosine" if name in ("fetril", "foster", "podnet") else "step")
        assert recipe.clip == (1e4 if name == "scrollnet" else 0)
