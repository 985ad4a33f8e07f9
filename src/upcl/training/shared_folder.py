"""The folder of a run with several processes: the first one reads and writes, the others learn what it read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .run_folder import Identity, Position, RunFolder
from .world import World


class SharedRunFolder(RunFolder):
    """The folder of a run, of which only the first process needs to see the disk.

    Args:
        path: the folder.
        config: the identity of the run.
        world: the processes.
        resume: continue a run that is there, which must have the same config.
        save_seconds: time between checkpoints within a task.

    Raises:
        UserError: on entering, if the folder is in use or holds something else.

    Example:
        >>> import tempfile
        >>> from upcl.model.plan import UpdateIdentity
        >>> with SharedRunFolder(
        ...     Path(tempfile.mkdtemp()), UpdateIdentity({}), World(), resume=False, save_seconds=30
        ... ) as folder:
        ...     folder.save_task(0, {"accuracy": 90.0})
        ...     folder.last_task(num_tasks=5)["accuracy"]
        90.0
    """

    def __init__(self, path: Path, config: Identity, world: World, *, resume: bool, save_seconds: float) -> None:
        super().__init__(path, config, resume=resume, save_seconds=save_seconds)
        self.world = world

    def __enter__(self) -> SharedRunFolder:
        def enter() -> None:
            super(SharedRunFolder, self).__enter__()

        self.world.share(enter)
        return self

    def last_task(self, num_tasks: int) -> dict[str, Any] | None:
        """The state after the last finished task; None if there is none.

        Args:
            num_tasks: number of tasks of the run.
        """
        read = super().last_task
        return self.world.share(lambda: read(num_tasks))

    def open_stage(self, task: int, stage: int) -> dict[str, Any] | None:
        """The last saved state of a stage of the open task; None if there is none.

        Args:
            task: index of the task.
            stage: index of the stage.
        """
        read = super().open_stage
        return self.world.share(lambda: read(task, stage))

    def save_task(self, task: int, state: Mapping[str, Any]) -> None:
        """Store the state after a task.

        Args:
            task: index of the task.
            state: tensors and plain values.
        """
        if self.world.is_first:
            super().save_task(task, state)

    def save_stage(self, task: int, stage: int, state: Mapping[str, Any]) -> None:
        """Store the state of a stage of the open task.

        Args:
            task: index of the task.
            stage: index of the stage.
            state: tensors and plain values.
        """
        if self.world.is_first:
            super().save_stage(task, stage, state)

    def truncate_events(self, position: Position) -> None:
        """Remove the events of epochs that will be trained again.

        Args:
            position: the first task, stage and epoch to be trained again.
        """
        if self.world.is_first:
            super().truncate_events(position)

    def log(self, event: Mapping[str, Any]) -> None:
        """Append an event.

        Args:
            event: JSON-serialisable values, among them those of an `Event`.
        """
        if self.world.is_first:
            super().log(event)
