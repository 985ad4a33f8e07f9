"""Figures with one line per configuration: curves by task, by memory size and by number of prototypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from upcl.research.grouping import group_runs
from upcl.research.paper.uniformity import GENERATORS, Uniformity
from upcl.research.record import Record
from upcl.training.evaluate import READINGS, ReadingName

from .charts import LineChart, Number, Series
from .load import StoredRun

RunGroups = Mapping[str, Sequence[StoredRun]]
SEEN_LABEL = "% correct, all classes seen"


def group_stored_runs(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """Group runs that differ only in seed and class order, under the names that the tables use.

    Args:
        runs: the runs.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> list(group_stored_runs(groups["iCaRL"]))
        ['iCaRL']
    """
    by_id = {id(run.record): run for run in runs}
    groups = group_runs([run.record for run in runs])
    return {name: [by_id[id(record)] for record in records] for name, records in groups.items()}


def mean_series(name: str, colour: int, curves: Sequence[Sequence[Number]], *, secondary: bool = False) -> Series:
    """Average curves over runs, with a band from the lowest to the highest run.

    Args:
        name: entry in the legend.
        colour: index of the colour.
        curves: one curve per run, with one value per task; they may have different lengths and gaps.
        secondary: draw it against the axis on the right.

    Example:
        >>> series = mean_series("UPCL", 0, [[90.0, 80.0], [94.0, None]])
        >>> series.y, series.low, series.high
        ([92.0, 80.0], [90.0, 80.0], [94.0, 80.0])
    """
    length = max(map(len, curves))
    columns = [[value for curve in curves if t < len(curve) and (value := curve[t]) is not None] for t in range(length)]
    several = len(curves) > 1
    return Series(
        name=name,
        x=[1 + t for t in range(length)],
        y=[sum(values) / len(values) if values else None for values in columns],
        low=[min(values, default=None) for values in columns] if several else (),
        high=[max(values, default=None) for values in columns] if several else (),
        colour=colour,
        secondary=secondary,
    )


def _series_by_task(groups: RunGroups, curve: Callable[[Record], Sequence[Number] | None]) -> tuple[Series, ...]:
    """A line for each configuration in which the curve exists."""
    series = []
    for colour, (name, runs) in enumerate(groups.items()):
        curves = [values for run in runs if (values := curve(run.record)) is not None]
        if any(value is not None for values in curves for value in values):
            series.append(mean_series(name, colour, curves))
    return tuple(series)


def accuracy(groups: RunGroups) -> Iterator[LineChart]:
    """Chart the accuracy on all classes seen after each task, one chart per reading.

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [chart.key for chart in accuracy(groups)]
        ['accuracy-head', 'accuracy-nme', 'accuracy-both']
    """
    titles: dict[ReadingName, str] = {
        "head": "Accuracy by task: head",
        "nme": "Accuracy by task: nearest mean",
        "both": "Accuracy by task: head and nearest mean",
    }
    for reading in READINGS:
        series = _series_by_task(groups, lambda record, reading=reading: record.top1[reading])  # type: ignore[misc]
        if series:
            yield LineChart(f"accuracy-{reading}", titles[reading], "task", SEEN_LABEL, series)


def old_and_new(groups: RunGroups) -> Iterator[LineChart]:
    """Chart the accuracy on the classes of earlier tasks and on those of the latest task.

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [chart.title for chart in old_and_new(groups)]
        ['Classes of earlier tasks: head', 'Classes of the latest task: head']
    """
    parts: tuple[tuple[str, str, Callable[[Record], Sequence[Number]]], ...] = (
        ("old", "Classes of earlier tasks", lambda record: record.old.head),
        ("new", "Classes of the latest task", lambda record: record.new.head),
    )
    for part, title, curve in parts:
        series = _series_by_task(groups, curve)
        if series:
            yield LineChart(f"accuracy-{part}", f"{title}: head", "task", "% correct", series)


def imbalance(groups: RunGroups) -> Iterator[LineChart]:
    """Chart Figure 1 of the paper: accuracy (solid) and imbalance ratio (dashed, axis on the right).

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [series.secondary for chart in imbalance(groups) for series in chart.series]
        [False, True]
    """
    series = []
    for colour, (name, runs) in enumerate(groups.items()):
        ratios = [run.record.imbalance_ratio for run in runs]
        series.append(mean_series(name, colour, [run.record.top1.head for run in runs]))
        if any(value is not None for ratio in ratios for value in ratio):
            series.append(mean_series(name, colour, ratios, secondary=True))
    title = "Accuracy (solid) and imbalance ratio (dashed) by task"
    yield LineChart("imbalance", title, "task", SEEN_LABEL, tuple(series), secondary_label="imbalance ratio")


def imbalance_ratio(groups: RunGroups) -> Iterator[LineChart]:
    """Chart the imbalance ratio of each task's training data.

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [series.y for chart in imbalance_ratio(groups) for series in chart.series]
        [[1.0, 1.0]]
    """
    series = _series_by_task(groups, lambda record: record.imbalance_ratio)
    if series:
        yield LineChart("imbalance-ratio", "Imbalance ratio by task", "task", "largest / smallest class", series)


def coherence(groups: RunGroups) -> Iterator[LineChart]:
    """Chart the largest cosine between the class vectors of the head.

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [chart.y_label for chart in coherence(groups)]
        ['cosine']
    """
    series = _series_by_task(groups, lambda record: record.coherence)
    if series:
        title = "Coherence: largest cosine between two class vectors of the head"
        yield LineChart("coherence", title, "task", "cosine", series)


def time_and_memory(groups: RunGroups) -> Iterator[LineChart]:
    """Chart the training time of each task, the peak memory, and what is kept after each task.

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [chart.key for chart in time_and_memory(groups)][0]
        'seconds'
    """
    series = _series_by_task(groups, lambda record: record.seconds)
    yield LineChart("seconds", "Training time per task", "task", "seconds", series)
    series = _series_by_task(groups, lambda record: record.peak_memory_mb)
    if series:
        yield LineChart("memory-peak", "Peak memory so far", "task", "MB", series)
    series = _series_by_task(groups, lambda record: record.total_bytes and [size / 1e6 for size in record.total_bytes])
    if series:
        yield LineChart("memory-kept", "Network and exemplars kept between tasks", "task", "MB", series)


def accuracy_by_memory(methods: Mapping[str, Sequence[Record]]) -> Iterator[LineChart]:
    """Chart A_last by the number of exemplars.

    Args:
        methods: runs by method; their memories are total numbers of exemplars.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> (chart,) = accuracy_by_memory({"iCaRL": [record]})
        >>> chart.series[0].x
        [4]
    """
    series = []
    for colour, (name, runs) in enumerate(methods.items()):
        memories = sorted({int(run.config.memory) for run in runs})
        values = [[run.a_last.head for run in runs if int(run.config.memory) == memory] for memory in memories]
        several = any(len(each) > 1 for each in values)
        series.append(
            Series(
                name=name,
                x=memories,
                y=[sum(each) / len(each) for each in values],
                low=[min(each) for each in values] if several else (),
                high=[max(each) for each in values] if several else (),
                colour=colour,
            )
        )
    title = "Accuracy by memory size: head"
    yield LineChart("over-memory", title, "exemplars in total", "A_last, %", tuple(series))


def uniformity(measurements: Sequence[Uniformity]) -> Iterator[LineChart]:
    """Chart the smallest cosine distance by the number of prototypes: mean and range over draws.

    Args:
        measurements: results of the uniformity experiment.

    Example:
        >>> (chart,) = uniformity([Uniformity("Gaussian", num=10, dim=64, draws=3, mean=0.6, low=0.5, high=0.7)])
        >>> chart.series[0].name, chart.series[0].y
        ('Gaussian', [0.6])
    """
    series = []
    for colour, generator in enumerate(GENERATORS):
        found = sorted((m for m in measurements if m.generator == generator), key=lambda m: m.num)
        if found:
            low, high = [m.low for m in found], [m.high for m in found]
            series.append(Series(generator, [m.num for m in found], [m.mean for m in found], low, high, colour))
    dim = measurements[0].dim if measurements else 0
    title = f"Smallest cosine distance between two prototypes, {dim} dimensions"
    yield LineChart("uniformity", title, "prototypes", "1 - largest cosine", tuple(series))
