from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from upcl.research.config import Request, resolve
from upcl.research.record import Record, SparseCounts
from upcl.research.report import panels
from upcl.research.report.load import StoredRun
from upcl.research.results import ReadingFigures, TaskResult, make_record
from upcl.training.accounting import Cost
from upcl.training.evaluate import Reading

CONFUSION = torch.tensor([[8, 1, 1], [0, 5, 5], [2, 2, 6]])
TOP5 = torch.tensor([10, 9, 10])


def figures(task_sizes: list[int]) -> ReadingFigures:
    return ReadingFigures.of(Reading(CONFUSION.to_sparse(), TOP5), task_sizes)


def test_figures_by_hand() -> None:
    found = figures([1, 2])
    assert found.top1 == pytest.approx(100 * 19 / 30)
    assert found.top1_by_class == [80, 50, 60]
    assert found.top1_by_task == [80, 55]
    assert found.top5 == pytest.approx(100 * 29 / 30)
    assert found.top5_by_task == [100, 95]
    assert (found.old, found.new) == (80, 55)
    assert found.confusion == CONFUSION.tolist()
    assert figures([3]).old is None


def test_task_result_survives_a_checkpoint() -> None:
    result = TaskResult({"head": figures([1, 2]), "nme": None}, 2.0, 0.1, 12, 3.5, 100.0)
    assert TaskResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    costly = dataclasses.replace(result, cost=Cost(1, 4, 2, 3))
    assert TaskResult.from_json(json.loads(json.dumps(costly.to_json()))) == costly
    earlier = {key: value for key, value in result.to_json().items() if key != "cost"}
    assert TaskResult.from_json(earlier) == result, "a checkpoint of version 0.1"
    shortened = result.without_confusion().readings["head"]
    assert shortened and shortened.confusion is None and shortened.top1 == figures([1, 2]).top1


def test_record_is_finished_after_the_last_task_only() -> None:
    request = Request(method="finetune", data="synthetic:classes=3,train=2,test=1", tasks=(1, 2))
    config = resolve(request, request.load_dataset(), request.method_class)
    first = ReadingFigures.of(Reading(torch.tensor([[9]]).to_sparse(), torch.tensor([9])), [1])
    results = [
        TaskResult({"head": first, "nme": None}, 1.0, None, 0, 1.0, None),
        TaskResult({"head": figures([1, 2]), "nme": None}, None, 0.2, 0, 2.0, None),
    ]
    for num in (1, 2):
        record = make_record(
            config,
            class_order=[2, 0, 1],
            classes=["c", "a", "b"],
            results=results[:num],
            weights_sha256="0",
            notes=["note"],
            environment={"threads": 1},
        )
        assert record.finished == (num == 2)
        assert len(record.seconds) == len(record.top1.head) == num
    assert record.parameters is None, "no costs were measured"
    assert record.a_avg.head == pytest.approx((100 + 100 * 19 / 30) / 2)
    assert record.forgetting.head == 20
    assert record.backward_transfer.head == -20
    assert record.top1_matrix.head == [[100], [80, 55]]
    assert record.a_last.nme is None and record.forgetting.nme is None
    assert (record.classes, record.class_order) == (["c", "a", "b"], [2, 0, 1])


def test_record_of_many_classes_is_small(tmp_path: Path) -> None:
    num = 2000
    request = Request(method="finetune", data="synthetic:classes=2,train=1,test=1", tasks=1)
    config = resolve(request, request.load_dataset(), request.method_class)
    predicted = torch.arange(num) // 2
    confusion = torch.zeros(num, num, dtype=torch.int64).scatter_(1, predicted[:, None], 3).to_sparse()
    found = ReadingFigures.of(Reading(confusion, torch.full((num,), 3)), [num])
    result = TaskResult({"head": found, "nme": None}, 1.0, None, 0, seconds=1.0, peak_memory_mb=None)
    record = make_record(
        dataclasses.replace(config, task_sizes=(num,)),
        class_order=range(num),
        classes=[f"class {k}" for k in range(num)],
        results=[TaskResult.from_json(json.loads(json.dumps(result.to_json())))],
        weights_sha256="",
        notes=[],
        environment={},
    )
    assert record.a_last.head == 100 / num, "only the first class is predicted as itself"
    record.write(tmp_path)
    assert (tmp_path / "record.json").stat().st_size < 150_000
    stored = Record.read(tmp_path)
    assert stored == record
    assert stored.confusion.head == SparseCounts(
        labels=list(range(num)), predicted=predicted.tolist(), counts=[3] * num
    )
    assert not list(panels.confusion({"Finetune": [StoredRun(tmp_path, stored)]})), "nobody can look at it"


def test_confusion_of_a_thousand_classes_is_still_a_table() -> None:
    for num, kind in ((1000, list), (1001, dict)):
        reading = Reading(torch.eye(num, dtype=torch.int64).to_sparse(), torch.ones(num, dtype=torch.int64))
        assert isinstance(ReadingFigures.of(reading, [num]).confusion, kind)
