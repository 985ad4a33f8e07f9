"""Where the time of a run goes: traces of a few training steps, and what their parts and operations take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

SKIPPED, TRACED, TASKS, MOST = 3, 10, 2, 8
PARTS = ("batch", "losses", "backward", "update")


@dataclass(frozen=True)
class Trace:
    """The traced steps of one task: milliseconds a step of the loop's parts and of the dearest operations."""

    task: int
    steps: int
    path: Path
    parts: dict[str, float]
    operations: dict[str, float]


class Profile:
    """Follows a run and traces steps of its first two tasks (the second has a teacher), after a few to warm up.

    Each trace is written in Chrome's format, for chrome://tracing or ui.perfetto.dev.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self.traces: list[Trace] = []
        self._task = self._steps = 0
        self._running: profile | None = None

    def begin(self, task: int) -> None:
        """A task begins; what an earlier one left open is written."""
        self.close()
        self._task, self._steps = task, 0

    def step(self) -> None:
        """After every step of the training loop."""
        self._steps += 1
        if self._steps == SKIPPED and self._task < TASKS:
            self._running = profile(activities=self.kinds)
            self._running.start()
        elif self._steps == SKIPPED + TRACED:
            self.close()

    def close(self) -> None:
        if self._running is None:
            return
        done, self._running = self._running, None
        done.stop()
        steps, path = self._steps - SKIPPED, self.folder / f"profile-task-{self._task}.json"
        if not steps:
            return
        done.export_chrome_trace(str(path))
        told = done.key_averages()
        parts = {event.key: event.cpu_time_total / 1e3 / steps for event in told if event.key in PARTS}
        own = {event.key: event.self_cpu_time_total / 1e3 / steps for event in told if event.key not in PARTS}
        dearest = dict(sorted(own.items(), key=lambda item: -item[1])[:MOST])
        self.traces.append(Trace(self._task, steps, path, {part: parts[part] for part in PARTS}, dearest))
