"""Tables of what methods cost: memory at equal exemplars and at equal total memory, and further metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from upcl.core.budget import Budget
from upcl.core.metrics import forward_transfer, memory_area
from upcl.research.grouping import group_runs
from upcl.research.record import ByReading, Record
from upcl.research.statistics import MeanEstimate, MetricName, estimate_mean, intransigence_values, metric_value
from upcl.training.evaluate import READINGS, ReadingName

from .tables import (
    EMPTY,
    MEGABYTE,
    METRIC_TITLES,
    Cell,
    Table,
    count_cell,
    estimate_cell,
    group_by_method,
    last_mean,
    mean_over_runs,
    size_cell,
    text_cell,
)

Equal = Literal["exemplars", "memory"]
FORWARD = (
    "Forward transfer: accuracy on each later task before it is learned, minus that of an untrained network. It is 0 "
    "for every method with one head, whose classes have no output before their task."
)
ACCURACIES: tuple[tuple[MetricName, ReadingName], ...] = tuple(
    (metric, reading) for metric in ("a_last", "a_avg") for reading in ("head", "nme")
)
SAME_SIZE = 1.01  # total memories up to one percent apart count as equal


def exemplars_within(budget: int, runs: Sequence[Record]) -> int | None:
    """Compute how many exemplars a method may keep so that its network and they equal a budget.

    Args:
        budget: bytes of network and exemplars together.
        runs: runs of one configuration; their network after the last task counts.

    Returns:
        The number, 0 if the network alone takes more; None for a method without exemplars, and if the size of its
        network is not known.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> exemplars_within(record.network_bytes[-1] + 10 * 192 + 191, [record])
        10
    """
    network, pixels, kept = (last_mean(runs, name) for name in ("network_bytes", "exemplar_bytes", "exemplars"))
    if not network or not pixels or not kept:
        return None
    return Budget(budget, "total bytes").capacity(1, round(pixels / kept), round(network))


def cost_table(
    title: str, records: Sequence[Record], equal: Equal = "exemplars", budget: int | None = None
) -> Table | None:
    """Tabulate what is kept after the last task, sorted so that methods of equal memory stand together.

    Args:
        title: heading.
        records: the runs.
        equal: what is equal: the number of exemplars, or the total memory of network and exemplars, up to one percent.
            Rows of equal memory are sorted by A_last.
        budget: total bytes for which exemplars are counted; by default the largest total of the runs. At equal memory,
            all methods within it count as equal and come before those that exceed it.

    Returns:
        The table; None if no run has the figures.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> table = cost_table("Memory", [run(Request(method=name, **stream)) for name in ("icarl", "der")])
        >>> [row[0].text for row in table.rows], table.columns[:3]
        (['iCaRL', 'DER'], ('method', 'exemplars', 'parameters (M)'))
    """
    groups = {name: runs for name, runs in group_runs(records).items() if last_mean(runs, "total_bytes") is not None}
    if not groups:
        return None
    totals = {name: last_mean(runs, "total_bytes") or 0.0 for name, runs in groups.items()}
    limit = budget or round(max(totals.values()))
    exemplars = {name: last_mean(runs, "exemplars") or 0.0 for name, runs in groups.items()}
    sizes = _rank_sizes(totals, budget or 0) if equal == "memory" else {name: int(exemplars[name]) for name in groups}
    last = {name: mean_over_runs(runs, "a_last", "head") for name, runs in groups.items()}
    order = sorted(groups, key=lambda name: (sizes[name], -(last[name] or MeanEstimate(0, None, None, 0)).mean))
    rows = []
    for name in order:
        allowed = exemplars_within(limit, groups[name])
        rows.append(
            (
                text_cell(name),
                Cell(f"{exemplars[name]:.0f}", exemplars[name]),
                size_cell(groups[name], "parameters"),
                *(size_cell(groups[name], field) for field in ("network_bytes", "exemplar_bytes", "total_bytes")),
                EMPTY if allowed is None else count_cell(allowed),
                *(estimate_cell(mean_over_runs(groups[name], metric, reading)) for metric, reading in ACCURACIES),
            )
        )
    within = f"exemplars within {limit / MEGABYTE:.2f} MB"
    columns = ("method", "exemplars", "parameters (M)", "network MB", "exemplars MB", "total MB", within)
    order_note = {
        "exemplars": "Sorted by the number of exemplars, then by A_last (head).",
        "memory": "Sorted by total memory, where sizes up to 1 % apart count as equal, then by A_last (head).",
        "budget": "Methods within the budget come first, sorted by A_last (head); the others follow by total memory.",
    }
    notes = (
        "After the last task, 1 MB = 1,000,000 bytes; exemplars as raw pixels at the model's size. "
        f"{within[0].upper()}{within[1:]}: as many as make network and exemplars equal to it "
        f"(--memory {limit}B-total).",
        order_note["budget" if equal == "memory" and budget else equal],
    )
    accuracies = (f"{METRIC_TITLES[metric]} {reading}" for metric, reading in ACCURACIES)
    return Table(title, (*columns, *accuracies), tuple(rows), notes)


def _rank_sizes(totals: Mapping[str, float], budget: int) -> dict[str, int]:
    """The rank of each total: those within the budget share the first, and those within one percent of the smallest of
    a rank share it."""
    ranks: dict[str, int] = {}
    rank, smallest = -1, 0.0
    for name, total in sorted(totals.items(), key=lambda item: item[1]):
        if rank < 0 or total > max(SAME_SIZE * smallest, budget):
            rank, smallest = rank + 1, total
        ranks[name] = rank
    return ranks


def metrics_table(title: str, records: Sequence[Record]) -> Table | None:
    """Tabulate transfer, intransigence if joint runs are there, and the arithmetic of a prediction.

    Args:
        title: heading.
        records: the runs.

    Returns:
        The table; None for runs of a single task, which transfer nothing.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> table = metrics_table("Metrics", [run(Request(method=name, **stream)) for name in ("icarl", "joint")])
        >>> table.columns[1], table.columns[-2]
        ('backward transfer head', 'intransigence head')
    """
    if all(len(record.seconds) < 2 for record in records):
        return None
    groups = group_runs(records)
    intransigence = {name: intransigence_values(runs, records, "head") for name, runs in groups.items()}
    costly = any(record.multiply_adds for record in records)
    columns = ["method", *(f"backward transfer {reading}" for reading in READINGS), "forward transfer"]
    columns += ["intransigence head"] if any(intransigence.values()) else []
    columns += ["multiply-adds (M)"] if costly else []
    rows = []
    for name, runs in groups.items():
        cells = [text_cell(name)]
        for reading in READINGS:
            found = [metric_value(run, "backward_transfer", reading) for run in runs]
            values = [value for value in found if value is not None]
            cells.append(estimate_cell(estimate_mean(values) if values else None, "{:+.1f}"))
        forward = [value for run in runs if (value := forward_transfer(run.top1_matrix.head)) is not None]
        cells.append(estimate_cell(estimate_mean(forward) if forward else None, "{:.1f}"))
        if "intransigence head" in columns:
            values = intransigence[name]
            cells.append(estimate_cell(estimate_mean(values) if values else None, "{:+.1f}"))
        rows.append((*cells, *([size_cell(runs, "multiply_adds")] if costly else [])))
    notes = ["Backward transfer: mean change on each earlier task since it was learned.", FORWARD]
    if any(intransigence.values()):
        notes.append("Intransigence: accuracy of joint training on each new task minus the method's, same class order.")
    if costly:
        notes.append("Multiply-adds: of the prediction for one image, after the last task.")
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def area_table(title: str, records: Sequence[Record]) -> Table | None:
    """Tabulate the mean accuracy over the range of total memory that all methods with several sizes cover.

    Args:
        title: heading.
        records: the runs.

    Returns:
        The table; None if fewer than two sizes of total memory are covered.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=4,test=2", "tasks": 2, "epochs": 1}
        >>> records = [run(Request(method="icarl", memory=memory, **stream)) for memory in ("4", "8")]
        >>> area_table("Accuracy over memory", records).columns
        ('method', 'AUC-A', 'AUC-L', 'sizes')
    """
    finished = [record for record in records if record.total_bytes and record.finished]
    sizes: dict[str, list[float]] = {}
    for name, runs in group_by_method(finished).items():
        found = sorted({run.total_bytes[-1] / MEGABYTE for run in runs if run.total_bytes})
        if len(found) > 1:
            sizes[name] = found
    if not sizes:
        return None
    start, end = max(found[0] for found in sizes.values()), min(found[-1] for found in sizes.values())
    rows = []
    for name, runs in group_by_method(finished).items():
        if name in sizes:
            memory = [run.total_bytes[-1] / MEGABYTE for run in runs if run.total_bytes]
            areas = [memory_area(memory, [curve.head for curve in curves], start, end) for curves in _accuracies(runs)]
            cells = (EMPTY if area is None else Cell(f"{area:.1f}", area) for area in areas)
            rows.append((text_cell(name), *cells, count_cell(len(sizes[name]))))
    note = (
        f"Area under the accuracy of the head over total memory, divided by the range that all these methods cover, "
        f"{start:.3f} to {end:.3f} MB: a mean accuracy. AUC-A: A_avg; AUC-L: A_last."
        if start < end
        else "The methods have no range of total memory in common."
    )
    return Table(title, ("method", "AUC-A", "AUC-L", "sizes"), tuple(rows), (note,))


def _accuracies(runs: Sequence[Record]) -> tuple[list[ByReading[float]], list[ByReading[float]]]:
    return [run.a_avg for run in runs], [run.a_last for run in runs]
