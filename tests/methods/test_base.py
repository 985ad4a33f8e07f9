"""The base class: what `learn`, `begin`, `stage` and `remember` do by default."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.methods.scenarios import begun, built, small_data, split_tasks, train
from tests.runs import quick_run
from upcl.core.errors import UserError
from upcl.core.identity import weights_sha256
from upcl.core.types import Task
from upcl.methods import METHODS
from upcl.methods.bic import BiC
from upcl.methods.finetune import Finetune
from upcl.methods.icarl import ICaRL
from upcl.methods.lucir import LUCIR
from upcl.methods.upcl import UPCL


def test_a_new_method_has_no_classes_and_no_exemplars() -> None:
    method = built(ICaRL, small_data())
    assert method.net.head.num_classes == 0
    assert len(method.memory.samples) == 0
    assert method.teacher is None


def test_begin_collects_new_images_exemplars_and_extra_images() -> None:
    data = small_data()
    method = built(ICaRL, data, memory="4")
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    exemplars = method.memory.samples
    method.begin(Task(1, 2, 2, second.train, extra=first.train[:3]))
    assert torch.equal(method.data.inputs, torch.cat([second.train.inputs, exemplars.inputs, first.train.inputs[:3]]))
    expected = exemplars.counts(4) + first.train[:3].counts(4) + torch.tensor([0, 0, 6, 6])
    assert torch.equal(method.counts, expected)


def test_begin_freezes_the_teacher_before_the_head_grows() -> None:
    method = begun(ICaRL)
    assert (method.teacher.head.num_classes, method.net.head.num_classes) == (2, 4)
    assert not any(p.requires_grad for p in method.teacher.parameters())
    method = begun(Finetune)
    assert method.teacher is None, "Finetune has none"


def test_the_main_stage_trains_the_complete_network_with_the_recipe_of_the_task() -> None:
    method = built(ICaRL, small_data(), epochs=None)
    first, second = split_tasks(small_data(), [2, 2])
    for task, recipe in ((first, ICaRL.recipes.first), (second, ICaRL.recipes.later)):
        (stage,) = method.learn(task)
        assert stage.data is method.data
        assert [id(p) for p in stage.params] == [id(p) for p in method.net.parameters()]
        assert stage.recipe == recipe
        assert stage.augment and not stage.frozen


def test_exemplars_are_selected_after_training() -> None:
    data = small_data()
    method = built(ICaRL, data, memory="4")
    (first,) = split_tasks(data, [4])
    stages = method.learn(first)
    next(stages)
    assert len(method.memory.samples) == 0, "before the stage is trained"
    assert next(stages, None) is None
    assert method.memory.samples.counts(4).tolist() == [1, 1, 1, 1]


def test_extra_images_become_exemplars() -> None:
    data = small_data()
    method = built(ICaRL, data, memory="12")
    first, second = split_tasks(data, [2, 2])
    train(method, Task(0, 0, 2, first.train[torch.tensor([0, 6])]))
    assert method.memory.samples.counts(2).tolist() == [1, 1]
    train(method, Task(1, 2, 2, second.train, extra=first.train[1:6]))
    assert method.memory.samples.counts(4).tolist() == [4, 1, 4, 3]


def test_a_method_without_memory_refuses_extra_images_before_it_changes() -> None:
    data = small_data()
    method = built(Finetune, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    before = weights_sha256(method.net.state_dict())
    with pytest.raises(UserError, match="remove these images, or use a method with an exemplar memory"):
        next(method.learn(Task(1, 2, 2, second.train, extra=first.train[:1])))
    assert weights_sha256(method.net.state_dict()) == before
    assert method.task is first


def test_features_are_extracted_from_plain_images_in_evaluation_mode() -> None:
    """LUCIR's code also averages over copies with swapped colour channels, where mirrored copies are meant."""
    data = small_data(2)
    method = built(LUCIR, data)
    seen: list[Tensor] = []

    def features(images: Tensor) -> Tensor:
        assert not method.net.training
        seen.append(images)
        return torch.zeros(len(images), 128)

    method.net.train()
    method.net.features = features
    method.extract(data.train)
    assert torch.equal(torch.cat(seen), data.transform.test(data.train.inputs))


def test_a_restored_method_continues_like_the_original() -> None:
    data = small_data()
    first, second = split_tasks(data, [2, 2])
    method, other = built(BiC, data), built(BiC, data)
    train(method, first)
    other.restore(method.state())
    assert torch.equal(other.memory.samples.inputs, method.memory.samples.inputs)
    for each in (method, other):
        torch.manual_seed(0)
        train(each, second)
    assert weights_sha256(method.net.state_dict()) == weights_sha256(other.net.state_dict())
    assert torch.equal(other.memory.samples.labels, method.memory.samples.labels)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pass", "PASS cannot learn from features of a frozen network: it rotates images; choose another method"),
        ("der", "every task adds a part to the backbone"),
        ("upcl", "a projector, which --set projector=256 adds"),
    ],
)
def test_a_frozen_backbone_is_refused_with_the_reason(name: str, reason: str) -> None:
    METHODS[name]().check_frozen(False)
    METHODS["icarl"]().check_frozen(True)
    UPCL(projector=8).check_frozen(True)
    with pytest.raises(UserError, match=reason):
        METHODS[name]().check_frozen(True)
    with pytest.raises(UserError, match=reason):
        quick_run(name, frozen=True)
