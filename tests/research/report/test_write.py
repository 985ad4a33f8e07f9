from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.research.report import write
from upcl.research.report.content import Report
from upcl.research.report.write import write_figures, write_page, write_report


def with_sections(report: Report, *keys: str) -> Report:
    return dataclasses.replace(report, sections=tuple(s for s in report.sections if s.key in keys))


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_are_files_and_equal_for_equal_runs(report: Report, kind: str, magic: bytes, tmp_path: Path) -> None:
    some = with_sections(report, "confusion", "forgetting")
    files = write_report(some, kind, tmp_path / "figures")
    assert [file.name for file in files] == [f"{stem}.{kind}" for stem in ("confusion", "forgetting")]
    first = [file.read_bytes() for file in files]
    assert all(content.startswith(magic) for content in first)
    assert [file.read_bytes() for file in write_figures(some, tmp_path / "figures", kind)] == first


def test_page_is_written_atomically(report: Report, tmp_path: Path) -> None:
    path = write_page(with_sections(report, "table"), tmp_path / "new" / "report.html")
    assert path.read_text().rstrip().endswith("</html>")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["md", "csv", "latex", "json"])
def test_tables_are_written_to_a_new_folder(report: Report, kind: str, tmp_path: Path) -> None:
    (path,) = write_report(report, kind, tmp_path / "new" / f"tables.{kind}")
    assert path.read_text() == write.format_tables(report, kind)


def test_folder_is_refused_where_a_file_is_needed(report: Report, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a folder: pass a file, such as .*report\.md"):
        write_report(report, "md", tmp_path)


def test_missing_packages_are_named(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "has_report_packages", lambda: False)
    with pytest.raises(UserError, match=r"pip install 'upcl\[report\]'"):
        write_page(report, tmp_path / "report.html")
