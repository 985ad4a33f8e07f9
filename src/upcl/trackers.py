"""Figures of a run for those who watch them elsewhere: TensorBoard, MLflow, Weights & Biases. The run's folder is the
truth; trackers only repeat it, beside that folder."""

from __future__ import annotations

import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import UserError, unknown
from .records import Record
from .runs import Progress, Watch


class Tracker(ABC):
    """Takes named numbers at a step (epochs so far) and, at the end, the record."""

    needs: tuple[str, ...]
    extra: str

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

    needs, extra = ("tensorboard",), "tensorboard"

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


class MLflow(Tracker):
    """`mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db` shows the runs of a folder."""

    needs, extra = ("mlflow", "sqlalchemy", "alembic"), "mlflow"

    def __init__(self, out: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        out.parent.mkdir(parents=True, exist_ok=True)
        database = (out.parent / "mlflow.db").resolve()
        self.client = MlflowClient(tracking_uri=f"sqlite:///{database}")
        found = self.client.get_experiment_by_name("upcl")
        place = (out.parent / "mlflow").resolve().as_uri()
        experiment = found.experiment_id if found else self.client.create_experiment("upcl", artifact_location=place)
        earlier = self.client.search_runs([experiment], f"tags.folder = '{out.name}'", max_results=1)
        run = (
            earlier[0] if earlier else self.client.create_run(experiment, run_name=out.name, tags={"folder": out.name})
        )
        self.run_id = run.info.run_id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self.run_id, name, value, step=step)

    def finish(self, record: Record) -> None:
        for name, value in record["config"].items():
            self.client.set_tag(self.run_id, name, json.dumps(value)[:4000])
        self.client.set_terminated(self.run_id)

    def close(self) -> None:
        """Every figure is in the database as soon as it is logged."""


class WandB(Tracker):
    """Written offline; `wandb sync FOLDER/wandb/offline-run-...` sends it, if you want to."""

    needs, extra = ("wandb",), "wandb"

    def __init__(self, out: Path) -> None:
        import wandb

        out.parent.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(console="off", disable_git=True, disable_code=True, silent=True)
        self.run = wandb.init(project="upcl", name=out.name, dir=str(out.parent), mode="offline", settings=settings)

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
    """What a run is watched by: turns its progress into steps and figures for each tracker."""

    def __init__(self, trackers: Sequence[Tracker], steps_before: int) -> None:
        self.trackers, self.step = trackers, steps_before

    def watch(self, progress: Progress) -> None:
        if progress.accuracy is not None:
            values: dict[str, Any] = {"accuracy/head": progress.accuracy, "task": progress.task + 1}
        else:
            self.step += 1
            values = {f"loss/{name}": value for name, value in progress.losses.items()}
        for tracker in self.trackers:
            tracker.log(self.step, values)

    def finish(self, record: Record) -> None:
        for tracker in self.trackers:
            tracker.finish(record)


def together(*watches: Watch) -> Watch:
    """One watch that tells all."""

    def tell(progress: Progress) -> None:
        for watch in watches:
            watch(progress)

    return tell


@contextmanager
def tracked(names: Sequence[str], out: Path) -> Iterator[Tracking]:
    """Trackers by name for the run in `out`; those that are not installed are named before anything is trained."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if missing := [need for need in TRACKERS[name].needs if importlib.util.find_spec(need) is None]:
            extra = TRACKERS[name].extra
            raise UserError(f"--track {name} needs {missing[0]}: pip install -c constraints.txt -e '.[{extra}]'")
    events = out / "events.jsonl"
    before = len(events.read_text(errors="replace").splitlines()) if events.is_file() else 0
    trackers = [TRACKERS[name](out) for name in dict.fromkeys(names)]
    try:
        yield Tracking(trackers, before)
    finally:
        for tracker in trackers:
            tracker.close()
