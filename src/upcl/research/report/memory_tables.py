"""The table of accuracy by memory size, next to the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from upcl.research.grouping import group_runs
from upcl.research.paper.experiments import PublishedReference
from upcl.research.record import Record
from upcl.research.statistics import paired_difference

from .tables import (
    Cell,
    Table,
    comparability_notes,
    estimate_cell,
    group_by_method,
    mean_over_runs,
    published_cells,
    spread_note,
    text_cell,
)


def memory_table(
    title: str, records: Sequence[Record], published: PublishedReference | None, notes: Sequence[str] = ()
) -> Table:
    """Tabulate A_last and A_avg by memory size, and the loss against the largest memory, one row per method.

    Args:
        title: heading.
        records: the runs; their memories are total numbers of exemplars.
        published: where the paper's figures for these runs are.
        notes: sentences that precede the table's own notes.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> memory_table("By memory size", [record], None).columns[:4]
        ('method', 'M=4 A_last', 'M=4 A_last paper', 'M=4 A_last - paper')
    """
    memories = sorted({record.config.memory for record in records}, key=int)
    columns = ["method"]
    for memory in memories:
        metrics = ["A_last", "A_avg", *(["Δ_last"] if memory != memories[-1] else [])]
        for metric in metrics:
            columns += [f"M={memory} {metric}", f"M={memory} {metric} paper", f"M={memory} {metric} - paper"]
    rows = [
        (text_cell(name), *_memory_cells(runs, memories, published)) for name, runs in group_by_method(records).items()
    ]
    explanation = (
        f"Δ_last: A_last minus that with {memories[-1]} exemplars on the same seed; the paper's is recomputed from its "
        "columns (`upcl audit` lists where it prints others). Head reading."
    )
    others = [note for note in comparability_notes(records) if "memory differs" not in note]
    return Table(title, tuple(columns), tuple(rows), (*notes, spread_note(group_runs(records)), explanation, *others))


def _memory_cells(runs: Sequence[Record], memories: Sequence[str], published: PublishedReference | None) -> list[Cell]:
    cells: list[Cell] = []
    largest = [run for run in runs if run.config.memory == memories[-1]]
    printed_largest = published.lookup(largest[0]) if published and largest else None
    for memory in memories:
        chosen = [run for run in runs if run.config.memory == memory]
        a_last, a_avg = (published.lookup(chosen[0]) if published and chosen else None) or (None, None)
        last, average = (mean_over_runs(chosen, metric, "head") for metric in ("a_last", "a_avg"))
        cells += [estimate_cell(last), *published_cells(last, a_last)]
        cells += [estimate_cell(average), *published_cells(average, a_avg)]
        if memory != memories[-1]:
            paired = paired_difference(chosen, largest, "a_last", "head")
            loss = paired.difference if paired else None
            printed_loss = a_last - printed_largest[0] if a_last is not None and printed_largest else None
            cells += [estimate_cell(loss, "{:+.1f}"), *published_cells(loss, printed_loss)]
    return cells
