from __future__ import annotations

import io

import pytest
from rich.console import Console

from upcl.cli.progress import bars, epoch_progress, run_progress, show_progress
from upcl.cli.session import terminal_session
from upcl.core.progress import ProgressUnit, track
from upcl.research.run import RunProgress
from upcl.training.engine import EpochResult


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def epoch_result(epoch: int) -> EpochResult:
    return EpochResult(epoch, 20, 0.1, {"ce": 1.5, "kd": 0.5}, dict)


def test_run_prints_a_line_per_task_without_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=120)
    with run_progress(console, "upcl") as on_progress:
        for task, accuracy in ((0, 98.04), (1, 91.0)):
            on_progress(RunProgress(task, 2, "train", 0, 1, {"ce": 1.0}))
            on_progress(RunProgress(task, 2, "done", 0, 1, {}, accuracy))
    assert text_of(console).splitlines() == [
        "upcl: task 1 of 2, accuracy 98.0 %",
        "upcl: task 2 of 2, accuracy 91.0 %",
    ]


def test_run_shows_task_epoch_and_loss_on_a_terminal() -> None:
    console = terminal()
    with run_progress(console, "upcl") as on_progress:
        on_progress(RunProgress(1, 4, "train", 4, 10, {"ce": 1.5, "kd": 0.5}))
    assert "task 2/4  epoch 5/10  loss 2.000" in text_of(console)
    assert " 38%" in text_of(console), "1.5 of 4 tasks are done"


def test_epochs_print_every_tenth_line_without_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=120)
    with epoch_progress(console, "learning birds") as on_epoch:
        for epoch in range(4, 20):
            on_epoch(epoch_result(epoch))
    assert text_of(console).splitlines() == [
        "learning birds: resuming after epoch 4",
        "learning birds: epoch 10 of 20",
        "learning birds: epoch 20 of 20",
    ]


def test_epochs_show_the_loss_on_a_terminal() -> None:
    console = terminal()
    with epoch_progress(console, "learning birds") as on_epoch:
        for epoch in range(10):
            on_epoch(epoch_result(epoch))
    assert "epoch 10/20  loss 2.000" in text_of(console)
    assert "resuming" not in text_of(console)
    assert "epoch 10 of 20" not in text_of(console), "no lines next to the bar"


@pytest.mark.parametrize(
    ("total", "unit", "shown"),
    [
        (4_000_000, "bytes", [" 50%", "2.0 MB of 4.0 MB"]),
        (2_500_000, "items", [" 80%", "2000000 of 2500000"]),
        (None, "bytes", ["2.0 MB"]),
    ],
)
def test_library_work_gets_a_bar_with_its_amount(total: int | None, unit: ProgressUnit, shown: list[str]) -> None:
    console = terminal()
    with (
        terminal_session(),
        bars(console) as display,
        track("downloading", total, completed=1_000_000, unit=unit) as advance,
    ):
        advance(1_000_000)
        display.refresh()
    assert all(text in text_of(console) for text in ("downloading", *shown))


def test_library_work_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal_session(), track("decoding birds", 4) as advance:
        advance(4)
    assert capsys.readouterr() == ("", "")


def test_nested_work_shares_one_display() -> None:
    with bars(terminal()) as outer:
        outer.add_task("run", total=3, detail="")
        with show_progress("decoding", 2, 0, "items") as advance, bars(terminal()) as inner:
            advance(1)
            assert inner is outer
            assert [task.description for task in outer.tasks] == ["run", "decoding"]
        assert [task.description for task in outer.tasks] == ["run"], "a finished bar disappears"
    with bars(terminal()) as later:
        assert later is not outer
