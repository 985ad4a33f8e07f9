"""What trackers wrote, read back with their own tools."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from upcl import run
from upcl.research import trackers
from upcl.research.run import RunProgress
from upcl.research.trackers import TRACKERS, Tracker

WORDS = ("train", "upcl", "--data", "synthetic:classes=4,train=8,test=4", "--tasks", "2", "--epochs", "2")


def train(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "upcl", *WORDS, "--out", str(out), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tracked") / "run"
    done = train(out, "--track", "tensorboard", "--track", "mlflow", "--track", "wandb")
    assert done.returncode == 0, done.stderr
    return out


def losses(out: Path) -> list[dict[str, float]]:
    return [json.loads(line)["losses"] for line in (out / "events.jsonl").read_text().splitlines()]


def record(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "record.json").read_text())
    return content


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_has_every_loss_and_accuracy(tracked: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(tracked.parent / "tensorboard" / "run"))
    found.Reload()
    steps = found.Scalars("loss/feat")
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert [step.value for step in steps] == pytest.approx([each["feat"] for each in losses(tracked)])
    accuracies = [step.value for step in found.Scalars("accuracy/head")]
    assert accuracies == pytest.approx(record(tracked)["top1"]["head"])


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_them_in_its_database(tracked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_wandb_has_them_in_its_offline_file(tracked: Path) -> None:
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
    assert [row["accuracy/head"] for row in rows if "accuracy/head" in row] == record(tracked)["top1"]["head"]


def test_a_run_is_the_same_with_trackers_as_without(tracked: Path, tmp_path: Path) -> None:
    assert train(tmp_path / "plain").returncode == 0
    assert record(tmp_path / "plain")["weights_sha256"] == record(tracked)["weights_sha256"]


class Failing(Tracker):
    needs = ()

    def __init__(self, _out: Path) -> None:
        self.logged = 0

    def log(self, _step: int, _values: Any) -> None:
        self.logged += 1
        if self.logged == 2:
            raise OSError("disk full")

    def finish(self, _record: Any) -> None:
        raise AssertionError("it was left alone")

    def close(self) -> None:
        raise AssertionError("it was left alone")


def test_a_tracker_that_fails_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TRACKERS, "failing", Failing)
    with trackers.tracked(["failing"], tmp_path / "run") as tracking:
        made = run("finetune", "synthetic:classes=4,train=8,test=4", tasks=2, epochs=2, watch=tracking.watch)
        tracking.finish(made)
    assert made["finished"]
    assert "failing failed and is no longer told: OSError disk full" in capsys.readouterr().err


def test_steps_go_on_where_a_resumed_run_does(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").write_text("{}\n" * 4)  # the fourth is the one now told
    tracking = trackers.Tracking([], tmp_path / "run")
    tracking.watch(RunProgress(0, 2, "train", 3, 9, {"ce": 1.0}))
    assert tracking.step == 4


def test_a_refused_run_leaves_nothing_with_trackers(tmp_path: Path) -> None:
    done = train(tmp_path / "it's" / "run", "--track", "mlflow", "--set", "nosuch=1")
    assert done.returncode == 2 and not (tmp_path / "it's").exists()


def test_unknown_trackers_are_named_before_training(tmp_path: Path) -> None:
    done = train(tmp_path / "run", "--track", "tensorbord")
    assert done.returncode == 2
    assert "did you mean tensorboard" in done.stderr
    assert not (tmp_path / "run").exists()
