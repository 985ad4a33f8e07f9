from __future__ import annotations

import json
from pathlib import Path

from tests.runs import STREAM
from upcl.research.config import Request
from upcl.research.run import run
from upcl.training.profiler import PARTS, TRACED_STEPS, Profiler


def test_first_two_tasks_are_traced(tmp_path: Path) -> None:
    profiler = Profiler(tmp_path)
    request = Request(
        method="finetune", data=STREAM, tasks=3, epochs=8, options={"recipe.min_steps": 0, "recipe.batch_size": 4}
    )
    run(request, profiler=profiler)
    assert [(trace.task, trace.steps) for trace in profiler.traces] == [(0, TRACED_STEPS), (1, TRACED_STEPS)]
    for trace in profiler.traces:
        assert list(trace.parts) == list(PARTS)
        assert all(milliseconds > 0 for milliseconds in trace.parts.values())
        assert 0 < len(trace.operations) <= 8
        assert json.loads(trace.path.read_text())["traceEvents"]


def test_profiling_does_not_change_the_weights(tmp_path: Path) -> None:
    request = Request(method="finetune", data=STREAM, tasks=2, epochs=2)
    assert run(request, profiler=Profiler(tmp_path)).weights_sha256 == run(request).weights_sha256
