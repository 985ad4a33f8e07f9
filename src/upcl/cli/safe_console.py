"""A rich console that prints text as it is: neither markup nor control characters in it have an effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from upcl.core.text import presentable


class SafeConsole(Console):
    """A console for text from elsewhere, such as names of classes. Styles are given by `style` and `rich.text.Text`.

    Args:
        kwargs: passed on to `rich.console.Console`.

    Example:
        >>> SafeConsole().print("[bold]cat\x1b[31m")
        [bold]cat\\x1b[31m
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(highlight=False, emoji=False, markup=False, **kwargs)

    def render_str(self, text: str, **kwargs: Any) -> Text:
        """Convert a string to text, escaped, so that tables measure what they show.

        Args:
            text: any text.
            kwargs: passed on.
        """
        return super().render_str(presentable(text, self.encoding), **kwargs)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything; every text is escaped, wherever it comes from.

        Args:
            renderable: what to print.
            options: passed on.
        """
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else presentable(text, self.encoding), style, control)
