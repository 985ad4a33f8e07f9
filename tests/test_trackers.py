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


def test_unknown_trackers_are_named_before_training(tmp_path: Path) -> None:
    done = train(tmp_path / "run", "--track", "tensorbord")
    assert done.returncode == 2
    assert "did you mean tensorboard" in done.stderr
    assert not (tmp_path / "run").exists()
