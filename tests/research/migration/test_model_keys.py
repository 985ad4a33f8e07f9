from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from upcl.core.errors import UserError
from upcl.research.migration import PROGRAMS
from upcl.research.migration.draft import Draft
from upcl.research.migration.model_keys import all_verdicts, judge_model


def judged(program: str, model_name: str, **content: Any) -> Draft:
    model = PROGRAMS[program].models[model_name]
    draft = Draft(content, PROGRAMS[program], model, model.method)
    judge_model(draft)
    return draft


def verdict(draft: Draft, key: str) -> tuple[str, str]:
    (found,) = [each for each in all_verdicts(draft) if each.key == key]
    return found.kind, found.text


def test_a_constant_of_the_module_overrides_the_file() -> None:
    draft = judged("pycil", "icarl", epochs=10, lrate=0.5, T=4)
    assert draft.options == {}
    assert verdict(draft, "epochs") == ("ignored", "models/icarl.py sets it itself: 170")
    assert verdict(draft, "lrate") == ("ignored", "models/icarl.py sets it itself: 0.1")


def test_the_same_key_is_read_by_another_program() -> None:
    assert judged("upcl", "icarl", batch_size=64, epochs=10).options == {"recipe.batch_size": 64}
    assert judged("upcl", "nccil", epochs=10, milestones=[4, 8]).options == {
        "later.epochs": 10,
        "later.milestones": (4, 8),
    }


def test_constants_that_differ_become_options() -> None:
    draft = judged("pycil", "der")
    assert draft.options == {
        "first.epochs": 200,
        "first.milestones": (60, 120, 170),
        "later.milestones": (80, 120, 150),
        "later.weight_decay": 2e-4,
        "head_share": 0,
    }
    assert {each.key for each in draft.hard_coded} == {
        "init_epoch",
        "init_milestones",
        "milestones",
        "weight_decay",
        "head_share",
    }


def test_defaults_of_the_program_hold_for_keys_that_are_missing() -> None:
    missing = judged("upcl", "upcl")
    assert missing.options == {"recipe.batch_size": 128}
    assert {(each.key, each.value) for each in missing.hard_coded} == {
        ("batch_size", 128),
        ("kd_lambda", 0.5),
        ("kd_loss_type", "rkd"),
    }
    assert judged("upcl", "upcl", batch_size=256).options == {}


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({"dyn_margin_tro": 0}, {"margin": "none"}),
        ({"dyn_margin_tro": 1.0}, {}),
        ({"dyn_margin_tro": 0.5}, {"prior_strength": 0.5}),
        ({"dyn_margin_tro": -0.3}, {"margin": "columns", "margin_old": 0.3}),
        ({"feature_dim": 128, "temperature": 0.1}, {"projector": 128, "tau": 0.1}),
        ({"feature_dim": -1}, {}),
        ({"init_lr": 0.05, "lrate": 0.05}, {"recipe.lr": 0.05}),
        ({"init_lr": 0.05, "lrate": 0.02}, {"first.lr": 0.05, "later.lr": 0.02}),
    ],
)
def test_options_of_upcl(keys: dict[str, Any], options: dict[str, Any]) -> None:
    assert judged("upcl", "upcl", batch_size=256, **keys).options == options


@pytest.mark.parametrize(
    ("keys", "margin"),
    [
        ({}, "none"),
        ({"adj_margin": False, "adj_margin_tro": 1.0}, "none"),
        ({"adj_margin": True}, None),
        ({"adj_margin": True, "adj_margin_tro": -0.5}, "columns"),
    ],
)
def test_margins_of_the_cosine_baseline(keys: dict[str, Any], margin: str | None) -> None:
    assert judged("upcl", "cosinebaseline", **keys).options.get("margin") == margin


@pytest.mark.parametrize(
    ("keys", "flight"),
    [({}, None), ({"with_ftc": True, "with_fhtc": True}, "half"), ({"with_ftc": False, "with_fhtc": False}, "off")],
)
def test_flight_of_nccil(keys: dict[str, Any], flight: str | None) -> None:
    assert judged("upcl", "nccil", **keys).options.get("flight") == flight


def test_values_that_are_built_in() -> None:
    draft = judged("upcl", "upcl", kd_lambda=1.0, kd_loss_type="rkd", use_norm_feature=False)
    assert verdict(draft, "kd_lambda")[0] == "built in"
    assert verdict(draft, "kd_loss_type") == ("no equivalent", "here always fkd: distillation of features")
    assert verdict(draft, "use_norm_feature")[0] == "no equivalent"


def test_values_that_are_shares_here() -> None:
    """Options of methods that are still to come are tried on one that is here."""
    model = dataclasses.replace(
        PROGRAMS["pycil"].models["der"],
        settings={"compression_epochs": "head_share"},
        relative={"compression_epochs": "boosting_epochs"},
        constants={},
        implied={},
    )
    draft = Draft({"compression_epochs": 30, "boosting_epochs": 120}, PROGRAMS["pycil"], model, "der")
    judge_model(draft)
    assert draft.options == {"head_share": 0.25}
    for content in ({"compression_epochs": 30}, {"compression_epochs": 30, "boosting_epochs": 0}):
        with pytest.raises(UserError, match="'compression_epochs'"):
            judge_model(Draft(content, PROGRAMS["pycil"], model, "der"))


def test_constants_that_are_shares_here_ignore_the_file() -> None:
    draft = judged("pycil", "podnet", epochs=100, ft_lrate=1.0)
    assert verdict(draft, "epochs") == ("ignored", "models/podnet.py sets it itself: 160")
    assert draft.options == {"tuning_rate": 0.05, "spatial": 5}, "20 of 160 epochs, as here"
    assert {(each.key, each.value) for each in draft.hard_coded} >= {("ft_lrate", 0.005), ("lambda_c_base", 5)}


def test_shares_are_compared_and_written_without_the_noise_of_a_division() -> None:
    assert "compression_share" not in judged("pycil", "foster", boosting_epochs=340, compression_epochs=260).options
    options = judged("pycil", "foster", boosting_epochs=30, compression_epochs=10).options
    assert options["compression_share"] == 0.333333


def test_alignment_of_foster() -> None:
    on, off = (judged("pycil", "foster", is_teacher_wa=value, wa_value=1) for value in (True, False))
    assert verdict(on, "is_teacher_wa") == ("no equivalent", "here always false: the larger network is not aligned")
    assert verdict(off, "is_teacher_wa") == ("built in", "the larger network is not aligned: always so here")
    assert verdict(on, "wa_value")[0] == "no equivalent"


@pytest.mark.parametrize(
    ("model", "key", "value", "reason"),
    [
        ("foster", "T", 0, "greater than 0"),
        ("pass", "epochs", -1, "greater than 0"),
        ("memo", "scheduler", "x", "step"),
    ],
)
def test_values_that_an_option_refuses_are_named_as_in_the_file(model: str, key: str, value: Any, reason: str) -> None:
    with pytest.raises(UserError, match=f"(?s)^'{key}': {value!r} does not fit: .*{reason}"):
        judged("pycil", model, **{key: value})


def test_unknown_nested_keys_are_not_those_of_another_data_set() -> None:
    draft = judged("pycil", "foster", new={"inner": {"size": 1}, "cifar10": {"size": 1}}, dataset="cifar100")
    assert verdict(draft, "new.inner.size") == ("ignored", "PyCIL does not read it for FOSTER")
    assert verdict(draft, "new.cifar10.size") == ("ignored", "for another data set")


def test_values_without_a_meaning() -> None:
    with pytest.raises(UserError, match="'feature_dim' must be a number or a word"):
        judged("upcl", "upcl", feature_dim="wide")
    with pytest.raises(UserError, match="'M' must be a number"):
        judged("pilot", "ranpac", M=float("inf"))
    assert verdict(judged("upcl", "upcl", temperature=None), "temperature")[0] == "no equivalent"


def test_inner_keys_get_verdicts_of_their_own() -> None:
    inner = {"gamma": 0.1, "scheduler": {"milestones": [1, 2]}, "new": 1}
    content = {"dataset": "cifar100", "configurations": {"cifar100": inner, "imagenet1000": {"gamma": 0.2}}, "x": {}}
    model = PROGRAMS["pycil"].models["acil"]
    draft = Draft(content, PROGRAMS["pycil"], model, "")
    judge_model(draft)
    kinds = {each.key: each.kind for each in all_verdicts(draft)}
    assert kinds == {
        "dataset": "ignored",  # its verdict comes from the general keys
        "configurations.cifar100.gamma": "no equivalent",
        "configurations.cifar100.scheduler.milestones": "no equivalent",
        "configurations.cifar100.new": "ignored",
        "configurations.imagenet1000.gamma": "ignored",
        "x": "ignored",
    }


def test_keys_of_the_network() -> None:
    draft = judged("pilot", "ranpac", backbone_type="pretrained_vit_b16_224_adapter", ffn_num=64, vpt_type="deep")
    assert verdict(draft, "ffn_num") == ("no equivalent", "an option of RanPAC")
    assert verdict(draft, "vpt_type") == ("ignored", "PILOT does not read it for RanPAC")


def test_an_option_that_the_method_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables name options of methods that are still to come; if one has another name, that is said."""
    model = PROGRAMS["pycil"].models["lwf"]
    assert isinstance(model.settings, dict)
    monkeypatch.setitem(model.settings, "beta1", "beta1")
    draft = judged("pycil", "lwf", beta1=0.9)
    assert verdict(draft, "beta1") == ("no equivalent", "no option of LwF here")
    assert draft.options == {}
