from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.runs import STREAM, quick_run


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one method."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        quick_run("icarl", STREAM, seed=seed, epochs=1, out=folder / f"icarl-{seed}")
    return folder


def test_tables_are_printed_in_every_format(runs_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    markdown = invoke("report", str(runs_folder), "--format", "md", "--title", "Two seeds").stdout
    assert markdown.startswith("# Two seeds\n") and "| method | A_last head |" in markdown
    rows = list(csv.DictReader(io.StringIO(invoke("report", str(runs_folder), "--format", "csv").stdout)))
    assert rows[0]["method"] == "iCaRL" and float(rows[0]["A_last head"]) >= 0
    assert r"\begin{tabular}" in invoke("report", str(runs_folder), "--format", "latex").stdout
    (table, *_) = json.loads(invoke("report", str(runs_folder), "--format", "json").stdout)
    assert table["rows"][0][0]["text"] == "iCaRL"
    assert list(tmp_path.iterdir()) == [], "tables are printed, not written"


def test_out_names_the_file(runs_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    printed = invoke("report", str(runs_folder), "--format", "md").stdout
    done = invoke("report", str(runs_folder), "--format", "md", "-o", "new/tables.md")
    assert done.stdout == "written to new/tables.md\n"
    assert (tmp_path / "new" / "tables.md").read_text() == printed


def test_page_and_figures_have_default_places(runs_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("report", str(runs_folder)).stdout == "written to report.html\n"
    assert "<title>Runs</title>" in (tmp_path / "report.html").read_text()
    done = invoke("report", str(runs_folder), "--format", "svg")
    written = {line.removeprefix("written to ") for line in done.stdout.splitlines()}
    assert written == {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "figures").iterdir()}
    assert "figures/accuracy-head.svg" in written


def test_memory_is_ranked_and_budgeted(runs_folder: Path, invoke: Invoke) -> None:
    words = ("report", str(runs_folder), "--format", "md", "--equal", "memory", "--budget", "2MB")
    printed = invoke(*words).stdout
    assert "exemplars within 2.00 MB" in printed and "Methods within the budget come first" in printed
    assert "Sorted by the number of exemplars" in invoke("report", str(runs_folder), "--format", "md").stdout


def test_mistakes_are_named(runs_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    for words, message in (
        ([str(runs_folder), "-o", str(tmp_path)], "is a folder"),
        ([str(runs_folder / "icarl-0" / "config.json")], "is a file"),
        ([str(runs_folder), "--budget", "2000"], "--budget '2000': use a number of bytes above zero, such as 20MB"),
    ):
        done = invoke("report", *words)
        assert done.exit_code == 2
        assert message in done.stderr
