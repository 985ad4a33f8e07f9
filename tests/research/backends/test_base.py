from __future__ import annotations

import sys
from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.research.backends import ExecutorOptions, make_backend
from upcl.research.config import Request
from upcl.research.grid import GridRun, Job

OUT = Path("runs")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ExecutorOptions(OUT, on="slrum"), "unknown back end 'slrum': did you mean slurm?"),
        (ExecutorOptions(OUT, scheduler="tcp://lab:8786"), "add --on dask"),
        (ExecutorOptions(OUT, on="dask", slurm={"time": 3}), "add --on slurm"),
        (ExecutorOptions(OUT, on="dask", gpus=1), "--gpus needs workers with GPUs"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: ExecutorOptions, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_backend(options)


@pytest.mark.parametrize(("on", "package"), [("dask", "distributed"), ("slurm", "submitit")])
def test_missing_packages_are_named(on: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dask_cluster", "slurm"):
        monkeypatch.delitem(sys.modules, f"upcl.research.backends.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"--on {on} needs {package}: pip install 'upcl\[cluster\]'"):
        make_backend(ExecutorOptions(OUT, on=on))


def test_jobs_have_absolute_folders_and_logs_next_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = GridRun(Job("seed0", Request()), OUT / "seed0")
    options = ExecutorOptions(OUT, device="cpu", data_root=Path("/data"))
    job = options.job(run)
    assert job.out == tmp_path / "runs" / "seed0" and (job.device, job.data_root) == ("cpu", Path("/data"))
    assert options.log(run) == tmp_path / "runs" / "logs" / "seed0.log" and options.log(run).parent.is_dir()
