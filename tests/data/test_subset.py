from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data import Dataset, load_dataset
from upcl.data.subset import SubsetOptions, first_per_class


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 5))
def test_first_per_class_equals_a_loop(labels: list[int], num: int) -> None:
    kept, seen = list[int](), dict[int, int]()
    for index, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] <= num:
            kept.append(index)
    found = first_per_class(Samples(torch.arange(len(labels)), torch.tensor(labels)), num)
    assert found.inputs.tolist() == kept
    assert found.labels.tolist() == [labels[index] for index in kept]


def test_zero_keeps_everything() -> None:
    samples = Samples(torch.arange(3), torch.tensor([0, 1, 1]))
    assert first_per_class(samples, 0) is samples


def test_options_become_part_of_the_name() -> None:
    digits = load_dataset("digits")
    assert SubsetOptions(test=5).apply(digits).name == "digits:test=5"
    named = dataclasses.replace(digits, name="imagenet100:list=first")
    small: Dataset = SubsetOptions(train=2, test=1).apply(named)
    assert small.name == "imagenet100:list=first,train=2,test=1"
    assert small.train.counts(10).tolist() == [2] * 10 and small.test.counts(10).tolist() == [1] * 10


def test_held_out_training_images_take_the_place_of_the_test_images() -> None:
    digits = load_dataset("digits")
    tuning = load_dataset("digits:held_out=0.2")
    assert len(tuning.train) + len(tuning.test) == len(digits.train)
    rows = {tuple(image.flatten().tolist()) for image in digits.test.inputs}
    assert sum(tuple(image.flatten().tolist()) in rows for image in tuning.test.inputs) < 5, "not the test images"
    for counts, whole in zip(tuning.test.counts(10), digits.train.counts(10), strict=True):
        assert int(counts) == int(0.2 * int(whole))


def test_the_first_classes_alone() -> None:
    few = load_dataset("digits:num_classes=3,train=5")
    assert few.classes == load_dataset("digits").classes[:3]
    assert few.train.counts(3).tolist() == [5, 5, 5] and int(few.test.labels.max()) == 2


def test_tasks_of_given_sizes_end_with_the_classes() -> None:
    digits = dataclasses.replace(load_dataset("digits"), tasks=(4, 3, 3))
    sizes = {num: SubsetOptions(num_classes=num).apply(digits).tasks for num in (2, 4, 5, 7, 10, 0)}
    assert sizes == {2: (2,), 4: (4,), 5: (4, 1), 7: (4, 3), 10: (4, 3, 3), 0: (4, 3, 3)}


@pytest.mark.parametrize(("options", "message"), [("held_out=1.5", "less than 1"), ("held_out=x", "must be a number")])
def test_impossible_shares_are_refused(options: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_dataset(f"digits:{options}")
