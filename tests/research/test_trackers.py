"""What trackers stored, read back with their own tools."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Stop, quick_run, stop_after
from upcl.core.errors import UserError
from upcl.research.record import Record
from upcl.research.run import RunProgress
from upcl.research.trackers import TRACKERS, Tracker, Tracking, combine_callbacks, tracking

TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "memory": "4", "epochs": 2}


def train(out: Path, *names: str) -> Record:
    with tracking(names, out) as tracked:
        record = quick_run("upcl", out=out, on_progress=tracked.on_progress, **TINY)
        tracked.finish(record)
    return record


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all three trackers."""
    out = tmp_path_factory.mktemp("tracked") / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of third-party code
        train(out, "tensorboard", "mlflow", "wandb")
    return out


def losses(out: Path) -> list[dict[str, float]]:
    return [json.loads(line)["losses"] for line in (out / "events.jsonl").read_text().splitlines()]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_stores_losses_and_accuracies(tracked: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(tracked.parent / "tensorboard" / "run"))
    found.Reload()
    steps = found.Scalars("loss/feat")
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert [step.value for step in steps] == pytest.approx([each["feat"] for each in losses(tracked)])
    accuracies = [step.value for step in found.Scalars("accuracy/head")]
    assert accuracies == pytest.approx(Record.read(tracked).top1.head)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_stores_losses_and_config(tracked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tracked.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("upcl")
    assert experiment
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"]
    history = client.get_metric_history(runs[0].info.run_id, "loss/feat")
    assert {m.step: m.value for m in history} == {
        step: pytest.approx(each["feat"]) for step, each in enumerate(losses(tracked), 1)
    }
    assert json.loads(runs[0].data.tags["method"]) == "upcl"


def logged_messages(path: Path) -> Iterator[bytes]:
    """The messages of an offline file: a log of 32 KiB blocks, as LevelDB writes them, behind seven bytes."""
    content, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        if kind == 0:
            break
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


@pytest.mark.filterwarnings("ignore")
def test_wandb_stores_losses_and_accuracies_offline(tracked: Path) -> None:
    from wandb.proto import wandb_internal_pb2

    (path,) = (tracked.parent / "wandb").glob("offline-run-*/run-*.wandb")
    rows: list[dict[str, Any]] = []
    for content in logged_messages(path):
        message = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
        message.ParseFromString(content)
        if message.WhichOneof("record_type") == "history":
            rows.append({item.key or item.nested_key[0]: json.loads(item.value_json) for item in message.history.item})
    assert [row["loss/feat"] for row in rows if "loss/feat" in row] == pytest.approx(
        [each["feat"] for each in losses(tracked)]
    )
    assert [row["accuracy/head"] for row in rows if "accuracy/head" in row] == Record.read(tracked).top1.head


def test_trackers_do_not_change_the_run(tracked: Path) -> None:
    assert quick_run("upcl", **TINY).weights_sha256 == Record.read(tracked).weights_sha256


class Failing(Tracker):
    requires = ()

    def __init__(self, _out: Path) -> None:
        self.logged = 0

    def log(self, _step: int, _values: Any) -> None:
        self.logged += 1
        if self.logged == 2:
            raise OSError("disk full")

    def finish(self, _record: Any) -> None:
        raise AssertionError("it was dropped")

    def close(self) -> None:
        raise AssertionError("it was dropped")


def test_failing_tracker_is_reported_and_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(TRACKERS, "failing", Failing)
    assert train(tmp_path / "run", "failing").finished
    assert caplog.messages == ["tracker failing failed and was dropped: OSError disk full"]


@pytest.mark.filterwarnings("ignore")
def test_unfinished_run_is_marked_as_failed(tmp_path: Path) -> None:
    def interrupted() -> None:
        with tracking(["mlflow"], tmp_path / "run") as tracked:
            stopping = combine_callbacks(tracked.on_progress, stop_after(2))
            quick_run("upcl", out=tmp_path / "run", on_progress=stopping, **TINY)

    with pytest.raises(Stop):
        interrupted()
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("upcl")
    assert experiment
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["FAILED"]


def test_steps_continue_after_a_resume(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").write_text("{}\n" * 4)  # the fourth is the epoch reported now
    tracked = Tracking([], tmp_path / "run")
    tracked.on_progress(RunProgress(0, 2, "train", 3, 9, {"ce": 1.0}))
    assert tracked.step == 4


def test_refused_run_leaves_nothing_with_trackers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nosuch"), tracking(["mlflow"], tmp_path / "it's" / "run") as tracked:
        quick_run("upcl", out=tmp_path / "it's" / "run", on_progress=tracked.on_progress, options={"nosuch": 1})
    assert not (tmp_path / "it's").exists()


def test_unknown_tracker_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean tensorboard"), tracking(["tensorbord"], tmp_path / "run"):
        raise AssertionError("training started")


def test_missing_package_is_refused_with_an_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRACKERS["wandb"], "requires", ("no_such_package",))
    with pytest.raises(UserError, match=r"pip install 'upcl\[wandb\]'"), tracking(["wandb"], tmp_path / "run"):
        raise AssertionError("training started")
