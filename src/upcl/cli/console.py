"""Output to the terminal: consoles, errors with exit codes, and common cells of tables."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from upcl.core.errors import RelayedError, UpclError, UserError

from .streams import styled_stream

if TYPE_CHECKING:
    from rich.console import Console

RERUN = "Interrupted. Progress is saved; rerun the same command to continue."
MAX_MESSAGE = 2000  # characters of an error
RESUME = "Interrupted. Progress is saved; rerun with --resume to continue."


def stdout_console() -> Console:
    """The console for results.

    Example:
        >>> stdout_console().print("A_last 81.2")
        A_last 81.2
    """
    from .safe_console import SafeConsole

    return SafeConsole(file=styled_stream(sys.stdout, "standard output"))


def stderr_console() -> Console:
    """The console for progress and notices.

    Example:
        >>> stderr_console().stderr
        True
    """
    from .safe_console import SafeConsole

    return SafeConsole(file=styled_stream(sys.stderr, "standard error"), stderr=True)


def shortened(message: str) -> str:
    """A message without its middle, if it is longer than anyone would read.

    Args:
        message: the message, which may quote what a file or a command line holds.

    Example:
        >>> len(shortened("x" * 100_000))
        2005
    """
    half = MAX_MESSAGE // 2
    return message if len(message) <= MAX_MESSAGE else f"{message[:half]} ... {message[-half:]}"


def report_errors(*, interrupted: str = "Interrupted.") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: print expected errors in one line and exit with a code instead of a traceback.

    The exit code is 2 for an error that the user can correct, 1 for any other failure and 130 for Ctrl-C.

    Args:
        interrupted: what to print after Ctrl-C.

    Example:
        >>> @report_errors()
        ... def command():
        ...     raise UserError("unknown method 'icral': did you mean icarl?")
        >>> try:
        ...     command()
        ... except SystemExit as error:
        ...     print(error.code)
        2
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            try:
                try:
                    command(*args, **kwargs)
                finally:
                    sys.stdout.flush()
            except RelayedError:  # the first process says it
                sys.exit(1)
            except UpclError as error:
                click.echo(f"error: {shortened(str(error))}", err=True)
                sys.exit(2 if isinstance(error, UserError) else 1)
            except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
                _discard_output()
                sys.exit(1)
            except OSError as error:
                _discard_output()
                place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
                click.echo(f"error: {error.strerror or error}: {place}".rstrip(": "), err=True)
                sys.exit(1)
            except KeyboardInterrupt:
                click.echo(interrupted, err=True)
                sys.exit(130)

        return wrapped

    return decorate


def _discard_output() -> None:
    """Drop output that cannot be written, so that the interpreter does not try again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def format_number(value: float | None) -> str:
    """A cell of a table: one decimal, or a dash for a missing value.

    Args:
        value: the number.

    Example:
        >>> format_number(81.25), format_number(None)
        ('81.2', '-')
    """
    return "-" if value is None else f"{value:.1f}"


def format_percent(value: float | None) -> str:
    """A cell of a table: percent without decimals, or a dash for a missing value.

    Args:
        value: percent.

    Example:
        >>> format_percent(81.25)
        '81 %'
    """
    return "-" if value is None else f"{value:.0f} %"
