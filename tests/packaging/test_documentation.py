"""Commands in the documentation: every `upcl` command in a shell block exists, with the options that it uses."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from upcl.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if not {"_build", "results"} & set(page.relative_to(ROOT).parts)]
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_in(text: str) -> Iterator[list[str]]:
    """Words after `upcl` of each such command in the shell blocks of a page, without comments and redirections."""
    for block in SHELL_BLOCK.findall(text):
        for line in block.splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = [word if word.strip(";|&<>") else ";" for word in lexer]
            commands = (list(group) for _, group in itertools.groupby(words, key=";".__eq__))
            yield from (command[1:] for command in commands if command[0] == "upcl")


def parse(words: list[str]) -> None:
    """Parse a command without running it."""
    command: click.Command = main
    names = ["upcl"]
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found, f"there is no command {' '.join([*names, words[0]])}"
        command, names, words = found, [*names, words[0]], words[1:]
    command.make_context(" ".join(names), list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_on_a_page_can_be_parsed(page: Path) -> None:
    for words in commands_in(page.read_text()):
        try:
            parse(words)
        except click.ClickException as error:
            pytest.fail(f"upcl {' '.join(words)}: {error.format_message()}")


def test_unknown_commands_and_options_are_found() -> None:
    lines = ["```sh", "upcl learn birds/ --model b.upcl --most-lost 3  # why", "ls | upcl predictt -; upcl data gett x"]
    text = "\n".join([*lines, "```"])
    first, second, third = commands_in(text)
    assert first == ["learn", "birds/", "--model", "b.upcl", "--most-lost", "3"]
    with pytest.raises(click.NoSuchOption):
        parse(first)
    for words in (second, third):
        with pytest.raises(AssertionError, match="there is no command"):
            parse(words)
