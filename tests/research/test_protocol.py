from __future__ import annotations

import dataclasses
import hashlib
import itertools

import pytest
import torch

from upcl.core.errors import UserError
from upcl.core.types import Samples, Task
from upcl.data import load_dataset
from upcl.research.parsing import read_order
from upcl.research.protocol import LongTail, Protocol, class_order, parse_order, split_classes, subsample


@pytest.mark.parametrize(
    ("num", "first", "last"),
    [
        (100, [68, 56, 78, 8, 23, 84, 90, 65, 74, 76], [67, 29, 49, 57, 33]),
        (200, [168, 136, 51, 9, 183, 101, 171, 99, 42, 159], [195, 29, 177, 185, 161]),
        (1000, [54, 7, 894, 512, 126, 337, 988, 11, 284, 493], [285, 225, 945, 697, 417]),
    ],
)
def test_class_order_of_the_field(num: int, first: list[int], last: list[int]) -> None:
    order = class_order(num, 1993)
    assert order[:10] == first
    assert order[-5:] == last


@pytest.mark.parametrize(("num", "digest"), [(100, "997a048a5344d216"), (200, "1d364b99a5915405")])
def test_class_order_digest(num: int, digest: str) -> None:
    joined = ",".join(map(str, class_order(num, 1993)))
    assert hashlib.sha256(joined.encode()).hexdigest().startswith(digest)


def test_new_labels_are_positions_in_the_order() -> None:
    position = torch.tensor(class_order(100, 1993)).argsort()
    assert position[:10].tolist() == [69, 23, 57, 12, 89, 87, 34, 84, 3, 15]


def test_classes_are_split_evenly_or_by_given_sizes() -> None:
    assert split_classes(100, 20) == [5] * 20
    assert split_classes(10, 3) == [4, 3, 3]
    assert split_classes(10, [5, 1, 4]) == [5, 1, 4]
    for wrong in (0, 11, [5, 4], [11, -1], []):
        with pytest.raises(UserError):
            split_classes(10, wrong)


def test_tasks_hold_each_training_image_once_and_no_test_image() -> None:
    data = load_dataset("synthetic:classes=6,train=7,test=3")
    protocol = Protocol(data, [2, 3, 1], 1993)
    tasks = [protocol.task(t) for t in range(len(protocol))]
    assert [(t.num_old, t.num_new, len(t.train)) for t in tasks] == [(0, 2, 14), (2, 3, 21), (5, 1, 7)]
    for task in tasks:
        for label in task.train.labels.unique().tolist():
            assert task.num_old <= label < task.num_seen
            mine = task.train.inputs[task.train.labels == label]
            assert torch.equal(mine, data.train.inputs[data.train.labels == protocol.order[label]])
    assert [len(protocol.test(n)) for n in (2, 5, 6)] == [6, 15, 18]


def test_task_gives_no_access_to_other_data() -> None:
    protocol = Protocol(load_dataset("synthetic:classes=4,train=3,test=2"), [2, 2], 1993)
    task = protocol.task(0)
    assert {f.name for f in dataclasses.fields(Task)} == {"index", "num_old", "num_new", "train", "extra"}
    assert not len(task.extra)
    assert task.train.inputs._base is None, "the images are a copy, not a view of the whole data set"
    assert {f.name for f in dataclasses.fields(Samples)} == {"inputs", "labels"}


def test_validation_images_come_from_the_training_data_and_leave_it() -> None:
    data = load_dataset("synthetic:classes=4,train=20,test=2")
    protocol = Protocol(data, [2, 2], 1993, validation=0.25)
    held = protocol.validation(4)
    assert held.counts(4).tolist() == [5] * 4
    assert len(protocol.validation(2)) == 10
    train = torch.cat([protocol.task(t).train.inputs for t in range(2)])
    assert len(train) == 60
    everything = {image.numpy().tobytes() for image in data.train.inputs}
    assert {image.numpy().tobytes() for image in torch.cat([train, held.inputs])} == everything


def test_shares_are_not_lost_to_the_rounding_of_floats() -> None:
    samples = Samples(torch.zeros(400, 1), torch.arange(4).repeat_interleave(100))
    assert subsample(samples, [0.29, 0.57, 0.1, 0.999]).counts(4).tolist() == [29, 57, 10, 99]
    assert subsample(samples, [0.001] * 4).counts(4).tolist() == [1] * 4


def test_long_tails_fall_by_the_factor() -> None:
    exp = LongTail.parse("exp:0.01:ordered").shares(10)
    assert exp[0] == 1
    assert exp[-1] == pytest.approx(0.01)
    assert all(a / b == pytest.approx(exp[0] / exp[1]) for a, b in itertools.pairwise(exp))
    assert LongTail.parse("step:0.1:ordered").shares(5) == [1, 1, 1, 0.1, 0.1]
    shuffled = LongTail.parse("exp:0.01").shares(10)
    assert shuffled != exp
    assert sorted(shuffled) == sorted(exp)
    assert (
        shuffled == LongTail.parse("exp:0.01:shuffled:0").shares(10) != LongTail.parse("exp:0.01:shuffled:1").shares(10)
    )
    for wrong in ("exp", "exp:2", "exp:0.0", "linear:0.1", "exp:0.1:sorted", f"exp:0.1:shuffled:{2**32}"):
        with pytest.raises(UserError, match="long tail"):
            LongTail.parse(wrong)


def test_a_long_tailed_stream_thins_training_images_only() -> None:
    data = load_dataset("synthetic:classes=4,train=100,test=5")
    protocol = Protocol(data, [2, 2], 1993, tail=LongTail.parse("exp:0.1:ordered"))
    counts = [protocol.task(t).train.counts(4).tolist() for t in range(2)]
    assert counts == [[100, 46, 0, 0], [0, 0, 21, 10]]
    assert protocol.test(4).counts(4).tolist() == [5] * 4


def test_custom_class_orders_by_name_or_number() -> None:
    classes = ["owl", "cat", "2"]
    assert parse_order(["2", "owl", "1"], classes) == [2, 0, 1]
    for wrong, said in ((["owl", "cat"], "lacks 2"), (["owl", "cat", "2", "owl"], "owl twice"), (["dog"], "dog")):
        with pytest.raises(UserError, match=said):
            parse_order(wrong, classes)
    assert parse_order(["1", "0"], ["a", "a"]) == [1, 0]
    with pytest.raises(UserError, match="several classes are named a"):
        parse_order(["a", "a"], ["a", "a"])
    assert read_order(",".join(map(str, range(300)))) == [str(k) for k in range(300)]
