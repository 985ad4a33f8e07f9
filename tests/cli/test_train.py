from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import STREAM, Invoke, command, run_process
from upcl.core.identity import differences
from upcl.research.record import Record

ROOT = Path(__file__).parents[2]


def test_train_writes_a_folder_and_prints_a_table(invoke: Invoke, tmp_path: Path) -> None:
    words = ["train", "upcl", *STREAM, "--set", "tau=0.1", "--out", "here"]
    done = invoke(*words)
    assert done.exit_code == 0, done.stderr
    record = Record.read(tmp_path / "here")
    assert record.config.options["tau"] == 0.1
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(column in done.stdout for column in ("size", "IR", "kept", "both", "peak"))
    assert f"head: A_last {record.a_last.head:.2f}  A_avg {record.a_avg.head:.2f}" in lines
    assert f"nme: A_last {record.a_last.nme:.2f}  A_avg {record.a_avg.nme:.2f}" in lines
    last = next(line for line in lines if line.startswith("│    3"))
    assert f"{record.top1.head[2]:.1f}" in last and f"{record.imbalance_ratio[2]:.1f}" in last
    assert done.stderr.splitlines()[-1] == f"upcl: task 3 of 3, accuracy {record.top1.head[2]:.1f} %"
    assert lines[-1] == "written to here"
    again = invoke(*words)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
    assert invoke(*words, "--resume").stdout == done.stdout


def test_config_file_names_the_run(invoke: Invoke, tmp_path: Path) -> None:
    text = "method: icarl\ndata: synthetic:classes=4,train=4,test=2\ntasks: 2\nepochs: 1\noptions: {temperature: 3}\n"
    (tmp_path / "c.yaml").write_text(text)
    done = invoke("train", "--config", "c.yaml", "--seed", "3", "--memory", "2/class")
    assert done.exit_code == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "icarl-synthetic_classes=4,train=4,test=2-seed3"
    record = Record.read(folder)
    assert (record.method, record.seed, record.config.memory) == ("icarl", 3, "2/class")
    assert record.config.options["temperature"] == 3.0


def test_notes_of_a_record_are_printed(invoke: Invoke) -> None:
    done = invoke("train", "icarl", *STREAM, "--epochs", "1", "--memory", "3", "--select", "test", columns=200)
    assert "note: the epoch of each task was selected on TEST data" in done.stdout
    assert "note: memory holds 3 exemplars for 6 classes" in done.stdout


def test_divergence_exits_with_1_and_keeps_what_was_written(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("train", "finetune", *STREAM, "--set", "later.lr=1e30", "--out", "run")
    assert done.exit_code == 1
    assert "learning rate" in done.stderr
    assert Record.read(tmp_path / "run").finished is False


def test_profile_is_written_and_printed(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("train", "upcl", *STREAM, "--set", "recipe.batch_size=4", "--out", "run", "--profile")
    assert done.exit_code == 0, done.stderr
    for task in (0, 1):
        trace = json.loads((tmp_path / "run" / f"profile-task-{task}.json").read_text())
        assert {"batch", "losses", "backward", "update"} <= {event.get("name") for event in trace["traceEvents"]}
        assert f"task {task}: 10 steps" in done.stdout
    assert "ms per step" in done.stdout
    assert "aten::" in done.stdout


def test_example_method_runs_from_the_command_line(invoke: Invoke, tmp_path: Path) -> None:
    path = ROOT / "examples" / "own_method.py"
    (name,) = re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)
    done = invoke("train", f"{path}:{name}", *STREAM, "--set", "strength=2", "--out", "run")
    assert done.exit_code == 0, done.stderr
    assert Record.read(tmp_path / "run").config.options["strength"] == 2.0
    assert len(path.read_text().splitlines()) < 50


def start(words: list[str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*words), cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for_events(process: subprocess.Popen[str], events: Path) -> None:
    """Until the process has trained some epochs, or has ended."""
    before = events.stat().st_size if events.exists() else 0
    deadline = time.monotonic() + 100
    while process.poll() is None and time.monotonic() < deadline:
        if events.exists() and events.stat().st_size > before + 200:
            return
        time.sleep(0.005)


def test_kill_9_again_and_again_changes_nothing(tmp_path: Path, invoke: Invoke) -> None:
    words = ["train", "upcl", *STREAM]
    assert invoke(*words, "--out", "reference").exit_code == 0
    events, kills = tmp_path / "run" / "events.jsonl", 0
    while kills < 3:
        process = start([*words, "--out", "run", "--resume", "--save-seconds", "0"], tmp_path)
        wait_for_events(process, events)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert kills >= 2, "the run was too quick to be killed"
    done = run_process(*words, "--out", "run", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    reference, resumed = (Record.read(tmp_path / name) for name in ("reference", "run"))
    assert not differences(reference.reproducible_part(), resumed.reproducible_part())
    assert (tmp_path / "reference" / "events.jsonl").read_text() == events.read_text()


def test_interrupted_run_describes_how_to_resume(tmp_path: Path) -> None:
    words = ["train", "icarl", *STREAM, "--epochs", "200", "--out", "run"]
    process = start(words, tmp_path)
    wait_for_events(process, tmp_path / "run" / "events.jsonl")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)  # CPython may end itself by the signal
    assert errors.splitlines()[-1] == "Interrupted. Progress is saved; rerun with --resume to continue."
    assert "Traceback" not in errors


def test_demo_shows_who_remembers(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.cli.train.DEMO_DATA", "digits:train=50,test=20")  # a third of the images
    done = invoke("demo", "--out", "demo")
    assert done.exit_code == 0, done.stderr
    header = [line for line in done.stdout.splitlines() if "A_last" in line or "forgot" in line]
    assert sum(line.count("A_last") for line in header) == 3 and "forgot" in header[1], "not truncated"
    accuracy = {name: Record.read(tmp_path / "demo" / name).a_last.head for name in ("finetune", "icarl", "upcl")}
    assert accuracy["upcl"] >= 80
    assert accuracy["upcl"] >= 30 + accuracy["finetune"]
    assert f"UPCL classifies {accuracy['upcl']:.0f} of 100" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.splitlines()[-1].endswith("demo/demo.html")
    assert "Demo: ten handwritten digits" in (tmp_path / "demo" / "demo.html").read_text()


def test_verify_resume_proves_it(invoke: Invoke) -> None:
    done = invoke("verify-resume", "finetune", *STREAM, "--kills", "1")
    assert done.exit_code == 0, done.output
    assert "killed process" in done.stdout
    assert re.search(r"killed 1 times, same record, same weights: [0-9a-f]{64}", done.stdout)


def test_verify_resume_fails_if_the_runs_differ(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from upcl.research import verify

    check = verify.ResumeCheck(kills=1, weights_sha256="", differences=["weights_sha256: stored 'a', requested 'b'"])
    monkeypatch.setattr(verify, "verify_resume", lambda *_, **__: check)
    done = invoke("verify-resume", "finetune", *STREAM)
    assert done.exit_code == 1
    assert "the resumed run differs:\n  weights_sha256: stored 'a', requested 'b'" in done.stdout
