from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import upcl
from tests.runs import STREAM, quick_run
from upcl.core.errors import UserError


def read_events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_events_hold_the_losses_of_every_epoch(tmp_path: Path) -> None:
    quick_run("icarl", out=tmp_path / "run")
    events = read_events(tmp_path / "run")
    assert [(e["task"], e["stage"], e["epoch"]) for e in events] == [(t, 0, e) for t in range(3) for e in range(2)]
    assert [sorted(e["losses"]) for e in events[::2]] == [["ce"], ["ce", "kd"], ["ce", "kd"]]


def test_events_hold_the_prototype_of_each_new_class(tmp_path: Path) -> None:
    record = quick_run("upcl", out=tmp_path / "run")
    for event in read_events(tmp_path / "run"):
        assert sorted(event["assignment"]) == list(range(record.task_sizes[event["task"]]))
        assert -1 <= event["alignment"] <= 1
    assert max(abs(value or 0) for value in record.coherence) < 1e-5, "orthonormal"


def test_methods_without_exemplars_have_no_nearest_mean() -> None:
    record = quick_run("finetune")
    assert record.a_last.nme is None
    assert record.exemplars == [0, 0, 0]
    assert record.imbalance_ratio == [1.0, None, None]


def test_top5_of_the_nearest_mean_ignores_classes_without_exemplars() -> None:
    record = quick_run("icarl", "synthetic:classes=6,train=6,test=5", tasks=(5, 1), memory="2", epochs=1)
    assert record.top5.head[0] == 100
    assert record.top5.nme is not None and record.top5.nme[0] <= 40, "only two of five classes have a mean"


def test_accuracy_by_class_agrees_with_accuracy_by_task() -> None:
    record = quick_run("icarl")
    for by_class, by_task in ((record.top1_by_class.head, record.top1_matrix.head),):
        for row, expected in zip(by_class, by_task, strict=True):
            pairs = [((row[at] or 0) + (row[at + 1] or 0)) / 2 for at in range(0, len(row), 2)]
            assert pairs == pytest.approx(expected), "two classes per task, with equally many images"


def test_paper_protocol_is_noted_and_rounds_budgets_down() -> None:
    record = quick_run("icarl", memory="13", protocol="paper")
    assert "TEST data" in record.notes[0]
    assert record.exemplars == [12, 12, 12]
    assert quick_run("icarl", memory="13").exemplars == [13, 13, 13]


@pytest.mark.parametrize(
    ("memory", "exemplars"), [("3/class", [6, 12, 18]), ("2KB", [10, 10, 10]), ("12", [12, 12, 12])]
)
def test_budgets_of_all_units_are_used_exactly(memory: str, exemplars: list[int]) -> None:
    assert quick_run("icarl", epochs=1, memory=memory).exemplars == exemplars


def test_total_memory_counts_the_network() -> None:
    limit = 2_477_000  # two backbones of DER and 16 images of 192 bytes
    record = quick_run("der", memory=f"{limit}B-total", epochs=1)
    assert record.total_bytes and record.network_bytes
    assert record.exemplars[0] == 20, "all images"
    assert record.exemplars[1] == (limit - record.network_bytes[1]) // 192
    assert record.exemplars[2] == 0 and record.total_bytes[2] > limit
    assert record.notes == [f"the network alone takes more than the memory of {limit}B-total"]
    plain = quick_run("icarl", memory=f"{limit}B-total", epochs=1)
    assert plain.total_bytes and max(plain.total_bytes) <= limit and plain.notes == []


def test_exemplar_selections_differ() -> None:
    weights = {selection: quick_run("icarl", exemplars=selection) for selection in ("herding", "random", "closest")}
    assert all(record.exemplars == [12, 12, 12] for record in weights.values())
    assert len({record.weights_sha256 for record in weights.values()}) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"projector": 40},
        {"last_relu": False},
        {"supcon_self": False, "proto_warmup": 0},
        {"margin": "columns"},
    ],
    ids=str,
)
def test_upcl_options_change_the_weights(options: dict[str, Any]) -> None:
    record, plain = quick_run("upcl", options=options), quick_run("upcl")
    assert {key: record.config.options[key] for key in options} == options
    assert record.weights_sha256 != plain.weights_sha256


def test_random_state_of_the_caller_is_restored() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    quick_run("finetune")
    assert torch.equal(torch.rand(3), expected)


def test_impossible_runs_are_refused_before_a_folder_is_created(tmp_path: Path) -> None:
    for method, options in (("bic", {"memory": "0"}), ("nccil", {}), ("upcl", {"options": {"prototypes": "simplex"}})):
        with pytest.raises(UserError):
            quick_run(method, "synthetic:classes=140,train=1,test=1", out=tmp_path / "run", epochs=1, **options)
    with pytest.raises(UserError, match="holds out no image"):
        quick_run("upcl", out=tmp_path / "run", select="validation", validation=0.05)
    assert list(tmp_path.iterdir()) == []


def test_peak_memory_excludes_what_was_freed_before() -> None:
    ballast = torch.zeros(400 * 2**20 // 4)
    ballast.add_(1)
    del ballast
    peaks = [peak or 0 for peak in quick_run("finetune").peak_memory_mb]
    again = [peak or 0 for peak in quick_run("finetune").peak_memory_mb]
    assert max(peaks) - min(again) < 300


def test_uint8_labels_are_converted() -> None:
    data = upcl.load_dataset(STREAM)
    small = upcl.Samples(data.train.inputs, data.train.labels.to(torch.uint8))
    record = quick_run("finetune", upcl.Dataset(**{**vars(data), "train": small}))
    assert record.weights_sha256 == quick_run("finetune", data).weights_sha256


def test_custom_class_order_is_used_and_recorded() -> None:
    record = quick_run(
        "finetune", "synthetic:classes=4,train=8,test=4", tasks=(1, 3), epochs=1, order=("3", "1", "0", "2")
    )
    assert record.class_order == [3, 1, 0, 2]
    assert record.config.order == (3, 1, 0, 2)
    assert record.task_sizes == [1, 3]


@pytest.mark.parametrize("select", ["validation", "test"])
def test_epoch_selection_keeps_the_best_epoch_and_is_noted(select: str) -> None:
    record = quick_run("finetune", epochs=7, select=select)
    assert record.weights_sha256 != quick_run("finetune", epochs=7).weights_sha256
    used_test_data = any("TEST data" in note for note in record.notes)
    assert used_test_data == (select == "test"), "the use of test data is on the record, and only then"
