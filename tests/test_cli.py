"""End to end, through the command line in processes of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from upcl.core.identity import differences
from upcl.research.record import reproducible_part

ROOT = Path(__file__).parents[1]
STREAM = ["--data", "synthetic:classes=6,train=10,test=5", "--tasks", "3", "--memory", "12", "--epochs", "4"]


def upcl(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "upcl", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=280)


def test_help_teaches_without_loading_torch() -> None:
    script = "import sys, upcl.cli; print('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"
    text = upcl("--help").stdout
    assert all(word in text for word in ("demo", "train", "methods", "datasets", "show", "verify-resume"))


def test_lists_and_show() -> None:
    listed = upcl("methods").stdout
    assert all(name in listed for name in ("joint", "finetune", "icarl", "upcl"))
    assert "digits" in upcl("datasets").stdout
    shown = upcl("show", "upcl").stdout
    assert all(word in shown for word in ("tau = 0.07", "source:", "milestones", "exemplars", "lose_task0_assignment"))


def test_train_writes_a_folder_and_prints_a_table(tmp_path: Path) -> None:
    done = upcl("train", "upcl", *STREAM, "--set", "tau=0.1", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A_last" in done.stdout
    assert "IR" in done.stdout
    record = json.loads((tmp_path / "here" / "record.json").read_text())
    assert record["config"]["options"]["tau"] == 0.1
    again = upcl("train", "upcl", *STREAM, "--set", "tau=0.1", "--out", "here", cwd=tmp_path)
    assert again.returncode == 2
    assert "--resume" in again.stderr


def test_config_file_and_options_over_it(tmp_path: Path) -> None:
    text = "method: icarl\ndata: synthetic:classes=4,train=4,test=2\ntasks: 2\nepochs: 1\noptions: {temperature: 3}\n"
    (tmp_path / "c.yaml").write_text(text)
    done = upcl("train", "--config", "c.yaml", "--seed", "3", "--memory", "2/class", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads((folder / "record.json").read_text())
    assert (record["method"], record["seed"], record["config"]["memory"]) == ("icarl", 3, "2/class")
    assert record["config"]["options"]["temperature"] == 3.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "did you mean train"),
        (["train", "uplc"], "did you mean upcl"),
        (["train", "upcl", "--data", "digit"], "did you mean digits"),
        (["train", "upcl", "--set", "tua=1"], "did you mean tau"),
        (["train", "upcl", "--set", "tau"], "key=value"),
        (["train", "upcl", "--set", "tau=hot"], "tau"),
        (["train", "upcl", "--taks", "3"], "--tasks"),
        (["train", "upcl", "--tasks", "x"], "say a number"),
        (["train", "upcl", "--device", "gpu"], "choose auto, cpu, cuda"),
        (["train", "--data", "digits"], "which method"),
        (["train", "upcl", "--device", "meta"], "choose auto, cpu"),
        (["train", "upcl", "--data", "synthetic:seed=-1"], "must not be negative"),
        (["train", "upcl", "--data", "synthetic:classes=--3"], "must be an integer"),
        (["train", "bic", "--memory", "0"], "needs exemplars"),
        (["show", "icral"], "did you mean icarl"),
    ],
)
def test_mistakes_exit_with_2_and_name_the_right_choice(words: list[str], message: str, tmp_path: Path) -> None:
    done = upcl(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "a mistake leaves nothing behind"


@pytest.mark.parametrize(
    ("text", "message"),
    [("method: upcl\ndevice: cpu", "device"), ("method: 3", "method"), ("method: upcl\noptions: [1]", "options")],
)
def test_mistakes_in_a_config_file_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"{text}\n")
    done = upcl("train", "--config", "c.yaml", "--set", "tau=1", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_demo_shows_who_remembers(tmp_path: Path) -> None:
    done = upcl("demo", "--out", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "forgets" in done.stdout
    heads = {}
    for name in ("finetune", "icarl", "upcl"):
        heads[name] = json.loads((tmp_path / "demo" / name / "record.json").read_text())["a_last"]["head"]
    assert heads["upcl"] >= 80
    assert heads["upcl"] >= 30 + heads["finetune"]
    assert "demo/demo.html" in done.stdout.replace("\n", "")
    assert "Demo: ten handwritten digits" in (tmp_path / "demo" / "demo.html").read_text()


def test_divergence_exits_with_1_and_keeps_what_was_written(tmp_path: Path) -> None:
    done = upcl("train", "finetune", *STREAM, "--set", "later.lr=1e30", "--out", "run", cwd=tmp_path)
    assert done.returncode == 1
    assert "learning rate" in done.stderr
    assert json.loads((tmp_path / "run" / "record.json").read_text())["finished"] is False


@pytest.mark.parametrize("method", ["upcl", "icarl"])
def test_kill_9_again_and_again_changes_nothing(method: str, tmp_path: Path) -> None:
    words = ["train", method, *STREAM]
    assert upcl(*words, "--out", "whole", cwd=tmp_path).returncode == 0
    command = [sys.executable, "-m", "upcl", *words, "--out", "run", "--resume", "--save-seconds", "0"]
    events, kills = tmp_path / "run" / "events.jsonl", 0
    while kills < 4:
        before = events.stat().st_size if events.exists() else 0
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 100
        while process.poll() is None and time.monotonic() < deadline:
            if events.exists() and events.stat().st_size > before + 200:
                break
            time.sleep(0.005)
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 2, "the run was too quick to be killed"
    done = upcl(*words, "--out", "run", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole, resumed = (json.loads((tmp_path / name / "record.json").read_text()) for name in ("whole", "run"))
    assert not differences(reproducible_part(whole), reproducible_part(resumed))
    assert (tmp_path / "whole" / "events.jsonl").read_text() == events.read_text()


def test_verify_resume_proves_it() -> None:
    done = upcl("verify-resume", "finetune", *STREAM, "--kills", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed process" in done.stdout
    assert re.search(r"killed 1 times, same record, same weights: [0-9a-f]{64}", done.stdout)


def test_example_method_runs_from_the_command_line(tmp_path: Path) -> None:
    path = ROOT / "examples" / "own_method.py"
    done = upcl("train", f"{path}:HoldStill", *STREAM, "--set", "strength=2", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(path.read_text().splitlines()) < 50
