from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.full_disk import files_up_to
from tests.research.altered import alter_run
from upcl.research.report.compose import report_on_runs
from upcl.research.report.content import Report
from upcl.research.report.load import StoredRun
from upcl.research.report.write import write_figures, write_page


def with_sections(report: Report, *keys: str) -> Report:
    return dataclasses.replace(report, sections=tuple(s for s in report.sections if s.key in keys))


def test_every_chart_can_be_drawn(report: Report, tmp_path: Path) -> None:
    files = list(write_figures(report, tmp_path, "svg"))
    assert {"accuracy-head", "tsne", "seconds", "memory-peak", "matrix", "losses", "assignment"} <= {
        file.stem for file in files
    }
    assert all(file.stat().st_size > 1000 for file in files)


def test_unusual_class_names_can_be_drawn(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    classes = [r"$\frac$", "\udcff", "a, b", '"', "long " * 40, "\n"]
    report = report_on_runs([alter_run(stored_runs[2], classes=classes)])
    assert len(list(write_figures(with_sections(report, "confusion", "tsne"), tmp_path, "svg"))) == 2
    assert b"long long" in write_page(report, tmp_path / "page.html").read_bytes()


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_full_disk_is_an_error_that_names_the_file(kind: str, report: Report, tmp_path: Path) -> None:
    figures = write_figures(with_sections(report, "accuracy"), tmp_path, kind)
    with pytest.raises(OSError, match="File too large") as caught, files_up_to(2000):
        next(figures)
    assert Path(caught.value.filename).parent == tmp_path and Path(caught.value.filename).suffix == f".{kind}"
    assert list(tmp_path.iterdir()) == []
