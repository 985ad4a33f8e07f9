"""Experiment trackers: TensorBoard, MLflow and Weights & Biases.

The run's folder is the source of truth; trackers repeat its figures, in files next to that folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError, unknown_choice
from upcl.core.progress import logger
from upcl.training.evaluate import READINGS

from .record import Record
from .run import ProgressCallback, RunProgress

TAG_LENGTH = 4000


class Tracker(ABC):
    """Receives named numbers at a step (the number of epochs so far) and, at the end, the record.

    Args:
        out: the run's folder; all runs next to it share one store.

    Example:
        >>> class Printer(Tracker):
        ...     def __init__(self, out): ...
        ...     def log(self, step, values): print(step, values)
        ...     def finish(self, record): ...
        ...     def close(self): ...
        >>> Printer(Path("runs/example")).log(1, {"loss/ce": 0.5})
        1 {'loss/ce': 0.5}
    """

    requires: tuple[str, ...]
    """Packages that must be installed."""

    @abstractmethod
    def __init__(self, out: Path) -> None: ...

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Store numbers.

        Args:
            step: the number of epochs so far.
            values: numbers by name.
        """

    @abstractmethod
    def finish(self, record: Record) -> None:
        """Store what a finished run came to.

        Args:
            record: the record of the run.
        """

    @abstractmethod
    def close(self) -> None:
        """Release everything; called at the end, whether or not the run has finished."""


class TensorBoard(Tracker):
    """Event files; view them with `tensorboard --logdir FOLDER/tensorboard`.

    Example:
        >>> TensorBoard.requires
        ('tensorboard',)
        >>> TensorBoard(Path("runs/example")).log(1, {"loss/ce": 0.5})  # doctest: +SKIP
    """

    requires = ("tensorboard",)

    def __init__(self, out: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(out.parent / "tensorboard" / out.name))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def finish(self, record: Record) -> None:
        self.writer.add_text("config", f"```json\n{json.dumps(record.config.to_json(), indent=1)}\n```")

    def close(self) -> None:
        self.writer.close()


class MLflow(Tracker):
    """A SQLite store; view it with `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db`.

    Example:
        >>> MLflow.requires
        ('mlflow', 'sqlalchemy', 'alembic')
        >>> MLflow(Path("runs/example")).log(1, {"loss/ce": 0.5})  # doctest: +SKIP
    """

    requires = ("mlflow", "sqlalchemy", "alembic")

    def __init__(self, out: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        out.parent.mkdir(parents=True, exist_ok=True)
        database = (out.parent / "mlflow.db").resolve()
        self.client = MlflowClient(tracking_uri=f"sqlite:///{database}")
        found = self.client.get_experiment_by_name("upcl")
        artifacts = (out.parent / "mlflow").resolve().as_uri()
        experiment = (
            found.experiment_id if found else self.client.create_experiment("upcl", artifact_location=artifacts)
        )
        folder = _folder_digest(out)
        earlier = self.client.search_runs([experiment], f"tags.folder = '{folder}'", max_results=1)
        run = earlier[0] if earlier else self.client.create_run(experiment, run_name=out.name, tags={"folder": folder})
        self.run_id, self.finished = run.info.run_id, False

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self.run_id, name, value, step=step)

    def finish(self, record: Record) -> None:
        for name, value in record.config.to_json().items():
            self.client.set_tag(self.run_id, name, json.dumps(value)[:TAG_LENGTH])
        self.client.set_terminated(self.run_id)
        self.finished = True

    def close(self) -> None:
        if not self.finished:
            self.client.set_terminated(self.run_id, "FAILED")


class WandB(Tracker):
    """An offline run; upload it with `wandb sync FOLDER/wandb/offline-run-...` if you want to.

    Example:
        >>> WandB.requires
        ('wandb',)
        >>> WandB(Path("runs/example")).log(1, {"loss/ce": 0.5})  # doctest: +SKIP
    """

    requires = ("wandb",)

    def __init__(self, out: Path) -> None:
        import wandb

        out.parent.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(console="off", disable_git=True, disable_code=True, silent=True)
        self.run = wandb.init(
            project="upcl",
            id=_folder_digest(out)[:16],  # joins the parts of a resumed run when they are uploaded
            name=out.name,
            dir=str(out.parent),
            mode="offline",
            settings=settings,
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def finish(self, record: Record) -> None:
        self.run.config.update(record.config.to_json())  # type: ignore[no-untyped-call]
        for name, figure in (("a_last", record.a_last), ("a_avg", record.a_avg)):
            values = {f"{name}/{reading}": figure[reading] for reading in READINGS if figure[reading] is not None}
            self.run.summary.update(values)

    def close(self) -> None:
        self.run.finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def _folder_digest(out: Path) -> str:
    """Identifies a run's folder: to a tracker, a resumed run is the same run."""
    return hashlib.sha256(str(out.resolve()).encode(errors="surrogateescape")).hexdigest()


class Tracking:
    """Sends the progress of a run to trackers.

    Trackers are created after the first epoch, so that a run that is refused leaves nothing with them. One that fails
    is reported and dropped; it never stops the run.

    Args:
        names: names of trackers.
        out: the run's folder.

    Example:
        >>> tracked = Tracking(["tensorboard"], Path("runs/example"))
        >>> tracked.trackers  # none before the first epoch
        {}
    """

    def __init__(self, names: Sequence[str], out: Path) -> None:
        self.names, self.out = list(dict.fromkeys(names)), out
        self.trackers: dict[str, Tracker] = {}
        self.step = 0

    def on_progress(self, progress: RunProgress) -> None:
        """Log the losses of an epoch or the accuracies of a task.

        Args:
            progress: where the run is.
        """
        if not self.step:
            self._create_trackers()
        if progress.accuracy is None:
            self.step += 1
            values: dict[str, Any] = {f"loss/{name}": value for name, value in progress.losses.items()}
        else:
            values = {"accuracy/head": progress.accuracy, "task": progress.task + 1}
            values |= {} if progress.nme is None else {"accuracy/nme": progress.nme}
        self._for_each(lambda tracker: tracker.log(max(self.step, 1), values))

    def _create_trackers(self) -> None:
        """Steps count epochs; those of an earlier process are in the events, whose newest line is this epoch's."""
        events = self.out / "events.jsonl"
        self.step = max(0, len(events.read_text(errors="replace").splitlines()) - 1) if events.is_file() else 0
        for name in self.names:
            try:
                self.trackers[name] = TRACKERS[name](self.out)
            except Exception as error:  # third-party code may raise anything
                _report_failure(name, error)
        self.names = []

    def _for_each(self, action: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self.trackers.items()):
            try:
                action(tracker)
            except Exception as error:
                _report_failure(name, error)
                del self.trackers[name]

    def finish(self, record: Record) -> None:
        """Store the result of the finished run.

        Args:
            record: the record of the run.
        """
        self._for_each(lambda tracker: tracker.finish(record))

    def close(self) -> None:
        """Close all trackers."""
        self._for_each(lambda tracker: tracker.close())


def _report_failure(name: str, error: Exception) -> None:
    first = (str(error).strip().splitlines() or [""])[0]
    logger.warning("tracker %s failed and was dropped: %s %s", name, type(error).__name__, first)


def combine_callbacks(*callbacks: ProgressCallback) -> ProgressCallback:
    """One callback that calls several in order.

    Args:
        callbacks: what to call.

    Example:
        >>> seen = []
        >>> combine_callbacks(seen.append, seen.append)(RunProgress(0, 1, "train", 0, 1, {}))
        >>> len(seen)
        2
    """

    def call_all(progress: RunProgress) -> None:
        for callback in callbacks:
            callback(progress)

    return call_all


@contextmanager
def tracking(names: Sequence[str], out: Path) -> Iterator[Tracking]:
    """Track a run. A tracker that is unknown or not installed is an error before anything is trained.

    Args:
        names: names of trackers.
        out: the run's folder.

    Raises:
        UserError: if a tracker is unknown or not installed.

    Example:
        >>> with tracking([], Path("runs/example")) as tracked:
        ...     tracked.on_progress(RunProgress(0, 1, "train", 0, 1, {}))
    """
    for name in names:
        if name not in TRACKERS:
            raise unknown_choice("tracker", name, TRACKERS)
        if missing := [package for package in TRACKERS[name].requires if importlib.util.find_spec(package) is None]:
            raise UserError(f"--track {name} needs {missing[0]}: pip install 'upcl[{name}]'")
    tracked = Tracking(names, out)
    try:
        yield tracked
    finally:
        tracked.close()
