"""A comparison of methods as a report: a table and figures for each contrast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from upcl.research.comparison import Contrast, difference_curves
from upcl.research.pairing import describe_seed
from upcl.research.statistics import MeanEstimate
from upcl.training.evaluate import READINGS

from .charts import LineChart
from .content import Report, Section
from .figures import accuracy, mean_series
from .load import StoredRun
from .tables import EMPTY, Cell, Table, count_cell, text_cell

NOTE = (
    "Difference: mean over pairs of equal seed and class order, and its 95 % interval (Student's t). d: the difference "
    "in standard deviations of the differences (Cohen's d_z with Hedges' correction). p: two-sided paired t test; "
    "p Holm: corrected for all tests of this comparison ({num}); p rank: Wilcoxon's signed-rank test. All hold for "
    "other seeds and class orders, not for other data."
)


def contrast_table(contrast: Contrast, num_tests: int) -> Table:
    """Tabulate the metrics of two sides, their difference, and the tests; empty columns are left out.

    Args:
        contrast: the two sides.
        num_tests: number of tests that p values are corrected for.

    Example:
        >>> from upcl.research.comparison import ComparedMetric
        >>> from upcl.research.statistics import evaluate_differences
        >>> metric = ComparedMetric("a_last", "head", 46.0, 43.0, evaluate_differences([2.0, 4.0]))
        >>> table = contrast_table(Contrast("UPCL+", "LA", (), (metric,), ()), 1)
        >>> [cell.text for cell in table.rows[0]][:4]
        ['A_last head', '46.00', '43.00', '+3.00']
    """
    rows = []
    for metric in contrast.metrics:
        paired = metric.paired
        effect = EMPTY if paired.effect_size is None else Cell(f"{paired.effect_size:+.1f}", paired.effect_size)
        tests = (paired.p_value, metric.corrected_p_value, paired.rank_p_value)
        digits = 0 if metric.metric == "seconds" else 2
        means = (Cell(f"{mean:.{digits}f}", mean) for mean in (metric.first, metric.second))
        cells = (*means, _difference_cell(paired.difference, digits), effect, *map(_p_cell, tests))
        rows.append((text_cell(metric.title), *cells, count_cell(paired.difference.num)))
    titles = ("metric", contrast.first, contrast.second, "difference", "d", "p", "p Holm", "p rank", "pairs")
    kept = [place for place, title in enumerate(titles) if any(row[place] != EMPTY for row in rows)]
    notes = (NOTE.format(num=num_tests), *contrast.notes)
    columns = tuple(titles[place] for place in kept)
    return Table(contrast.title, columns, tuple(tuple(row[place] for place in kept) for row in rows), notes)


def _difference_cell(estimate: MeanEstimate, digits: int) -> Cell:
    text = f"{estimate.mean:+.{digits}f}"
    if estimate.std is None or estimate.half_width is None:
        return Cell(text, estimate.mean)
    ends = estimate.mean - estimate.half_width, estimate.mean + estimate.half_width
    return Cell(text, estimate.mean, estimate.std, *ends)


def _p_cell(value: float | None) -> Cell:
    return EMPTY if value is None else Cell("<0.001" if value < 0.001 else f"{value:.3f}", value)


def report_on_contrasts(contrasts: Sequence[Contrast]) -> Report:
    """Report on a comparison: of each contrast the table, the curves of both sides, and their difference by task.

    Args:
        contrasts: what `compare` returned.

    Example:
        >>> report_on_contrasts([Contrast("UPCL+", "LA", (), (), ())]).title
        'UPCL+ and LA'
    """
    num_tests = count_tests(contrasts)
    sections = []
    for index, contrast in enumerate(contrasts):
        prefix = f"c{index + 1}-"
        charts = (replace(chart, key=prefix + chart.key) for chart in _charts(contrast))
        description = f"Pairs: {'; '.join(describe_seed(first) for first, _ in contrast.pairs)}."
        table = contrast_table(contrast, num_tests)
        sections.append(Section(f"{prefix}contrast", contrast.title, description, (table,), tuple(charts)))
    names = dict.fromkeys(name for contrast in contrasts for name in (contrast.first, contrast.second))
    verdicts = [verdict for contrast in contrasts for verdict in contrast.verdicts]
    return Report(" and ".join(names), tuple(verdicts), tuple(sections))


def count_tests(contrasts: Sequence[Contrast]) -> int:
    """Count the tests of a comparison, which p values are corrected for.

    Args:
        contrasts: what `compare` returned.

    Example:
        >>> count_tests([])
        0
    """
    return sum(metric.paired.p_value is not None for contrast in contrasts for metric in contrast.metrics)


def _charts(contrast: Contrast) -> Iterator[LineChart]:
    if not contrast.pairs:
        return
    sides = zip((contrast.first, contrast.second), zip(*contrast.pairs, strict=True), strict=True)
    yield from accuracy({name: [StoredRun(Path(), record) for record in records] for name, records in sides})
    series = []
    for colour, reading in enumerate(READINGS):
        curves = difference_curves(contrast, reading)
        if curves:
            series.append(mean_series(reading, colour, curves))
    title = f"Accuracy by task: {contrast.first} minus {contrast.second}"
    yield LineChart("difference", title, "task", "percentage points, all classes seen", tuple(series))
