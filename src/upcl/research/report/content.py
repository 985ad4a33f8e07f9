"""The content of a report, independent of its format: sections with tables, figures and images."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from .charts import Chart
from .galleries import Gallery
from .tables import Table


@dataclass(frozen=True)
class Section:
    """A section of a report.

    Args:
        key: unique name within the report; its anchor on the page.
        title: heading.
        description: what it shows, in a sentence or two.
        tables: its tables.
        charts: its figures.
        galleries: its images.
        commands: commands, each with what identifies the run that it repeats.
        chapter: the setting that it belongs to, in a report on several settings.

    Example:
        >>> Section("table", "Results", "Click a column header to sort.").tables
        ()
    """

    key: str
    title: str
    description: str
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    chapter: str = ""


@dataclass(frozen=True)
class Report:
    """A report.

    Args:
        title: heading.
        summary: sentences at the top.
        sections: the sections in order.

    Example:
        >>> report = Report("Runs", ("2 runs.",), (Section("table", "Results", "", (Table("Digits", (), ()),)),))
        >>> [table.title for table in report.tables]
        ['Digits']
    """

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def chapters(self) -> list[tuple[str, list[Section]]]:
        """The sections by chapter."""
        return [(name, list(group)) for name, group in groupby(self.sections, key=lambda section: section.chapter)]

    @property
    def tables(self) -> list[Table]:
        """The tables of all sections."""
        return [table for section in self.sections for table in section.tables]

    @property
    def charts(self) -> list[Chart]:
        """The figures of all sections."""
        return [chart for section in self.sections for chart in section.charts]
