"""Tables of results: rows are methods or configurations, columns are metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upcl.research.grouping import class_orders_differ, differing_fields, group_runs, method_title
from upcl.research.paper.experiments import PublishedReference
from upcl.research.record import Record
from upcl.research.statistics import MeanEstimate, MetricName, estimate_mean, metric_value
from upcl.training.evaluate import READINGS, ReadingName

COLUMNS_OF_COSTS = {"parameters": "parameters (M)", "total_bytes": "memory (MB)"}
MEGABYTE = 10**6
METRIC_TITLES: dict[MetricName, str] = {"a_last": "A_last", "a_avg": "A_avg", "forgetting": "forgetting"}


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        text: what is displayed.
        value: the number or name behind it, for sorting and for machine-readable formats.
        std: the standard deviation, if known.
        low: lower end of the 95 % interval, if known.
        high: upper end of the 95 % interval, if known.

    Example:
        >>> Cell("71.0 ± 2.0", 71.0, std=2.0, low=66.0, high=76.0).interval
        '66.0 to 76.0'
    """

    text: str
    value: float | str | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> str:
        """The 95 % interval as text; empty if unknown."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f} to {self.high:.1f}"


EMPTY = Cell("-")


@dataclass(frozen=True)
class Table:
    """A table of results.

    Args:
        title: heading.
        columns: column titles.
        rows: the cells of each row.
        notes: sentences below the table.

    Example:
        >>> Table("Results", ("method", "A_last"), ((Cell("UPCL"), Cell("56.1", 56.12)),)).notes
        ()
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def text_cell(text: str) -> Cell:
    """A cell with a name.

    Args:
        text: the name.

    Example:
        >>> text_cell("UPCL")
        Cell(text='UPCL', value='UPCL', std=None, low=None, high=None)
    """
    return Cell(text, text)


def count_cell(num: int) -> Cell:
    """A cell with an integer.

    Args:
        num: the number.

    Example:
        >>> count_cell(3).text
        '3'
    """
    return Cell(str(num), num)


def estimate_cell(estimate: MeanEstimate | None, pattern: str = "{:.1f}") -> Cell:
    """A cell with a mean and its uncertainty.

    Args:
        estimate: the mean; None makes an empty cell.
        pattern: format of the mean.

    Example:
        >>> estimate_cell(estimate_mean([10.0, 12.0, 14.0])).text
        '12.0 ± 2.0'
    """
    if estimate is None:
        return EMPTY
    text = pattern.format(estimate.mean)
    if estimate.std is None or estimate.half_width is None:
        return Cell(text, estimate.mean)
    ends = estimate.mean - estimate.half_width, estimate.mean + estimate.half_width
    return Cell(f"{text} ± {estimate.std:.1f}", estimate.mean, estimate.std, *ends)


def last_mean(runs: Sequence[Record], field: str, unit: float = 1.0) -> float | None:
    """Average a cost after the last task over runs.

    Args:
        runs: runs of one configuration.
        field: one of `COSTS`, or another field with one value per task.
        unit: what to divide by.

    Returns:
        The mean; None if a run does not have it.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> last_mean([record], "exemplar_bytes")
        768.0
    """
    curves = [getattr(run, field) for run in runs]
    return sum(curve[-1] for curve in curves) / len(curves) / unit if curves and all(curves) else None


def size_cell(runs: Sequence[Record], field: str) -> Cell:
    """A cell with a number of parameters or bytes in millions.

    Args:
        runs: runs of one configuration.
        field: one of `COSTS`.

    Example:
        >>> size_cell([], "parameters").text
        '-'
    """
    value = last_mean(runs, field, MEGABYTE)
    return EMPTY if value is None else Cell(f"{value:.2f}", value)


def published_cells(estimate: MeanEstimate | None, printed: float | None) -> list[Cell]:
    """Cells with the paper's figure, and our difference from it.

    Args:
        estimate: our mean.
        printed: what the paper prints; None makes empty cells.

    Example:
        >>> [cell.text for cell in published_cells(estimate_mean([61.0]), 60.5)]
        ['60.50', '+0.5']
    """
    if printed is None:
        return [EMPTY, EMPTY]
    difference = Cell(f"{estimate.mean - printed:+.1f}", estimate.mean - printed) if estimate else EMPTY
    return [Cell(f"{printed:.2f}", printed), difference]


def mean_over_runs(records: Sequence[Record], metric: MetricName, reading: ReadingName) -> MeanEstimate | None:
    """Estimate the mean of a metric over the runs that finished the most tasks.

    Args:
        records: runs of one configuration.
        metric: which metric.
        reading: by which reading of the models.

    Returns:
        The estimate; None where the metric does not exist.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> mean_over_runs([record], "a_last", "head").mean == record.a_last.head
        True
    """
    most_tasks = max((len(record.seconds) for record in records), default=0)
    found = [metric_value(record, metric, reading) for record in records if len(record.seconds) == most_tasks]
    values = [value for value in found if value is not None]
    return estimate_mean(values) if values else None


def spread_note(groups: Mapping[str, Sequence[Record]]) -> str:
    """Explain what the numbers after ± and below the means are.

    Args:
        groups: runs by configuration.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> spread_note({"Finetune": [record]})
        'One seed each: the spread is unknown, and small differences are not meaningful.'
    """
    counts = {len(runs) for runs in groups.values()}
    if counts == {1}:
        return "One seed each: the spread is unknown, and small differences are not meaningful."
    note = "Mean ± standard deviation over runs, and the 95 % confidence interval (Student's t)"
    if any(len({run.order_seed for run in runs}) > 1 for runs in groups.values()):
        note += "; each pair of seed and class order counts as one run"
    return f"{note}; rows with one seed have no spread." if 1 in counts else f"{note}."


def comparability_notes(records: Sequence[Record]) -> list[str]:
    """List what a reader must know before comparing runs: differing protocols, unfinished runs, notes of the runs.

    Args:
        records: the runs.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1}
        >>> records = [run(Request(method="icarl", memory=memory, **stream)) for memory in ("4", "8")]
        >>> comparability_notes(records)
        ['NOT THE SAME PROTOCOL: memory differs (4 in total; 8 in total)']
    """
    notes = [
        f"NOT THE SAME PROTOCOL: {key} differs ({'; '.join(values)})"
        for key, values in differing_fields(records).items()
    ]
    if class_orders_differ(group_runs(records)):
        notes.append("NOT THE SAME PROTOCOL: the rows have different class orders")
    notes += [f"{method_title(r)}, seed {r.seed}: not finished" for r in records if not r.finished]
    run_notes: dict[str, list[str]] = {}
    for record in records:
        for note in record.notes:
            run_notes.setdefault(note, []).append(f"{method_title(record)} seed {record.seed}")
    return notes + [
        f"{note} ({'all runs' if len(runs) == len(records) else ', '.join(runs)})" for note, runs in run_notes.items()
    ]


def results_table(
    title: str, records: Sequence[Record], published: PublishedReference | None = None, notes: Sequence[str] = ()
) -> Table:
    """Tabulate every metric by each reading, one row per configuration.

    Args:
        title: heading.
        records: the runs.
        published: where the paper's figures for these runs are.
        notes: sentences that precede the table's own notes.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> table = results_table("Results", [record])
        >>> table.columns[:3], table.rows[0][0].text
        (('method', 'A_last head', 'A_last nme'), 'Finetune')
    """
    groups = group_runs(records)
    printed = {name: published.lookup(runs[0]) if published else None for name, runs in groups.items()}
    with_published = any(printed.values())
    columns = ["method", *(f"{metric} {reading}" for metric in METRIC_TITLES.values() for reading in READINGS)]
    columns += ["paper A_last", "A_last head - paper", "paper A_avg", "A_avg head - paper"] if with_published else []
    costly = [name for name in COLUMNS_OF_COSTS if any(getattr(record, name) for record in records)]
    rows = []
    for name, runs in groups.items():
        means = {
            (metric, reading): mean_over_runs(runs, metric, reading) for metric in METRIC_TITLES for reading in READINGS
        }
        cells = [text_cell(name), *map(estimate_cell, means.values())]
        if with_published:
            a_last, a_avg = printed[name] or (None, None)
            cells += published_cells(means["a_last", "head"], a_last) + published_cells(means["a_avg", "head"], a_avg)
        seconds = sum(sum(run.seconds) for run in runs) / len(runs)
        costs = (size_cell(runs, field) for field in costly)
        rows.append((*cells, *costs, count_cell(len(runs)), Cell(f"{seconds:.0f}", seconds)))
    columns += [COLUMNS_OF_COSTS[field] for field in costly]
    notes = (*notes, spread_note(groups), *comparability_notes(records))
    return Table(title, (*columns, "runs", "seconds"), tuple(rows), notes)


def group_by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs by the title of their method, whatever their options.

    Args:
        records: the runs.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> list(group_by_method([record]))
        ['iCaRL']
    """
    methods: dict[str, list[Record]] = {}
    for record in records:
        methods.setdefault(method_title(record), []).append(record)
    return methods
