"""The log of a run: one line per epoch, each checked when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from upcl.core.files import parse_json
from upcl.core.options import Count, Finite

FILE_NAME = "events.jsonl"


class Event(BaseModel):
    """What happened in an epoch; other values in the line are for other readers.

    Args:
        task: index of the task.
        stage: index of the stage.
        epoch: index of the epoch.
        losses: mean of each loss term.
        assignment: the prototype that each new class owns; None for a head without prototypes.
        alignment: mean cosine between centroids and prototypes; None for a head without prototypes.

    Example:
        >>> Event(task=0, stage=0, epoch=3, losses={"ce": 1.5}).position
        (0, 0, 3)
    """

    model_config = ConfigDict(frozen=True)

    task: Count
    stage: Count
    epoch: Count
    losses: dict[str, Finite]
    assignment: list[Count] | None = None
    alignment: Finite | None = None

    @property
    def position(self) -> tuple[int, int, int]:
        """Indices of task, stage and epoch."""
        return self.task, self.stage, self.epoch


def read_events(path: Path) -> Iterator[tuple[str, Event]]:
    """Read the lines of a log that are events. Others, such as a last line that a kill cut off, are skipped.

    Args:
        path: the log.

    Returns:
        Each line and the event that it describes.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "events.jsonl"
        >>> _ = path.write_text('{"task": 0, "stage": 0, "epoch": 0, "losses": {"ce": 1.5}}\\n{"task": 0, "sta')
        >>> [event.losses for _, event in read_events(path)]
        [{'ce': 1.5}]
    """
    for line in path.read_text(errors="replace").splitlines():
        try:
            yield line, Event.model_validate(parse_json(line))
        except ValueError:  # also pydantic's
            continue
