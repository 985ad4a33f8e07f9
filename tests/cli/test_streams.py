from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import command
from upcl.cli.console import stderr_console, stdout_console
from upcl.cli.streams import STYLED, SafeStream, safe_output, styled_stream


def test_everything_that_is_written_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with safe_output():
        print("a\x1b[31m\x9b\u202e")
        click.echo("b\x07\r", err=True)
        stdout_console().print("[bold]c\x1b]0;t\x07")
        stderr_console().print("d\x9b")
    assert capsys.readouterr() == ("a\\x1b[31m\\u009b\\u202e\n[bold]c\\x1b]0;t\\x07\n", "b\\x07\\r\nd\\u009b\n")


def test_streams_are_restored(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), safe_output():
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ("", "")


def test_nothing_writes_past_a_safe_stream() -> None:
    stream = SafeStream(io.TextIOWrapper(io.BytesIO(), "ascii"), "standard output")
    assert not hasattr(stream, "buffer")
    click.echo("é\x1b", file=stream, color=True)  # type: ignore[arg-type]
    stream.stream.seek(0)
    assert stream.stream.read() == "\\xe9\\x1b\n"


def test_styles_of_a_console_are_kept() -> None:
    inner = io.StringIO()
    stream = styled_stream(SafeStream(inner, "standard output"), "standard output")
    assert (stream.stream, stream.keep) == (inner, STYLED)
    assert stream.write("\x1b[1mcat\x1b[0m\r\x07") == 13
    assert inner.getvalue() == "\x1b[1mcat\x1b[0m\r\\x07"


def test_closed_streams_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with safe_output():
        print("nobody reads this")
        stdout_console().print("nor this")
    assert sys.stdout is None


@pytest.mark.parametrize("words", [["methods"], ["--help"], ["audit", "--json"]])
def test_full_disk_behind_standard_output_is_named(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device: standard output\n")


def test_paths_that_are_not_text_are_printed_in_any_locale(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    environment = os.environ | {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C"}
    for path, words in ((folder, ["data", "check"]), (tmp_path / "é", ["report"])):
        done = subprocess.run([*command(*words), path], capture_output=True, env=environment, timeout=120)
        assert done.returncode == 2
        assert b"caf\\xe9" in done.stderr or b"\\xe9 does not exist" in done.stderr
        assert b"Traceback" not in done.stderr
