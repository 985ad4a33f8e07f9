"""Sides of a comparison by what a user calls them: folders, or methods within a folder of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from upcl.core.errors import UserError, unknown_choice
from upcl.research.comparison import Side
from upcl.research.grouping import method_title
from upcl.research.record import FILE_NAME, Record

from .load import read_runs


def find_sides(names: Sequence[str], folder: Path, notes: list[str] | None = None) -> list[Side]:
    """Read the runs of each side.

    Args:
        names: folders of runs, or names of methods that were run in `folder`. A folder with runs goes before a method
            of the same name.
        folder: where runs are found by the name of their method.
        notes: a list that receives a sentence about each run that is left out.

    Raises:
        UserError: if a name is neither, if two sides are the same, or a side has no finished run.

    Example:
        >>> import tempfile
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=2,train=2,test=2", "tasks": 1, "epochs": 1}
        >>> with tempfile.TemporaryDirectory() as runs:
        ...     for name in ("finetune", "icarl"):
        ...         _ = run(Request(method=name, **stream), out=f"{runs}/{name}-0")
        ...     [side.name for side in find_sides([f"{runs}/finetune-0", "icarl"], Path(runs))]
        ['finetune-0', 'iCaRL']
    """
    skipped = [] if notes is None else notes
    if len(names) < 2:
        raise UserError("a comparison needs two sides: upcl compare icarl upcl")
    found: list[Record] | None = None
    sides: list[Side] = []
    for name in names:
        path = Path(name)
        if _has_runs(path) or len(path.parts) > 1:  # a path that holds no run is an error of its own
            records, title = [run.record for run in read_runs([path], skipped)], path.resolve().name
        else:
            if found is None:
                found = _runs_by_method(name, folder, skipped)
            records = [record for record in found if record.method == name]
            if not records:
                methods = sorted({record.method for record in found})
                raise unknown_choice(f"folder with runs, or method in {folder}", name, methods)
            title = method_title(records[0])
        finished = [record for record in records if record.finished]
        skipped += [f"{name}, seed {each.seed}: not finished, left out" for each in records if not each.finished]
        if not finished:
            raise UserError(f"{name}: none of its runs is finished")
        sides.append(Side(title, finished))
    return _with_different_names(names, sides)


def _has_runs(path: Path) -> bool:
    return path.is_dir() and next(path.rglob(FILE_NAME), None) is not None


def _runs_by_method(name: str, folder: Path, notes: list[str]) -> list[Record]:
    if not folder.exists():
        raise UserError(
            f"'{name}' is no folder with runs, and {folder}, where methods are looked for, does not exist: "
            "name the folder by --runs"
        )
    return [run.record for run in read_runs([folder], notes)]


def _with_different_names(names: Sequence[str], sides: Sequence[Side]) -> list[Side]:
    """Sides that are called alike are called as the user calls them; none may be there twice."""
    digests = [frozenset(record.config_digest for record in side.records) for side in sides]
    for place, digest in enumerate(digests):
        if digest in digests[:place]:
            raise UserError(f"{names[digests.index(digest)]} and {names[place]} are the same runs")
    titles = [side.name for side in sides]
    shared = [side.name for side in sides if titles.count(side.name) > 1]
    return [
        Side(name if side.name in shared else side.name, side.records) for name, side in zip(names, sides, strict=True)
    ]
