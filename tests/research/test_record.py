from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs import quick_run
from upcl.core.errors import UserError
from upcl.core.identity import json_sha256
from upcl.research.record import COSTS, Record, finished_record
from upcl.training.evaluate import READINGS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("record") / "run"
    quick_run("upcl", out=out)
    return out


@pytest.fixture
def content(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "record.json").read_text())
    return value


def test_figures_agree_with_each_other(folder: Path) -> None:
    record = Record.read(folder)
    assert record.finished
    assert record.task_sizes == [2, 2, 2]
    for reading in READINGS:
        top1, top5, matrix = record.top1[reading], record.top5[reading], record.top1_matrix[reading]
        old = record.old[reading]
        assert top1 is not None and top5 is not None and matrix is not None and old is not None
        assert record.a_last[reading] == top1[-1]
        assert record.a_avg[reading] == pytest.approx(sum(top1) / 3)
        assert [len(row) for row in matrix] == [1, 2, 3]
        assert all(a >= b for a, b in zip(top5, top1, strict=True))
        assert old[0] is None
    confusion = torch.tensor(record.confusion.head)
    assert confusion.sum(1).tolist() == [5] * 6
    assert 100 * int(confusion.diagonal().sum()) / 30 == pytest.approx(record.a_last.head)
    assert record.confusion.nme is None, "the largest part of a record, which no report shows"
    assert record.top5.head[0] == 100, "with two classes every image is within the top five"
    assert record.imbalance_ratio == [1.0, 10 / 6, 10 / 3]
    assert record.exemplars == [12, 12, 12]
    assert record.environment["torch"].startswith("2.")


def test_json_round_trip(folder: Path, content: dict[str, Any]) -> None:
    record = Record.read(folder)
    assert record.to_json() == content
    assert Record.from_json(content) == record
    assert record.config.digest() == record.config_digest


def test_every_field_is_documented(content: dict[str, Any]) -> None:
    documented = (ROOT / "docs" / "record.md").read_text()
    assert [key for key in content if f"`{key}`" not in documented] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 1}, "record schema 1; this version of upcl reads schema 2"),
        ({"a_last": None}, "'a_last'"),
        ({"a_last": {"head": "high", "nme": None}}, "'a_last.head'"),
        ({"seconds": "soon"}, "'seconds'"),
        ({"surprise": 1}, "'surprise'"),
        ({"config": {}}, "'config.method'"),
        ({"config_digest": "0" * 64}, "'config_digest'"),
        ({"seed": 7}, "'seed'"),
        ({"classes": ["a"]}, "'class_order'"),
        ({"class_order": [0, 0, 1, 2, 3, 4]}, "'class_order'"),
        ({"seconds": [1.0]}, "'imbalance_ratio'"),
        ({"seconds": [1.0] * 4}, "'task_sizes'"),
        ({"a_avg": {"head": float("nan"), "nme": None}}, "'a_avg.head'"),
        ({"confusion": {"head": [[1, 2]], "nme": None}}, "'confusion'"),
        ({"confusion": {"head": [[10**400] * 6] * 6, "nme": None}}, "'confusion'"),
        ({"top1_matrix": {"head": [[1.0], [1.0], [1.0]], "nme": None}}, "'top1_matrix'"),
        ({"top1_by_class": {"head": [], "nme": None}}, "'top1_by_class'"),
        ({"parameters": [1]}, "'parameters'"),
        ({"total_bytes": [1, 2, 3]}, "'total_bytes'"),
    ],
)
def test_invalid_records_are_refused(content: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Record.from_json({**content, **change}, "record.json")


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        Record.read(tmp_path)
    (tmp_path / "record.json").write_text("[1, 2]")
    with pytest.raises(UserError, match="record schema None"):
        Record.read(tmp_path)


def test_finished_record_must_match_the_config(folder: Path, content: dict[str, Any], tmp_path: Path) -> None:
    config = Record.read(folder).config
    assert finished_record(folder, config) == Record.read(folder)
    assert finished_record(tmp_path, config) is None
    for change in ({"finished": False}, {"config_digest": "0" * 64}):
        (tmp_path / "record.json").write_text(json.dumps({**copy.deepcopy(content), **change}))
        assert finished_record(tmp_path, config) is None


def test_reproducible_part_leaves_measurements_out(folder: Path) -> None:
    part = Record.read(folder).reproducible_part()
    assert not {"seconds", "peak_memory_mb", "environment"} & set(part)
    assert {"weights_sha256", "top1", "config"} <= set(part)


@pytest.mark.parametrize("depth", [60, 10_000])
def test_deeply_nested_files_are_refused(tmp_path: Path, depth: int) -> None:
    (tmp_path / "record.json").write_text('{"schema": 2, "environment": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(UserError, match="nested more than"):
        Record.read(tmp_path)


@pytest.mark.parametrize("name", ["protocol", "task_sizes"])
def test_config_with_a_new_digest_is_still_checked(content: dict[str, Any], name: str) -> None:
    wrong: Any = [] if name == "task_sizes" else "nosuch"
    config = {**content["config"], name: wrong}
    with pytest.raises(UserError, match="contradicts the other fields"):
        Record.from_json({**content, "config": config, name: wrong, "config_digest": json_sha256(config)})


def test_records_without_costs_can_still_be_read(content: dict[str, Any]) -> None:
    old = {key: value for key, value in content.items() if key not in COSTS}
    record = Record.from_json(old)
    assert all(getattr(record, name) is None for name in COSTS)
    assert record.to_json() == {**content, **dict.fromkeys(COSTS)}


@pytest.mark.parametrize(
    "stored", sorted((ROOT / "results" / "runs").glob("*/record.json")), ids=lambda p: p.parent.name
)
def test_records_of_the_repository_can_be_read(stored: Path) -> None:
    assert Record.read(stored.parent).finished


def test_costs_add_up(folder: Path) -> None:
    record = Record.read(folder)
    assert record.network_bytes and record.exemplar_bytes and record.total_bytes and record.parameters
    assert record.exemplar_bytes == [12 * 3 * 8 * 8] * 3
    assert record.total_bytes == [sum(pair) for pair in zip(record.network_bytes, record.exemplar_bytes, strict=True)]
    assert record.parameters == sorted(set(record.parameters)), "the head grows with every task"
    assert all(4 * numbers <= size for numbers, size in zip(record.parameters, record.network_bytes, strict=True))
