from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upcl.core.errors import UserError
from upcl.core.identity import differences
from upcl.data import load_dataset
from upcl.methods.registry import find_method
from upcl.research.config import Request, RunConfig, resolve


def config(**values: Any) -> RunConfig:
    request = Request.from_mapping({"method": "upcl", "data": "digits", **values})
    return resolve(request, request.load_dataset(), request.method_class)


def test_defaults_come_from_the_data_set() -> None:
    plain = config()
    assert plain.task_sizes == (2,) * 5
    assert (plain.memory, plain.backbone, plain.recipes.first.schedule) == ("20", "small", "one-cycle")
    assert plain.options["tau"] == 0.07
    assert plain.digest() == config().digest() != config(seed=1).digest()


def test_own_recipe_scales_with_the_epochs() -> None:
    own = config(recipe="own", epochs=20).recipes
    assert (own.first.milestones, own.later.milestones) == ((6, 12, 17), (9, 14, 18))
    assert (own.first.weight_decay, own.later.weight_decay, own.first.batch_size) == (5e-4, 2e-4, 256)


def test_options_reach_method_and_recipe() -> None:
    made = config(
        options={"tau": "0.2", "lambda_1": 1, "supcon_self": "false", "recipe.lr": "1e-2", "later.milestones": "2,3"}
    )
    assert made.options["tau"] == 0.2
    assert made.options["lambda_1"] == "1"
    assert made.options["supcon_self"] is False
    assert made.recipes.first.lr == made.recipes.later.lr == 0.01
    assert (made.recipes.first.milestones, made.recipes.later.milestones) == ((), (2, 3))


def test_paper_protocol_sets_the_official_choices_for_every_method() -> None:
    upcl, icarl = config(protocol="paper"), config(protocol="paper", method="icarl")
    assert (upcl.select, upcl.sharing, upcl.options["lose_task0_assignment"]) == ("test", "floor", True)
    assert (icarl.select, icarl.sharing) == ("test", "floor")
    assert config().select == "last"
    assert config(protocol="paper", select="last").select == "last"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "upcll"}, "did you mean upcl"),
        ({"methd": "upcl"}, "did you mean method"),
        ({"options": {"tauu": 1}}, "unknown option of upcl 'tauu': did you mean tau"),
        ({"options": {"tau": -1}}, "tau: Input should be greater than 0"),
        ({"options": {"tau": "warm"}}, "tau: .*valid number"),
        ({"options": {"margin": "priors"}}, "margin: .*'prior'"),
        ({"options": {"recipe.lrr": 1}}, "did you mean lr"),
        ({"options": {"recipes.lr": 1}}, "did you mean recipe"),
        ({"protocol": "honset"}, "did you mean honest"),
        ({"recipe": "quik"}, "did you mean quick"),
        ({"backbone": "smal"}, "did you mean small"),
        ({"memory": "lots"}, "use a number of images"),
        ({"tasks": 11}, "choose 1 to 10"),
        ({"epochs": 0}, "epochs"),
        ({"seed": -1}, "seed"),
        ({"exemplars": "hearding"}, "herding"),
        ({"validation": 0.2}, "--select validation"),
        ({"select": "validation", "validation": 0}, "needs a share"),
        ({"method": "nowhere.py:Mine"}, "no such Python file: nowhere.py"),
        ({"method": "README.md:Mine"}, "no such Python file: README.md"),
        ({"tasks": 0}, "choose 1 to 10"),
        ({"memory": ""}, "use a number of images"),
        ({"backbone": ""}, "unknown backbone"),
        ({"order_seed": 5_000_000_000}, "order_seed"),
        ({"options": {"recipe.lr": "inf"}}, "lr"),
        ({"options": {"recipe.batch_size": 1}}, "batch_size"),
        ({"options": {"later.milestones": "[2,3"}}, "milestones"),
        ({"options": [1]}, "options"),
        ({"method": "bic", "memory": "0"}, "BiC needs exemplars"),
    ],
)
def test_errors_suggest_the_right_choice(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config(**values)


def test_all_wrong_values_are_reported_at_once() -> None:
    with pytest.raises(UserError, match=r"(?s)tau:.*ema:"):
        config(options={"tau": -1, "ema": 3})


def test_differences_name_the_path() -> None:
    assert differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2}) == ["a.b: stored 1, requested 3"]


def test_methods_outside_of_the_package_are_found() -> None:
    path = Path(__file__).parents[2] / "examples" / "own_method.py"
    assert find_method(f"{path}:FeatureDistillation").name == "feature-distillation"
    with pytest.raises(UserError, match="did you mean FeatureDistillation"):
        find_method(f"{path}:FeatureDistilation")


def test_external_method_may_postpone_its_annotations(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = (Path(__file__).parents[2] / "examples" / "own_method.py").read_text()
    path.write_text("from __future__ import annotations\n" + text.replace("FeatureDistillation", "Mine"))
    assert config(method=f"{path}:Mine").options["strength"] == 1.0


def test_rows_of_the_ablation_are_methods_with_fields_set() -> None:
    assert config(method="up+fm").options["margin"] == "fixed"
    assert config(method="up").options["margin"] == "none"
    assert config(method="up", options={"margin": "columns"}).options["margin"] == "columns"


def test_request_is_checked_on_construction() -> None:
    assert Request(memory=20, tasks="4,6", options={"tau": 1}).memory == "20"  # type: ignore[arg-type]
    for wrong in ({"seed": -1}, {"epochs": "many"}, {"method": 3}, {"seed": None}, {"select": "best"}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            Request(**wrong)


def test_request_takes_classes_and_data_sets() -> None:
    method, dataset = find_method("icarl"), load_dataset("digits")
    request = Request(method=method, data=dataset)
    assert (request.method_name, request.method_class) == ("icarl", method)
    assert request.load_dataset() is dataset
    named = Request(method="icarl", data="digits")
    assert resolve(request, dataset, method).digest() == resolve(named, dataset, method).digest()
