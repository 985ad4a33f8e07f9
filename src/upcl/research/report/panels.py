"""Figures with one panel per configuration: matrices, losses, assignments and feature maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, zip_longest

import numpy as np

from upcl.research.record import Record
from upcl.training.events import Event

from .charts import NEW_COLOUR, OLD_COLOUR, BarChart, Heatmap, LineChart, Number, PointGroup, ScatterChart, Series
from .figures import RunGroups

PERPLEXITY, SEED = 30, 0
MAX_CONFUSION = 1000  # classes: nobody can look at more cells than a million


def accuracy_matrix(groups: RunGroups) -> Iterator[Heatmap]:
    """Show the accuracy on the classes of each task after each task, mean over seeds.

    Args:
        groups: runs by configuration.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import StoredRun
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> [heatmap.rows for heatmap in accuracy_matrix(groups)]
        [['1', '2']]
    """
    for index, (name, runs) in enumerate(groups.items()):
        matrices = [run.record.top1_matrix.head for run in runs]
        size = min(map(len, matrices))
        values: list[list[Number]] = [
            [sum(m[t][j] for m in matrices) / len(matrices) if j <= t else None for j in range(size)]
            for t in range(size)
        ]
        names = [str(t + 1) for t in range(size)]
        yield Heatmap(f"matrix-{index}", name, "classes of task", "after task", values, names, names)


def confusion(groups: RunGroups) -> Iterator[Heatmap]:
    """Show the percentage of each class that was predicted as each class after the last task.

    Args:
        groups: runs by configuration; those with the class order of the first one are summed. Runs with more than 1,000
            classes are left out.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import StoredRun
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> (heatmap,) = confusion(groups)
        >>> heatmap.boundaries
        (2,)
    """
    for index, (name, runs) in enumerate(groups.items()):
        first = runs[0].record
        size = len(rows) if isinstance(rows := first.confusion.head, list) else 0
        if not 0 < size <= MAX_CONFUSION:
            continue
        found = [run.record.confusion.head for run in runs if run.record.class_order == first.class_order]
        same = [rows for rows in found if isinstance(rows, list) and len(rows) == size]
        counts = np.sum(same, axis=0, dtype=float)
        shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
        names = first.classes[: len(shares)]
        boundaries = tuple(accumulate(first.task_sizes))[:-1]
        title = f"{name} ({len(same)} seeds)" if len(same) > 1 else name
        values = shares.round(1).tolist()
        yield Heatmap(f"confusion-{index}", title, "predicted as", "class", values, names, names, boundaries)


def forgetting(groups: RunGroups) -> Iterator[BarChart]:
    """Show the best accuracy on each class before the last task minus its final accuracy.

    Args:
        groups: runs by configuration; the first run of each is shown.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import StoredRun
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> groups = {"iCaRL": [StoredRun(Path("runs"), record)]}
        >>> (chart,) = forgetting(groups)
        >>> len(chart.names)
        2
    """
    series: list[Series] = []
    names: list[list[str]] = []
    for colour, (name, runs) in enumerate(groups.items()):
        record = runs[0].record
        rows = record.top1_by_class.head
        if len(rows) < 2:
            continue
        lost = [_lost(rows, k) for k in range(len(rows[-2]))]
        series.append(Series(name, list(range(len(lost))), lost, colour=colour))
        names.append(record.classes[: len(lost)])
    if series:
        positions = [str(k + 1) for k in range(max(map(len, names)))]
        labels = names[0] if all(each == names[0] for each in names) else positions
        yield BarChart(
            "forgetting", "Forgetting by class", "class, in the order learned", "points lost", labels, tuple(series)
        )


def _lost(rows: Sequence[Sequence[Number]], k: int) -> Number:
    before = [value for row in rows[:-1] if len(row) > k and (value := row[k]) is not None]
    final = rows[-1][k]
    return max(before) - final if before and final is not None else None


def losses(groups: RunGroups) -> Iterator[LineChart]:
    """Show each loss term by epoch.

    Args:
        groups: runs by configuration; the first run of each is shown.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import read_runs
        >>> folder = tempfile.TemporaryDirectory()
        >>> data = "synthetic:classes=4,train=4,test=4"
        >>> record = run(Request(method="upcl", data=data, tasks=2, epochs=1, memory="4"), out=folder.name)
        >>> (stored,) = read_runs([Path(folder.name)])
        >>> (chart,) = losses({"UPCL": [stored]})
        >>> chart.boundaries
        (1.5,)
        >>> folder.cleanup()
    """
    for index, (name, runs) in enumerate(groups.items()):
        events = runs[0].events
        if not events:
            continue
        terms = list(dict.fromkeys(term for event in events for term in event.losses))
        epochs = list(range(1, len(events) + 1))
        series = tuple(
            Series(term, epochs, [event.losses.get(term) for event in events], colour=colour)
            for colour, term in enumerate(terms)
        )
        boundaries = _task_boundaries(events)
        yield LineChart(f"losses-{index}", name, "epoch", "mean loss", series, boundaries=boundaries)


def _task_boundaries(events: Sequence[Event]) -> tuple[float, ...]:
    pairs = enumerate(pairwise(events), 1)
    return tuple(at + 0.5 for at, (before, after) in pairs if before.task != after.task)


def assignment(groups: RunGroups) -> Iterator[LineChart]:
    """Show how many new classes changed their prototype in each epoch, and the cosine of centroids and prototypes.

    Args:
        groups: runs by configuration; the first run of each is shown.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import read_runs
        >>> folder = tempfile.TemporaryDirectory()
        >>> data = "synthetic:classes=4,train=4,test=4"
        >>> record = run(Request(method="upcl", data=data, tasks=2, epochs=1, memory="4"), out=folder.name)
        >>> (stored,) = read_runs([Path(folder.name)])
        >>> (chart,) = assignment({"UPCL": [stored]})
        >>> [series.name for series in chart.series]
        ['classes that changed', 'alignment']
        >>> folder.cleanup()
    """
    for index, (name, runs) in enumerate(groups.items()):
        events = [event for event in runs[0].events if event.assignment]
        if not events:
            continue
        epochs = list(range(1, len(events) + 1))
        cosines = [event.alignment for event in events]
        series = (
            Series("classes that changed", epochs, list(_changes(events)), colour=0),
            Series("alignment", epochs, cosines, colour=1, secondary=True),
        )
        yield LineChart(
            key=f"assignment-{index}",
            title=f"{name}: assignment",
            x_label="epoch",
            y_label="% of new classes",
            series=series,
            secondary_label="cosine of centroid and prototype",
            boundaries=_task_boundaries(events),
        )


def _changes(events: Sequence[Event]) -> Iterator[float]:
    """Percentage of classes whose prototype is not that of the epoch before; a task starts with the identity."""
    task, before = -1, list[int]()
    for event in events:
        current = event.assignment or []
        if event.task != task:
            task, before = event.task, list(range(len(current)))
        yield 100 * sum(a != b for a, b in zip_longest(before, current)) / max(len(before), len(current))
        before = current


def feature_map(groups: RunGroups) -> Iterator[ScatterChart]:
    """Show a t-SNE map of test features and the class vectors of the head, all normalised to unit length.

    Args:
        groups: runs by configuration; the first run of each is shown, if it has a sketch.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import read_runs
        >>> folder = tempfile.TemporaryDirectory()
        >>> data = "synthetic:classes=4,train=4,test=4"
        >>> record = run(Request(method="upcl", data=data, tasks=2, epochs=1, memory="4"), out=folder.name)
        >>> (stored,) = read_runs([Path(folder.name)])
        >>> (chart,) = feature_map({"UPCL": [stored]})
        >>> [group.name for group in chart.groups]
        ['old classes', 'new classes', 'prototypes, old', 'prototypes, new']
        >>> folder.cleanup()
    """
    from sklearn.manifold import TSNE

    for index, (name, runs) in enumerate(groups.items()):
        run, sketch = runs[0], runs[0].sketch
        if sketch is None or len(sketch["features"]) < 3:
            continue
        labels, shown = sketch["labels"], np.unique(sketch["labels"])
        rows = np.concatenate([sketch["features"], sketch["vectors"][shown]]).astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        positions = TSNE(init="pca", perplexity=perplexity, random_state=SEED).fit_transform(rows)
        yield ScatterChart(f"tsne-{index}", name, tuple(_point_groups(run.record, labels, shown, positions)))


def _point_groups(record: Record, labels: np.ndarray, shown: np.ndarray, positions: np.ndarray) -> Iterator[PointGroup]:
    num_old = len(record.classes) - record.task_sizes[-1]
    kinds = (
        ("old classes", labels < num_old, OLD_COLOUR, "circle", labels, 0),
        ("new classes", labels >= num_old, NEW_COLOUR, "circle", labels, 0),
        ("prototypes, old", shown < num_old, OLD_COLOUR, "x", shown, len(labels)),
        ("prototypes, new", shown >= num_old, NEW_COLOUR, "cross", shown, len(labels)),
    )
    for name, chosen, colour, marker, classes, offset in kinds:
        rows = positions[offset + np.flatnonzero(chosen)]
        if len(rows):
            x, y = (rows[:, axis].round(3).tolist() for axis in (0, 1))
            yield PointGroup(name, x, y, [record.classes[k] for k in classes[chosen]], colour, marker)
