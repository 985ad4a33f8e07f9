"""Where the time of a run goes: traces of a few training steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

WARM_UP_STEPS, TRACED_STEPS, TRACED_TASKS, MAX_OPERATIONS = 3, 10, 2, 8
PARTS = ("batch", "losses", "backward", "update")


@dataclass(frozen=True)
class Trace:
    """The traced steps of one task.

    Args:
        task: index of the task.
        steps: number of traced steps.
        path: the trace file.
        parts: milliseconds per step of each part of the loop.
        operations: milliseconds per step of the most expensive operations.

    Example:
        >>> parts = {"batch": 1.0, "losses": 4.0, "backward": 8.0, "update": 2.0}
        >>> trace = Trace(task=0, steps=10, path=Path("profile-task-0.json"), parts=parts, operations={})
        >>> max(trace.parts, key=trace.parts.get)
        'backward'
    """

    task: int
    steps: int
    path: Path
    parts: dict[str, float]
    operations: dict[str, float]


class Profiler:
    """Traces a few steps of the first two tasks (the second has a teacher), after a warm-up.

    Traces are written in Chrome's format; view them in chrome://tracing or ui.perfetto.dev.

    Args:
        folder: where to write the traces.

    Example:
        >>> import tempfile
        >>> from upcl import Request, run
        >>> profiler = Profiler(Path(tempfile.mkdtemp()))
        >>> request = Request(method="finetune", data="synthetic:classes=2,train=64,test=4", tasks=1, epochs=1)
        >>> _ = run(request, profiler=profiler)
        >>> sorted(profiler.traces[0].parts)
        ['backward', 'batch', 'losses', 'update']
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self.traces: list[Trace] = []
        self._task = self._steps = 0
        self._running: profile | None = None

    def begin(self, task: int) -> None:
        """Start a task; an open trace of an earlier one is written.

        Args:
            task: index of the task.
        """
        self.close()
        self._task, self._steps = task, 0

    def step(self) -> None:
        """Count a step; called after every step of the training loop."""
        self._steps += 1
        if self._steps == WARM_UP_STEPS and self._task < TRACED_TASKS:
            self._running = profile(activities=self.kinds)
            self._running.start()
        elif self._steps == WARM_UP_STEPS + TRACED_STEPS:
            self.close()

    def close(self) -> None:
        """Write an open trace."""
        if self._running is None:
            return
        done, self._running = self._running, None
        done.stop()
        steps, path = self._steps - WARM_UP_STEPS, self.folder / f"profile-task-{self._task}.json"
        if not steps:
            return
        done.export_chrome_trace(str(path))
        averages = done.key_averages()
        parts = {event.key: event.cpu_time_total / 1e3 / steps for event in averages if event.key in PARTS}
        own = {event.key: event.self_cpu_time_total / 1e3 / steps for event in averages if event.key not in PARTS}
        slowest = dict(sorted(own.items(), key=lambda item: -item[1])[:MAX_OPERATIONS])
        self.traces.append(Trace(self._task, steps, path, {part: parts[part] for part in PARTS}, slowest))
