from __future__ import annotations

import io

from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from upcl.cli.safe_console import SafeConsole

HOSTILE = "[red]\x1b[31m\x9b\u202e"
ESCAPED = "[red]\\x1b[31m\\u009b\\u202e"


def printed(*parts: object, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    SafeConsole(file=file, width=60).print(*parts)
    file.seek(0)
    return file.read()


def test_strings_and_texts_are_printed_as_they_are() -> None:
    assert printed(HOSTILE) == printed(Text(HOSTILE)) == f"{ESCAPED}\n"


def test_tables_measure_what_they_show() -> None:
    table = Table(HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row(HOSTILE)
    lines = printed(table).splitlines()
    assert sum(ESCAPED in line for line in lines) == 4
    assert {len(line) for line in lines} == {len(ESCAPED) + 4}


def test_progress_bars_are_escaped() -> None:
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, width=60, color_system=None)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as progress:
        progress.add_task(HOSTILE)
        print("printed\x9b")  # rich shows it above the bar
    assert "[red]\\x1b" in file.getvalue() and "printed\\u009b" in file.getvalue()
    assert not set(file.getvalue()) & set("\x9b\u202e")


def test_styles_have_an_effect() -> None:
    console = SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard")
    with console.capture() as captured:
        console.print("cat", style="bold")
    assert captured.get() == "\x1b[1mcat\x1b[0m\n"


def test_what_the_encoding_lacks_is_escaped() -> None:
    table = Table("é")
    assert "\\xe9" in printed(table, encoding="ascii")
