"""Figures of a run for those who watch them elsewhere: TensorBoard, MLflow, Weights & Biases. The run's folder is the
truth; trackers only repeat it, beside that folder."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError, unknown_choice

from .record import Record
from .run import ProgressCallback, RunProgress


class Tracker(ABC):
    """Takes named numbers at a step (epochs so far) and, at the end, the record."""

    needs: tuple[str, ...]

    @abstractmethod
    def __init__(self, out: Path) -> None:
        """Track the run whose folder is `out`; all runs beside it share one place."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    @abstractmethod
    def finish(self, record: Record) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Called in the end, whether the run is finished or not."""


class TensorBoard(Tracker):
    """`tensorboard --logdir FOLDER/tensorboard` shows the runs of a folder."""

    needs = ("tensorboard",)

    def __init__(self, out: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(out.parent / "tensorboard" / out.name))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def finish(self, record: Record) -> None:
        self.writer.add_text("config", f"```json\n{json.dumps(record['config'], indent=1)}\n```")

    def close(self) -> None:
        self.writer.close()


def _digest(out: Path) -> str:
    """Of a run's folder: a resumed run is the same run to a tracker."""
    return hashlib.sha256(str(out.resolve()).encode(errors="surrogateescape")).hexdigest()


class MLflow(Tracker):
    """`mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db` shows the runs of a folder."""

    needs = ("mlflow", "sqlalchemy", "alembic")

    def __init__(self, out: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        out.parent.mkdir(parents=True, exist_ok=True)
        database = (out.parent / "mlflow.db").resolve()
        self.client = MlflowClient(tracking_uri=f"sqlite:///{database}")
        found = self.client.get_experiment_by_name("upcl")
        place = (out.parent / "mlflow").resolve().as_uri()
        experiment = found.experiment_id if found else self.client.create_experiment("upcl", artifact_location=place)
        folder = _digest(out)
        earlier = self.client.search_runs([experiment], f"tags.folder = '{folder}'", max_results=1)
        made = earlier[0] if earlier else self.client.create_run(experiment, run_name=out.name, tags={"folder": folder})
        self.run_id, self.ended = made.info.run_id, False

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self.run_id, name, value, step=step)

    def finish(self, record: Record) -> None:
        for name, value in record["config"].items():
            self.client.set_tag(self.run_id, name, json.dumps(value)[:4000])
        self.client.set_terminated(self.run_id)
        self.ended = True

    def close(self) -> None:
        if not self.ended:
            self.client.set_terminated(self.run_id, "FAILED")


class WandB(Tracker):
    """Written offline; `wandb sync FOLDER/wandb/offline-run-...` sends it, if you want to."""

    needs = ("wandb",)

    def __init__(self, out: Path) -> None:
        import wandb

        out.parent.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(console="off", disable_git=True, disable_code=True, silent=True)
        number = _digest(out)[:16]  # the parts of a resumed run come together under it when they are sent
        self.run = wandb.init(
            project="upcl", id=number, name=out.name, dir=str(out.parent), mode="offline", settings=settings
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def finish(self, record: Record) -> None:
        self.run.config.update(record["config"])  # type: ignore[no-untyped-call]
        for figure in ("a_last", "a_avg"):
            self.run.summary.update({f"{figure}/{k}": v for k, v in record[figure].items() if v is not None})

    def close(self) -> None:
        self.run.finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


class Tracking:
    """What a run is diagnostics by: turns its progress into steps and figures for each tracker.

    Trackers are made when the first epoch is over, so that a run that is refused leaves nothing with them. One that
    fails is told of and left alone: it never stops the run.
    """

    def __init__(self, names: Sequence[str], out: Path) -> None:
        self.names, self.out = list(dict.fromkeys(names)), out
        self.trackers: dict[str, Tracker] = {}
        self.step = 0

    def watch(self, progress: RunProgress) -> None:
        if not self.step:
            self._begin()
        if progress.accuracy is None:
            self.step += 1
            values: dict[str, Any] = {f"loss/{name}": value for name, value in progress.losses.items()}
        else:
            values = {"accuracy/head": progress.accuracy, "task": progress.task + 1}
            values |= {} if progress.nme is None else {"accuracy/nme": progress.nme}
        self._each(lambda tracker: tracker.log(max(self.step, 1), values))

    def _begin(self) -> None:
        """Steps count epochs; those of an earlier process are in the events, of which the newest is this one."""
        events = self.out / "events.jsonl"
        self.step = max(0, len(events.read_text(errors="replace").splitlines()) - 1) if events.is_file() else 0
        for name in self.names:
            try:
                self.trackers[name] = TRACKERS[name](self.out)
            except Exception as error:  # of a library that is not ours
                _tell(name, error)
        self.names = []

    def _each(self, do: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self.trackers.items()):
            try:
                do(tracker)
            except Exception as error:
                _tell(name, error)
                del self.trackers[name]

    def finish(self, record: Record) -> None:
        self._each(lambda tracker: tracker.finish(record))

    def close(self) -> None:
        self._each(lambda tracker: tracker.close())


def _tell(name: str, error: Exception) -> None:
    first = (str(error).strip().splitlines() or [""])[0]
    print(f"note: {name} failed and is no longer told: {type(error).__name__} {first}", file=sys.stderr)


def together(*watches: ProgressCallback) -> ProgressCallback:
    """One watch that tells all."""

    def tell(progress: RunProgress) -> None:
        for watch in watches:
            watch(progress)

    return tell


@contextmanager
def tracked(names: Sequence[str], out: Path) -> Iterator[Tracking]:
    """Trackers by name for the run in `out`; those that are not installed are named before anything is trained."""
    for name in names:
        if name not in TRACKERS:
            raise unknown_choice("tracker", name, TRACKERS)
        if missing := [need for need in TRACKERS[name].needs if importlib.util.find_spec(need) is None]:
            raise UserError(f"--track {name} needs {missing[0]}: pip install -c constraints.txt -e '.[{name}]'")
    tracking = Tracking(names, out)
    try:
        yield tracking
    finally:
        tracking.close()
