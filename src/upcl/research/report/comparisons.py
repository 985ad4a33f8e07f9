"""Tables of paired differences: between methods, and between a method with and without a component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upcl.methods.registry import METHODS
from upcl.research.grouping import condition_fields, group_runs, method_title, recipe_fields
from upcl.research.paper.experiments import Contribution
from upcl.research.record import Record
from upcl.research.statistics import paired_difference
from upcl.training.evaluate import READINGS

from .tables import EMPTY, Cell, Table, count_cell, estimate_cell, text_cell

REFERENCE_METHODS = ("upcl", "up+dm")  # the methods that others are paired with
PAIRED_COLUMNS = ("head", "head p", "nme", "nme p", "both", "both p")
PAIRED_NOTE = (
    "Differences in A_last on the same seed and class order: mean ± standard deviation, and the 95 % confidence "
    "interval; p: two-sided paired t test, not corrected for multiple comparisons."
)


def paired_table(records: Sequence[Record]) -> Table | None:
    """Compare every configuration with UPCL on the same seeds and class orders; without UPCL, with the first one.

    Only runs under equal conditions are compared. Recipes may differ; a note lists those that do.

    Args:
        records: the runs.

    Returns:
        The table; None where there is nothing to compare.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> table = paired_table([run(Request(method=name, **stream)) for name in ("icarl", "upcl")])
        >>> [row[0].text for row in table.rows], [row[-2].text for row in table.rows]
        (['iCaRL'], ['UPCL'])
    """
    groups = group_runs(records)
    rows, other_recipes = [], []
    for name, runs in groups.items():
        reference = _find_reference(runs[0], groups)
        if reference is None or reference == name:
            continue
        cells, num = _paired_cells(runs, groups[reference])
        rows.append((text_cell(name), *cells, text_cell(reference), count_cell(num)))
        if recipe_fields(runs[0]) != recipe_fields(groups[reference][0]):
            other_recipes.append(name)
    if not rows:
        return None
    notes = [PAIRED_NOTE]
    if other_recipes:
        notes.append(f"Trained with another recipe than the method they are compared with: {', '.join(other_recipes)}.")
    return Table("Paired differences", ("method", *PAIRED_COLUMNS, "against", "pairs"), tuple(rows), tuple(notes))


def _paired_cells(runs: Sequence[Record], reference: Sequence[Record]) -> tuple[list[Cell], int]:
    """Cells of the differences by each reading, and the number of pairs."""
    cells, num = [], 0
    for reading in READINGS:
        paired = paired_difference(runs, reference, "a_last", reading)
        p_value = paired.p_value if paired else None
        cells.append(estimate_cell(paired.difference if paired else None, "{:+.1f}"))
        cells.append(EMPTY if p_value is None else Cell(f"{p_value:.3f}", p_value))
        num = max(num, paired.difference.num if paired else 0)
    return cells, num


def _find_reference(record: Record, groups: Mapping[str, Sequence[Record]]) -> str | None:
    """UPCL with its default options, else the first configuration, under the conditions of this run."""
    comparable = {
        name: runs[0] for name, runs in groups.items() if condition_fields(runs[0]) == condition_fields(record)
    }
    for name, first in comparable.items():
        default = all(getattr(METHODS["upcl"], key, None) == value for key, value in first.config.options.items())
        if first.method in REFERENCE_METHODS and default:
            return name
    return next(iter(comparable), None)


def contribution_table(records: Sequence[Record], contributions: Sequence[Contribution]) -> Table:
    """Tabulate what each component of a method contributes: paired differences between runs with and without it.

    Args:
        records: the runs.
        contributions: the components; those whose methods were not run are left out.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> records = [run(Request(method=name, **stream)) for name in ("up", "up+dm")]
        >>> table = contribution_table(records, [Contribution("dynamic margin", without="up", including="up+dm")])
        >>> [cell.text for cell in table.rows[0][:2]]
        ['dynamic margin', '+UP to +UP+DM (UPCL)']
    """
    methods: dict[str, list[Record]] = {}
    for record in records:
        methods.setdefault(record.method, []).append(record)
    rows = []
    for each in contributions:
        if each.without in methods and each.including in methods:
            cells, num = _paired_cells(methods[each.including], methods[each.without])
            step = f"{method_title(methods[each.without][0])} to {method_title(methods[each.including][0])}"
            rows.append((text_cell(each.component), text_cell(step), *cells, count_cell(num)))
    columns = ("component", "from and to", *PAIRED_COLUMNS, "pairs")
    return Table("What each component contributes", columns, tuple(rows), (PAIRED_NOTE,))
