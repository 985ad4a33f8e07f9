"""The processes of a run: how they find each other, what they say, and what happens if one is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.training.worlds import ROOT, free_port, start
from upcl.core.errors import UserError
from upcl.research.record import Record
from upcl.training import world as world_module
from upcl.training.world import World, is_first_process, open_world

DATA = "synthetic:classes=4,train=20,test=5"
SECONDS = 30


def train(out: Path, *options: str, epochs: int = 15) -> list[str]:
    stream = ["--data", DATA, "--tasks", "2", "--memory", "6", "--backbone", "small", "--shards", "4"]
    place = ["--epochs", str(epochs), "--device", "cpu", "--save-seconds", "0", "--out", str(out)]
    return ["-m", "upcl", "train", "upcl", *stream, *place, *options]


def torchrun(size: int, command: list[str], **variables: str) -> subprocess.Popen[str]:
    """A real torchrun, which starts the processes and watches them."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([*launcher, *command], env=environment, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def wait_for_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if list(out.glob("checkpoints/*.pt")):
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    raise AssertionError("no checkpoint appeared")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of a run in one process that nothing interrupts."""
    out = tmp_path_factory.mktemp("reference") / "run"
    done = subprocess.run(
        [sys.executable, *train(out)], capture_output=True, text=True, check=False, cwd=ROOT, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return Record.read(out).weights_sha256


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the processes in /proc")
def test_a_killed_process_ends_all_and_another_number_resumes_to_the_same_weights(
    tmp_path: Path, expected: str
) -> None:
    out = tmp_path / "run"
    launched = torchrun(2, train(out))
    wait_for_checkpoint(out, launched)
    killed = time.monotonic()
    os.kill(children(launched.pid)[1], signal.SIGKILL)
    output, _ = launched.communicate(timeout=SECONDS)
    assert launched.returncode != 0 and time.monotonic() - killed < SECONDS
    assert "SIGKILL" in output or "another process ended" in output
    resumed = torchrun(4, train(out, "--resume"))
    output, _ = resumed.communicate(timeout=200)
    assert resumed.returncode == 0, output
    assert Record.read(out).weights_sha256 == expected
    assert output.count("written to") == 1, "only the first process prints"


def test_the_others_say_that_a_process_is_lost(tmp_path: Path) -> None:
    processes = start(2, train(tmp_path / "run"))
    wait_for_checkpoint(tmp_path / "run", processes[0])
    processes[1].kill()
    output, _ = processes[0].communicate(timeout=SECONDS)
    processes[1].communicate()
    assert processes[0].returncode == 1
    assert "error: process 0 of 2: another process ended or does not answer" in output and "--resume" in output


def test_a_process_that_hangs_is_found_by_a_timeout(tmp_path: Path) -> None:
    processes = start(2, train(tmp_path / "run"), UPCL_TIMEOUT="4")
    wait_for_checkpoint(tmp_path / "run", processes[0])
    processes[1].send_signal(signal.SIGSTOP)
    try:
        output, _ = processes[0].communicate(timeout=SECONDS)
    finally:
        processes[1].kill()
        processes[1].communicate()
    assert processes[0].returncode == 1 and "another process ended or does not answer" in output


def test_a_full_disk_of_the_first_process_ends_all(tmp_path: Path) -> None:
    limit = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
    code = f"{limit}runpy.run_module('upcl', run_name='__main__')"
    processes = start(2, ["-c", code, *train(tmp_path / "run")[2:]])
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1], outputs
    assert "File too large" in outputs[0], "a limit stands for a full disk"
    assert "another process ended" in outputs[1]
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "the other process writes nothing"


def test_an_error_of_the_first_process_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    processes = start(2, train(tmp_path / "run"))
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [2, 1]
    assert "is not empty and does not hold a run" in outputs[0] and outputs[1] == ""


@pytest.mark.parametrize(
    ("size", "shards", "advice"), [(2, 1, "--shards 2"), (3, 4, "--shards 4"), (8, 4, "--shards 8")]
)
def test_processes_that_cannot_share_the_shards_are_refused(
    size: int, shards: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RANK", 0), ("WORLD_SIZE", size)):
        monkeypatch.setenv(name, str(value))
    message = rf"{size} processes cannot share {shards} shards?: add {advice}"
    with pytest.raises(UserError, match=message), open_world(shards, "cpu"):
        pass


def test_threads_are_one_with_several_shards_and_then_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with open_world(2, "cpu"):
            assert torch.get_num_threads() == 1
        with open_world(1, "cpu"):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_slurm_steps_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_PROCID", "2")
    assert world_module._launched() == (0, 1, 0), "a batch script itself is no step"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert world_module._launched() == (2, 4, 1) and not is_first_process()


@pytest.mark.parametrize(
    ("nodes", "first"), [("gpu7", "gpu7"), ("gpu[03-05,9]", "gpu03"), ("a1,b2", "a1"), ("n[1,4],m2", "n1")]
)
def test_the_first_node_of_a_slurm_step_is_the_meeting_point(
    nodes: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # so that it is removed again afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_STEP_NODELIST", nodes)
    monkeypatch.setenv("SLURM_JOB_ID", "40007")
    world_module._find_meeting_point()
    assert os.environ["MASTER_ADDR"] == first and os.environ["MASTER_PORT"] == "20007"
    world_module._find_meeting_point()
    assert os.environ["MASTER_ADDR"] == first


def test_one_process_needs_nobody() -> None:
    rows = torch.arange(3.0)[:, None]
    assert World().gather(rows, [3])[0] is rows
    World().require_equal("weights", "00")
    with pytest.raises(ZeroDivisionError):
        World().share(lambda: 1 // 0)


def test_processes_with_different_commands_end_before_anything_is_trained(tmp_path: Path) -> None:
    port, commands = free_port(), [train(tmp_path / "run", epochs=epochs) for epochs in (15, 16)]
    processes = [start(2, command, only=rank, port=port)[0] for rank, command in enumerate(commands)]
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert all("configs differ between process 0 and 1" in output for output in outputs)
    assert not (tmp_path / "run").exists()
