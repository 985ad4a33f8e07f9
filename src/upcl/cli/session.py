"""What the command line shows of the library's work: progress bars and notices."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click

from upcl.core.progress import logger, report_progress

from .progress import show_progress


class NoticeHandler(logging.Handler):
    """Prints the notices of the library on standard error.

    Example:
        >>> record = logging.makeLogRecord({"msg": "%d files skipped", "args": (3,)})
        >>> NoticeHandler().emit(record)  # prints "note: 3 files skipped"
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print one notice.

        Args:
            record: the notice.
        """
        click.echo(f"note: {record.getMessage()}", err=True)


@contextmanager
def terminal_session() -> Iterator[None]:
    """Show progress bars and notices of the library while a command runs.

    Example:
        >>> with terminal_session():
        ...     logger.warning("%d files skipped", 3)  # prints "note: 3 files skipped" on standard error
    """
    handler = NoticeHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(), report_progress(show_progress):
            warnings.filterwarnings("ignore", message="Image size .* exceeds limit")  # limits are ours to check
            warnings.filterwarnings("ignore", module="PIL")  # of odd files; those that cannot be read are reported
            yield
    finally:
        logger.removeHandler(handler)
