from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.model.photos import QUICK, noise
from upcl import UserError
from upcl.model.bundle import Bundle
from upcl.model.intake import NewImages
from upcl.model.options import LearnOptions
from upcl.model.plan import UpdatePlan, check_options, identify, plan_update

CPU = torch.device("cpu")


def offered(*names: str, first: int = 0) -> NewImages:
    images = noise(first + len(names) + 1)[first:]
    return NewImages(images[:-1], names, images[-1:], names[:1])


def plan(bundle: Bundle | None, images: NewImages, tmp_path: Path, **changes: Any) -> UpdatePlan:
    return plan_update(tmp_path / "m.upcl", bundle, images, dataclasses.replace(QUICK, **changes), CPU)


def test_planning_writes_nothing(bundle: Bundle, tmp_path: Path) -> None:
    for before in (None, bundle):
        plan(before, offered("robin", "wren"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backbone": "smal"}, "did you mean small"),
        ({"options": {"recipe.lrr": 1}}, "did you mean lr"),
        ({"memory": "0"}, "too small"),
    ],
)
def test_wrong_options_are_found_without_images(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_options(Path("m.upcl"), None, (8, 3), LearnOptions(**changes), CPU)


def test_options_of_an_existing_model_are_compared_with_its_spec(bundle: Bundle) -> None:
    check_options(Path("m.upcl"), bundle.spec, (8, 3), QUICK, CPU)
    with pytest.raises(UserError, match="stored small, requested medium"):
        check_options(Path("m.upcl"), bundle.spec, (8, 3), LearnOptions(backbone="medium"), CPU)


def test_the_task_has_new_classes_and_extra_images_of_known_ones(bundle: Bundle, tmp_path: Path) -> None:
    first = plan(None, offered("robin", "wren"), tmp_path)
    assert (first.task.index, first.task.num_old, first.task.num_new) == (0, 0, 2)
    assert first.before is None and first.history == () and first.spec.method == "upcl"
    later = plan(bundle, offered("robin", "kind 1", "kind 1"), tmp_path)
    assert (later.task.index, later.task.num_old, later.task.num_new) == (2, 6, 1)
    assert later.task.train.labels.tolist() == [6] and later.task.extra.labels.tolist() == [1, 1]
    assert later.before is bundle.state and later.history == bundle.history


def test_extra_images_are_refused_for_methods_without_exemplars(bundle: Bundle, tmp_path: Path) -> None:
    spec = dataclasses.replace(bundle.spec, method="finetune", options={})
    without_memory = dataclasses.replace(bundle, spec=spec)
    with pytest.raises(UserError, match=r"Finetune keeps no exemplars, .* \(kind 1, kind 2\): pass folders of new"):
        plan(without_memory, offered("kind 1", "kind 2", "robin"), tmp_path)
    assert plan(without_memory, offered("robin"), tmp_path).intake.num_new == 1


def test_an_update_is_identified_by_images_options_and_weights(bundle: Bundle, tmp_path: Path) -> None:
    images = offered("robin", "wren")
    digest = identify(plan(bundle, images, tmp_path)).digest()
    assert identify(plan(bundle, images, tmp_path, max_forgetting=50.0)).digest() == digest, "it changes no weight"
    weights = bundle.state.weights
    reversed_order = dataclasses.replace(bundle.state, weights={name: weights[name] for name in reversed(weights)})
    assert identify(plan(with_state(bundle, reversed_order), images, tmp_path)).digest() == digest
    other_weights = dataclasses.replace(bundle.state, weights={name: value + 1 for name, value in weights.items()})
    others = [
        plan(bundle, offered("robin", "wren", first=1), tmp_path),
        plan(bundle, offered("wren", "robin"), tmp_path),
        plan(bundle, offered("robin", "kind 1"), tmp_path),
        plan(bundle, images, tmp_path, epochs=5),
        plan(bundle, images, tmp_path, memory="5/class"),
        plan(with_state(bundle, other_weights), images, tmp_path),
        plan(None, images, tmp_path),
    ]
    assert len({digest, *(identify(other).digest() for other in others)}) == 1 + len(others)


def with_state(bundle: Bundle, state: Any) -> Bundle:
    return dataclasses.replace(bundle, states={1: state})
