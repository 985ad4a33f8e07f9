from __future__ import annotations

from upcl.research.report.content import Report, Section
from upcl.research.report.tables import Table


def test_chapters_group_neighbouring_sections() -> None:
    sections = tuple(Section(f"s{k}", "title", "", chapter=name) for k, name in enumerate("aabba"))
    report = Report("title", (), sections)
    assert [(name, [section.key for section in group]) for name, group in report.chapters] == [
        ("a", ["s0", "s1"]),
        ("b", ["s2", "s3"]),
        ("a", ["s4"]),
    ]


def test_tables_are_listed_in_the_order_of_the_sections() -> None:
    tables = [Table(name, (), ()) for name in ("first", "second", "third")]
    report = Report("title", (), (Section("x", "", "", tuple(tables[:2])), Section("y", "", "", tuple(tables[2:]))))
    assert report.tables == tables
    assert report.charts == []
