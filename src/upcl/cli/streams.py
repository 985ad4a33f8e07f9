"""Standard output and standard error: what is written to them cannot steer a terminal, and its encoding cannot fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from upcl.core.text import presentable

PLAIN = "\n\t"
STYLED = "\n\t\r\x1b"
"""Characters that styled output consists of. `SafeConsole` escapes them in what it is given to print."""


class SafeStream:
    r"""A text stream that escapes whatever a terminal would interpret, and names itself in errors.

    All output of the command line passes through one: of our commands, of click and of other packages.

    Args:
        stream: where to write.
        name: what to call it in errors.
        keep: control characters that are written as they are.

    Example:
        >>> _ = SafeStream(sys.stdout, "standard output").write("red\x1b[31m\n")
        red\x1b[31m
    """

    def __init__(self, stream: TextIO, name: str, keep: str = PLAIN) -> None:
        self.stream, self.name, self.keep = stream, name, keep

    def write(self, text: str) -> int:
        """Write a text.

        Args:
            text: any text.
        """
        with self._named_errors():
            self.stream.write(presentable(text, self.stream.encoding or "utf-8", self.keep))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with self._named_errors():
            self.stream.flush()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = self.name
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # would write past this object
            raise AttributeError(name)
        return getattr(self.stream, name)


def styled_stream(stream: Any, name: str) -> SafeStream:
    """The stream for a rich console, which marks its own styles by control characters.

    Args:
        stream: standard output or standard error.
        name: what to call it in errors.

    Example:
        >>> styled_stream(sys.stdout, "standard output").keep == STYLED
        True
    """
    stream = getattr(stream, "rich_proxied_file", stream)  # while a progress bar is shown, rich replaces the streams
    return SafeStream(stream.stream if isinstance(stream, SafeStream) else stream, name, STYLED)


@contextmanager
def safe_output() -> Iterator[None]:
    r"""Write standard output and standard error through `SafeStream` inside of the block.

    Example:
        >>> with safe_output():
        ...     print("red\x1b[31m")
        red\x1b[31m
    """
    before = sys.stdout, sys.stderr
    names = "standard output", "standard error"
    with ExitStack() as stack:
        streams: list[Any] = [  # a stream may be closed
            SafeStream(stream or stack.enter_context(open(os.devnull, "w")), name)
            for stream, name in zip(before, names, strict=True)
        ]
        sys.stdout, sys.stderr = streams
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
