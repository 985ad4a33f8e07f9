"""Grids on Slurm: real jobs through submitit's local executor, and the arguments that a fake sbatch is given."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
import submitit

from tests.research.backends.grids import assert_records, execute, tiny_grid
from upcl.core.errors import UserError
from upcl.research.backends import ExecutorOptions, make_backend
from upcl.research.backends.slurm import SlurmRun, slurm_parameters
from upcl.research.grid import GridRun

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]


def local(out: Path) -> ExecutorOptions:
    return ExecutorOptions(out, device="cpu", on="slurm", slurm={"executor": "local", "time": 10})


def test_records_are_those_of_a_local_grid(tmp_path: Path) -> None:
    runs = execute(tiny_grid(["finetune", "upcl"], [0, 1]), local(tmp_path))
    assert_records(runs, tmp_path)


def test_a_preempted_job_is_queued_again_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    preempted: list[str] = []

    def preempt(runs: Sequence[GridRun]) -> None:
        run = runs[0]
        if not preempted and run.share > 0 and isinstance(run.handle, SlurmRun):
            controller = run.handle.job.job_id  # submitit's own `_interrupt` ends the controller instead of the task
            task = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()[0]
            os.kill(int(task), signal.SIGUSR2)
            preempted.append(controller)

    runs = execute(tiny_grid(["upcl"], [0], epochs=150), local(tmp_path), preempt)
    log = (tmp_path / "slurm" / preempted[0] / f"{preempted[0]}_0_log.out").read_text()
    assert "Requeued job" in log and log.count("Loading pickle") == 2
    assert_records(runs, tmp_path)


def test_a_failed_job_says_why(tmp_path: Path) -> None:
    (failed,) = execute(tiny_grid(["finetune"], [0], options={"recipe.lr": 1e30}), local(tmp_path))
    assert failed.status == "failed" and "lower learning rate" in failed.error


@pytest.fixture
def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands of Slurm that keep the script of a job, and say that it failed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {
        "sbatch": f'cp "${{@: -1}}" {tmp_path}/script.sh; echo "Submitted batch job 77"',
        "sacct": "echo 'JobID|State|NodeList'; echo '77_0|FAILED|node1'; echo '77_1|FAILED|node1'",
        "squeue": "true",
        "srun": "true",
        "scancel": "true",
        "scontrol": "true",
    }
    for name, body in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path / "script.sh"


def test_options_reach_sbatch_as_one_array(tmp_path: Path, fake_slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 1)
    chosen = {"time": "240", "partition": "gpu", "cpus": 4, "memory": 16, "account": "lab", "array": 8}
    options = ExecutorOptions(tmp_path / "runs", on="slurm", gpus=1, slurm=chosen)
    runs = execute(tiny_grid(["finetune"], [0, 1]), options)
    assert [run.status for run in runs] == ["failed", "failed"] and "job 77_0 FAILED" in runs[0].error
    script = fake_slurm.read_text()
    for argument in (
        "--array=0-1%2",
        "--time=240",
        "--partition=gpu",
        "--cpus-per-task=4",
        "--mem=16GB",
        "--account=lab",
        "--gpus-per-node=1",
        "--signal=USR2@60",
        "--job-name=upcl",
    ):
        assert f"#SBATCH {argument}" in script


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown option of Slurm 'partitoin': did you mean partition\?"):
        slurm_parameters({"partitoin": "gpu"}, 0)
    with pytest.raises(UserError, match="--slurm time=1h: expected a whole number"):
        slurm_parameters({"time": "1h"}, 0)
    assert slurm_parameters({"setup": "module load cuda"}, 0) == {"slurm_setup": ["module load cuda"]}
    with (
        pytest.raises(UserError, match="jobs cannot be submitted here"),
        make_backend(ExecutorOptions(tmp_path, on="slurm", slurm={"executor": "nosuch"})),
    ):
        pass
