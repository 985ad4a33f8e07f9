from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import upcl
from upcl import CheckpointError, UserError, run
from upcl.config import differences
from upcl.records import without_measurements
from upcl.runs import Progress, weights_sha256

STREAM = "synthetic:classes=6,train=10,test=5"
QUICK: dict[str, Any] = {"tasks": 3, "memory": "12", "epochs": 2}


class Stop(BaseException):
    pass


def stop_after(last: int) -> Any:
    steps = []

    def watch(step: Progress) -> None:
        steps.append(step)
        if len(steps) == last:
            raise Stop

    return watch


def test_record_holds_what_its_documentation_says(tmp_path: Path) -> None:
    record = run("upcl", STREAM, out=tmp_path / "run", **QUICK)
    assert record == json.loads((tmp_path / "run" / "record.json").read_text())
    documented = (Path(__file__).parents[1] / "docs" / "record.md").read_text()
    assert [key for key in record if f"`{key}`" not in documented] == []
    assert record["finished"] is True
    assert record["task_sizes"] == [2, 2, 2]
    for reading in ("head", "nme"):
        assert record["a_last"][reading] == record["top1"][reading][-1]
        assert record["a_avg"][reading] == pytest.approx(sum(record["top1"][reading]) / 3)
        assert [len(row) for row in record["top1_matrix"][reading]] == [1, 2, 3]
        assert all(a >= b for a, b in zip(record["top5"][reading], record["top1"][reading], strict=True))
        confusion = torch.tensor(record["confusion"][reading])
        assert confusion.sum(1).tolist() == [5] * 6
        assert 100 * int(confusion.diagonal().sum()) / 30 == pytest.approx(record["a_last"][reading])
        assert record["old"][reading][0] is None
    assert record["top5"]["head"][0] == 100, "with two classes every image is within the top five"
    assert record["imbalance_ratio"] == [1.0, 10 / 6, 10 / 3]
    assert record["exemplars"] == [12, 12, 12]
    assert record["environment"]["torch"].startswith("2.")


def test_events_tell_the_losses_of_every_epoch(tmp_path: Path) -> None:
    run("icarl", STREAM, out=tmp_path / "run", **QUICK)
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [(e["task"], e["stage"], e["epoch"]) for e in events] == [(t, 0, e) for t in range(3) for e in range(2)]
    assert [sorted(e["losses"]) for e in events[::2]] == [["ce"], ["ce", "kd"], ["ce", "kd"]]


def test_methods_without_exemplars_have_no_nearest_mean() -> None:
    record = run("finetune", STREAM, **QUICK)
    assert record["a_last"]["nme"] is None
    assert record["exemplars"] == [0, 0, 0]
    assert record["imbalance_ratio"] == [1.0, None, None]


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        run("finetune", STREAM, out=tmp_path, **QUICK)
    with pytest.raises(UserError, match="holds no run"):
        run("finetune", STREAM, out=tmp_path, resume=True, **QUICK)
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == ["precious.txt"]
    out = tmp_path / "run"
    first = run("finetune", STREAM, out=out, **QUICK)
    with pytest.raises(UserError, match="--resume"):
        run("finetune", STREAM, out=out, **QUICK)
    again = run("finetune", STREAM, out=out, resume=True, **QUICK)
    assert again == first


def test_another_config_is_refused_with_the_difference(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("upcl", STREAM, out=out, **QUICK)
    with pytest.raises(UserError, match=r"options.tau: 0.07 there, 0.2 now"):
        run("upcl", STREAM, out=out, resume=True, options={"tau": 0.2}, **QUICK)
    with pytest.raises(UserError, match="data_sha256"):
        run("upcl", STREAM + ",seed=9", out=out, resume=True, **QUICK)


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    def second(_: Progress) -> None:
        with pytest.raises(UserError, match="in use by another process"):
            run("finetune", STREAM, out=tmp_path / "run", resume=True, **QUICK)

    run("finetune", STREAM, out=tmp_path / "run", watch=second, **QUICK)


def test_resume_drops_repeated_and_broken_events(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "run"
    run("icarl", STREAM, out=whole, **QUICK)
    with pytest.raises(Stop):
        run("icarl", STREAM, out=out, watch=stop_after(5), save_seconds=1e9, **QUICK)
    with (out / "events.jsonl").open("a") as file:
        file.write('{"task": 1, "stage"')
    run("icarl", STREAM, out=out, resume=True, **QUICK)
    assert (out / "events.jsonl").read_text() == (whole / "events.jsonl").read_text()


def test_a_kill_inside_a_checkpoint_write_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("upcl", STREAM, **QUICK)
    import os

    original, calls = os.fsync, 0
    for deadly in range(2, 18, 3):
        out, calls = tmp_path / f"run-{deadly}", 0

        def fsync(handle: int, deadly: int = deadly) -> None:
            nonlocal calls
            calls += 1
            if calls == deadly:
                raise Stop
            original(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(Stop):
            run("upcl", STREAM, out=out, save_seconds=0, **QUICK)
        monkeypatch.setattr(os, "fsync", original)
        resumed = run("upcl", STREAM, out=out, resume=True, save_seconds=0, **QUICK)
        assert not differences(without_measurements(whole), without_measurements(resumed))


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Stop):
        run("upcl", STREAM, out=out, watch=stop_after(5), save_seconds=0, **QUICK)
    files = sorted((out / "checkpoints").iterdir())
    assert [f.name for f in files] == ["task-0.pt", "task-1-stage-0.pt"]
    for file in files:
        good = file.read_bytes()
        for bad, message in ((good[: len(good) // 2], "damaged"), (b"hello", "not a checkpoint")):
            file.write_bytes(bad)
            with pytest.raises(CheckpointError, match=message):
                run("upcl", STREAM, out=out, resume=True, **QUICK)
        file.write_bytes(good)
    (out / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        run("upcl", STREAM, out=out, resume=True, **QUICK)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    run("upcl", STREAM, out=a, **QUICK)
    run("upcl", STREAM, out=b, seed=1, **QUICK)
    (a / "checkpoints" / "task-2.pt").write_bytes((b / "checkpoints" / "task-2.pt").read_bytes())
    with pytest.raises(CheckpointError, match="belongs to another run"):
        run("upcl", STREAM, out=a, resume=True, **QUICK)


@pytest.mark.parametrize("method", ["finetune", "upcl"])
@pytest.mark.parametrize("select", ["validation", "test"])
def test_every_method_can_choose_its_epoch_and_resume(method: str, select: str, tmp_path: Path) -> None:
    settings = {**QUICK, "epochs": 7, "select": select}
    whole = run(method, STREAM, **settings)
    with pytest.raises(Stop):
        run(method, STREAM, out=tmp_path / "run", watch=stop_after(12), save_seconds=0, **settings)
    resumed = run(method, STREAM, out=tmp_path / "run", resume=True, **settings)
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert whole["weights_sha256"] != run(method, STREAM, **{**QUICK, "epochs": 7})["weights_sha256"]
    stamped = any("TEST data" in note for note in whole["notes"])
    assert stamped == (select == "test"), "looking at test data is written on the record, and only then"


def test_paper_protocol_is_stamped_and_uses_floor() -> None:
    record = run("icarl", STREAM, **{**QUICK, "memory": "13"}, protocol="paper")
    assert "TEST data" in record["notes"][0]
    assert record["exemplars"] == [12, 12, 12]
    assert run("icarl", STREAM, **{**QUICK, "memory": "13"})["exemplars"] == [13, 13, 13]


def test_budgets_of_all_units_hold_in_a_run() -> None:
    assert run("icarl", STREAM, tasks=3, epochs=1, memory="3/class")["exemplars"] == [6, 12, 18]
    assert run("icarl", STREAM, tasks=3, epochs=1, memory="2KB")["exemplars"] == [10, 10, 10]


@pytest.mark.parametrize("selection", ["random", "closest"])
def test_other_selections_run(selection: str) -> None:
    assert run("icarl", STREAM, exemplars=selection, **QUICK)["exemplars"] == [12, 12, 12]


@pytest.mark.parametrize(
    "options",
    [
        {"projector": 40},
        {"last_relu": False},
        {"assign": "l2", "assign_every": "epoch"},
        {"supcon_self": False, "proto_warmup": 0},
        {"margin": "columns"},
    ],
    ids=str,
)
def test_upcl_variants_run(options: dict[str, Any]) -> None:
    assert run("upcl", STREAM, options=options, **QUICK)["finished"]


def test_the_callers_random_state_is_given_back() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    run("finetune", STREAM, **QUICK)
    assert torch.equal(torch.rand(3), wanted)


def test_weights_digest_sees_every_tensor() -> None:
    state = {"a": torch.zeros(2), "b": torch.zeros((), dtype=torch.int64)}
    digest = weights_sha256(state)
    assert digest == weights_sha256({"b": state["b"], "a": state["a"]})
    assert digest != weights_sha256({**state, "a": torch.tensor([0.0, 1e-45])})
    assert digest != weights_sha256({**state, "b": torch.ones((), dtype=torch.int64)})


def test_public_names_exist() -> None:
    for name in upcl.__all__:
        assert getattr(upcl, name) is not None
    with pytest.raises(AttributeError):
        upcl.nothing  # noqa: B018


def test_upcl_is_far_ahead_on_digits() -> None:
    """The demo's claim, for one seed: 3 seeds are in docs/parity.md."""
    heads = {name: run(name, "digits")["a_last"]["head"] for name in ("finetune", "icarl", "upcl")}
    assert heads["upcl"] >= 70
    assert heads["upcl"] >= 30 + max(heads["icarl"], heads["finetune"])
