from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import upcl
from tests.cli.conftest import Invoke, run_process
from upcl.cli import main
from upcl.cli.group import SECTIONS

HEAVY = ("torch", "pydantic", "rich", "numpy", "yaml", "PIL")
IMPORTS_OF_ALL_HELP = f"""
import sys
from click.testing import CliRunner
from upcl.cli import main
for words in {{words!r}}:
    result = CliRunner().invoke(main, [*words, "--help"])
    assert result.exit_code == 0 and "Usage:" in result.output, words
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = dict(commands())


def test_help_of_every_command_loads_no_heavy_package() -> None:
    script = IMPORTS_OF_ALL_HELP.format(words=[(), *ALL])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_using_a_command_imports_only_its_module() -> None:
    script = (
        "import sys, click; from upcl.cli import main; main.get_command(click.Context(main), 'report');"
        "print([m for m in ('report', 'train', 'grid', 'learn') if f'upcl.cli.{m}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "['report']\n"


def test_help_lists_every_command_with_its_complete_summary(invoke: Invoke) -> None:
    text = invoke("--help").output
    assert all(f"{title}:" in text for title in SECTIONS)
    for (name, *inner), command in ALL.items():
        if not inner:
            assert command.help
            assert f"{name.ljust(15)}{command.help.splitlines()[0]}" in text, "the summary fits the line"
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_teaches(path: tuple[str, ...], invoke: Invoke) -> None:
    text = invoke(*path, "--help").output
    command = ALL[path]
    assert f"upcl {path[0]}" in text.partition("Example")[2], "with examples"
    assert max(map(len, text.splitlines())) <= 80
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help and parameter.help.endswith(".") and parameter.help[:1].strip(), parameter.name


def test_unknown_command_suggests_the_nearest(invoke: Invoke) -> None:
    for words, nearest in ((["trian"], "train"), (["data", "chekc", "x"], "check")):
        result = invoke(*words)
        assert result.exit_code == 2
        assert f"did you mean {nearest}?" in result.stderr


def test_module_runs_as_a_program(tmp_path: Path) -> None:
    done = run_process("--version", cwd=tmp_path)
    assert done.returncode == 0
    assert upcl.__version__ in done.stdout


def test_public_names_are_sorted_and_importable() -> None:
    assert upcl.__all__ == sorted(upcl.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(getattr(upcl, name) is not None for name in upcl.__all__)
    assert set(upcl.__all__) <= set(dir(upcl))
    with pytest.raises(AttributeError, match="no attribute 'Lerner'"):
        _ = upcl.Lerner
