"""Progress of long work and notices, without a console.

Library code calls `track` for a progress bar and `logger.warning` for a notice. Nothing is printed unless an
application shows it: the command line installs a reporter with `report_progress` and a handler on `logger`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal, Protocol

logger = logging.getLogger("upcl")
logger.addHandler(logging.NullHandler())

ProgressUnit = Literal["items", "bytes"]
Advance = Callable[[int], None]


class ProgressReporter(Protocol):
    """Shows the progress of one piece of work; called by `track`.

    Example:
        >>> def print_start(description, total, completed, unit):
        ...     print(f"{description}: {completed} of {total} {unit}")
        ...     return nullcontext(lambda amount: None)
        >>> with report_progress(print_start), track("decoding", total=3) as advance:
        ...     advance(1)
        decoding: 0 of 3 items
    """

    def __call__(
        self, description: str, total: int | None, completed: int, unit: ProgressUnit
    ) -> AbstractContextManager[Advance]: ...


def _silent(description: str, total: int | None, completed: int, unit: ProgressUnit) -> AbstractContextManager[Advance]:  # noqa: ARG001
    return nullcontext(lambda _: None)


_reporter: ContextVar[ProgressReporter] = ContextVar("progress_reporter", default=_silent)


def track(
    description: str, total: int | None = None, *, completed: int = 0, unit: ProgressUnit = "items"
) -> AbstractContextManager[Advance]:
    """Report progress to whoever listens.

    Args:
        description: what is being done, such as "decoding birds".
        total: the amount of work, if known.
        completed: how much of it was done before.
        unit: what is counted.

    Returns:
        A context manager; its value is called with the amount of work done since the last call.

    Example:
        >>> with track("adding", total=3) as advance:
        ...     for _ in range(3):
        ...         advance(1)
    """
    return _reporter.get()(description, total, completed, unit)


@contextmanager
def report_progress(reporter: ProgressReporter) -> Iterator[None]:
    """Send the progress of all work inside the block to `reporter`.

    Args:
        reporter: called once for each piece of work.

    Example:
        >>> from contextlib import nullcontext
        >>> started = []
        >>> def record(description, total, completed, unit):
        ...     started.append(description)
        ...     return nullcontext(lambda amount: None)
        >>> with report_progress(record), track("decoding"):
        ...     pass
        >>> started
        ['decoding']
    """
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)
