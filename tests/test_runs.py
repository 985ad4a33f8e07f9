from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import upcl
from upcl import CheckpointError, UserError, run
from upcl.core.identity import differences, weights_sha256
from upcl.research.record import reproducible_part
from upcl.research.run import RunProgress

STREAM = "synthetic:classes=6,train=10,test=5"
QUICK: dict[str, Any] = {"tasks": 3, "memory": "12", "epochs": 2}


class Stop(BaseException):
    pass


def stop_after(last: int) -> Any:
    steps = []

    def watch(step: RunProgress) -> None:
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


def test_top5_of_the_nearest_mean_ignores_classes_without_exemplars() -> None:
    record = run("icarl", "synthetic:classes=6,train=6,test=5", tasks=[5, 1], memory="2", epochs=1)
    assert record["top5"]["head"][0] == 100
    assert record["top5"]["nme"][0] <= 40, "only two of five classes have a mean"


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(UserError, match="not empty and holds no run"):
            run("finetune", STREAM, out=tmp_path, resume=resume, **QUICK)
    with pytest.raises(UserError, match="is a file"):
        run("finetune", STREAM, out=tmp_path / "precious.txt", **QUICK)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"], "a refusal leaves nothing behind"
    out = tmp_path / "run"
    first = run("finetune", STREAM, out=out, **QUICK)
    with pytest.raises(UserError, match="--resume"):
        run("finetune", STREAM, out=out, **QUICK)
    again = run("finetune", STREAM, out=out, resume=True, **QUICK)
    assert again == first


def test_another_config_is_refused_with_the_difference(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run("upcl", STREAM, out=out, **QUICK)
    with pytest.raises(UserError, match=r"options.tau: stored 0.07, requested 0.2"):
        run("upcl", STREAM, out=out, resume=True, options={"tau": 0.2}, **QUICK)
    with pytest.raises(UserError, match="data_sha256"):
        run("upcl", STREAM + ",seed=9", out=out, resume=True, **QUICK)


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    def second(_: RunProgress) -> None:
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
        assert not differences(reproducible_part(whole), reproducible_part(resumed))


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
    for out, seed in ((a, 0), (b, 1)):
        with pytest.raises(Stop):
            run("upcl", STREAM, out=out, seed=seed, watch=stop_after(4), **QUICK)
    (a / "checkpoints" / "task-0.pt").write_bytes((b / "checkpoints" / "task-0.pt").read_bytes())
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


def test_a_misplaced_checkpoint_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Stop):
        run("upcl", STREAM, out=out, watch=stop_after(5), save_seconds=0, **QUICK)
    task, stage = out / "checkpoints" / "task-0.pt", out / "checkpoints" / "task-1-stage-0.pt"
    good = task.read_bytes()
    for target, content in ((task, stage.read_bytes()), (stage, good)):
        kept = target.read_bytes()
        target.write_bytes(content)
        with pytest.raises(CheckpointError, match="was written as"):
            run("upcl", STREAM, out=out, resume=True, **QUICK)
        target.write_bytes(kept)


def test_what_a_kill_leaves_is_cleaned_up(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Stop):
        run("upcl", STREAM, out=out, watch=stop_after(3), save_seconds=0, **QUICK)
    (out / "record.json.partial").write_text("half")
    (out / "checkpoints" / "task-0-stage-0.pt.partial").write_text("half")
    run("upcl", STREAM, out=out, resume=True, **QUICK)
    names = sorted(p.name for p in out.rglob("*") if p.is_file())
    assert names == [".lock", "config.json", "events.jsonl", "record.json", "sketch.npz", "task-2.pt"]


def test_the_sketch_shows_what_the_record_counts(tmp_path: Path) -> None:
    record = run("upcl", STREAM, out=tmp_path / "run", **QUICK)
    with np.load(tmp_path / "run" / "sketch.npz", allow_pickle=False) as file:
        drawn = dict(file)
    num = len(record["classes"])
    assert len(drawn["features"]) == len(drawn["labels"])
    assert drawn["vectors"].shape == (num, drawn["features"].shape[1])
    assert set(drawn["exemplar_labels"]) == set(range(num))
    confusion = record["confusion"]["head"]
    pairs = list(zip(drawn["error_labels"].tolist(), drawn["error_taken"].tolist(), strict=True))
    assert pairs
    assert all(label != taken and confusion[label][taken] > 0 for label, taken in pairs)
    data = upcl.load_dataset(STREAM)
    known = {bytes(image) for image in data.train.inputs.numpy().reshape(len(data.train), -1)}
    assert all(image.tobytes() in known for image in drawn["exemplars"]), "thumbnails are the images themselves"


def test_events_tell_which_prototype_each_new_class_owns(tmp_path: Path) -> None:
    record = run("upcl", STREAM, out=tmp_path / "run", **QUICK)
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    for event in events:
        assert sorted(event["assignment"]) == list(range(record["task_sizes"][event["task"]]))
        assert -1 <= event["alignment"] <= 1
    assert max(abs(value) for value in record["coherence"]) < 1e-5, "orthonormal"


def test_accuracy_by_class_agrees_with_accuracy_by_task(tmp_path: Path) -> None:
    record = run("icarl", STREAM, out=tmp_path / "run", **QUICK)
    for reading in ("head", "nme"):
        for row, by_task in zip(record["top1_by_class"][reading], record["top1_matrix"][reading], strict=True):
            pairs = [sum(row[at : at + 2]) / 2 for at in range(0, len(row), 2)]
            assert pairs == pytest.approx(by_task), "two classes a task, as many images in each"


def test_a_resume_with_other_threads_is_noted(tmp_path: Path) -> None:
    out, threads = tmp_path / "run", torch.get_num_threads()
    with pytest.raises(Stop):
        run("finetune", STREAM, out=out, watch=stop_after(4), save_seconds=0, **QUICK)
    try:
        torch.set_num_threads(threads + 1)
        record = run("finetune", STREAM, out=out, resume=True, **QUICK)
    finally:
        torch.set_num_threads(threads)
    assert f"threads: stored {threads}, requested {threads + 1}" in record["notes"][0]


def test_a_finished_record_is_not_written_again(tmp_path: Path) -> None:
    run("finetune", STREAM, out=tmp_path / "run", **QUICK)
    before = (tmp_path / "run" / "record.json").stat().st_mtime_ns
    run("finetune", STREAM, out=tmp_path / "run", resume=True, **QUICK)
    assert (tmp_path / "run" / "record.json").stat().st_mtime_ns == before


def test_another_transform_is_another_config(tmp_path: Path) -> None:
    data = upcl.load_dataset(STREAM)
    run("finetune", data, out=tmp_path / "run", **QUICK)
    other = upcl.Dataset(**{**vars(data), "transform": upcl.Transform((0.4,) * 3, (0.25,) * 3)})
    with pytest.raises(UserError, match="transform"):
        run("finetune", other, out=tmp_path / "run", resume=True, **QUICK)


def test_what_cannot_work_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    for method, options in (("bic", {"memory": "0"}), ("nccil", {}), ("upcl", {"options": {"prototypes": "simplex"}})):
        with pytest.raises(UserError):
            run(method, "synthetic:classes=140,train=1,test=1", out=tmp_path / "run", epochs=1, **options)
    with pytest.raises(UserError, match="holds none out"):
        run("upcl", STREAM, out=tmp_path / "run", select="validation", validation=0.05, **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_peak_memory_is_each_tasks_own() -> None:
    ballast = torch.zeros(400 * 2**20 // 4)
    ballast.add_(1)
    del ballast
    record = run("finetune", STREAM, **QUICK)
    now = record["peak_memory_mb"]
    again = run("finetune", STREAM, **QUICK)["peak_memory_mb"]
    assert max(now) - min(again) < 300, "memory given back before the run is not counted"


def test_uint8_labels_are_taken() -> None:
    data = upcl.load_dataset(STREAM)
    small = upcl.Samples(data.train.inputs, data.train.labels.to(torch.uint8))
    assert run("finetune", upcl.Dataset(**{**vars(data), "train": small}), **QUICK)["finished"]
