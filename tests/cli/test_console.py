from __future__ import annotations

import subprocess

import click
import pytest
from click.testing import CliRunner

from tests.cli.conftest import Invoke, command
from upcl.cli.console import RERUN, RESUME, report_errors
from upcl.core.errors import CheckpointError, TrainingError, UserError


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UserError("unknown method 'x'"), 2, "error: unknown method 'x'\n"),
        (TrainingError("diverged"), 1, "error: diverged\n"),
        (CheckpointError("damaged"), 1, "error: damaged\n"),
        (OSError(13, "Permission denied", "/root/x"), 1, "error: Permission denied: /root/x\n"),
        (OSError("disk on fire"), 1, "error: disk on fire\n"),
        (KeyboardInterrupt(), 130, f"{RERUN}\n"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(error: BaseException, code: int, message: str) -> None:
    @click.command()
    @report_errors(interrupted=RERUN)
    def fail() -> None:
        raise error

    result = CliRunner().invoke(fail)
    assert (result.exit_code, result.stderr, result.stdout) == (code, message, "")


def test_bugs_are_not_hidden() -> None:
    @click.command()
    @report_errors()
    def fail() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(fail).exception, ZeroDivisionError)


def test_messages_after_an_interrupt_describe_how_to_continue() -> None:
    assert RERUN == "Interrupted. Progress is saved; rerun the same command to continue."
    assert RESUME == "Interrupted. Progress is saved; rerun with --resume to continue."


@pytest.mark.parametrize("words", [["audit", "--json"], ["methods"]])
def test_closed_pipe_is_no_traceback(words: list[str]) -> None:
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1


def test_complete_output_exits_with_0(invoke: Invoke) -> None:
    assert invoke("audit", "--json").exit_code == 0
