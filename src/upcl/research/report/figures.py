"""Figures of runs: from records, events and sketches to charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from upcl.research.paper.uniformity import GENERATORS, Distance
from upcl.research.record import Record
from upcl.research.statistics import by_line
from upcl.training.evaluate import READINGS, ReadingName

from .charts import NEW, OLD, Bars, Cloud, Curves, Group, Heat, Line, Number
from .load import StoredRun

Lines = Mapping[str, Sequence[StoredRun]]
PERPLEXITY, SEED = 30, 0


def lines_of(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """Runs that differ only in seed and class order, as the tables name them."""
    by_id = {id(run.record): run for run in runs}
    return {name: [by_id[id(r)] for r in records] for name, records in by_line([run.record for run in runs]).items()}


def _band(name: str, colour: int, curves: Sequence[Sequence[Number]], *, second: bool = False, first: int = 1) -> Line:
    """Mean over runs at each place, with the lowest and the highest; a place where none has a value is left out."""
    length = max(map(len, curves))
    columns = [[c[t] for c in curves if t < len(c) and c[t] is not None] for t in range(length)]
    known = [[float(value) for value in column if value is not None] for column in columns]
    many = len(curves) > 1
    return Line(
        name=name,
        x=[first + t for t in range(length)],
        y=[sum(values) / len(values) if values else None for values in known],
        low=[min(values, default=None) for values in known] if many else (),
        high=[max(values, default=None) for values in known] if many else (),
        colour=colour,
        second=second,
    )


def _by_task(lines: Lines, curve: Callable[[Record], Sequence[Number] | None]) -> tuple[Line, ...]:
    """A line for each method in which the curve exists."""
    made = []
    for colour, (name, runs) in enumerate(lines.items()):
        curves = [found for run in runs if (found := curve(run.record)) is not None]
        if any(value is not None for found in curves for value in found):
            made.append(_band(name, colour, curves))
    return tuple(made)


def accuracy(lines: Lines) -> Iterator[Curves]:
    titles: dict[ReadingName, str] = {"head": "Accuracy by task: head", "nme": "Accuracy by task: nearest mean"}
    for reading in READINGS:
        found = _by_task(lines, lambda record, reading=reading: record.top1[reading])  # type: ignore[misc]
        if found:
            yield Curves(f"accuracy-{reading}", titles[reading], "task", "% right of all classes seen", found)


def old_and_new(lines: Lines) -> Iterator[Curves]:
    for part, title in (("old", "Classes of earlier tasks"), ("new", "Classes of the newest task")):
        found = _by_task(lines, lambda record, part=part: getattr(record, part).head)  # type: ignore[misc]
        if found:
            yield Curves(f"accuracy-{part}", f"{title}: head", "task", "% right", found)


def imbalance(lines: Lines) -> Iterator[Curves]:
    """Figure 1 of the paper: accuracy solid, imbalance ratio dashed on the right."""
    made = []
    for colour, (name, runs) in enumerate(lines.items()):
        ratios = [run.record.imbalance_ratio for run in runs]
        made.append(_band(name, colour, [run.record.top1.head for run in runs]))
        if any(value is not None for ratio in ratios for value in ratio):
            made.append(_band(name, colour, ratios, second=True))
    title = "Accuracy (solid) and imbalance ratio (dashed) by task"
    yield Curves("imbalance", title, "task", "% right of all classes seen", tuple(made), second="imbalance ratio")


def ratio(lines: Lines) -> Iterator[Curves]:
    found = _by_task(lines, lambda record: record.imbalance_ratio)
    if found:
        yield Curves("imbalance-ratio", "Imbalance ratio by task", "task", "largest / smallest class", found)


def coherence(lines: Lines) -> Iterator[Curves]:
    found = _by_task(lines, lambda record: record.coherence)
    if found:
        title = "Coherence: largest cosine between two classes' vectors in the head"
        yield Curves("coherence", title, "task", "cosine", found)


def time_and_memory(lines: Lines) -> Iterator[Curves]:
    yield Curves("seconds", "Time of each task", "task", "seconds", _by_task(lines, lambda record: record.seconds))
    found = _by_task(lines, lambda record: record.peak_memory_mb)
    if found:
        yield Curves("memory-peak", "Peak memory so far", "task", "MB", found)


def matrix(lines: Lines) -> Iterator[Heat]:
    """Accuracy on each task's classes after each task, mean over seeds."""
    for place, (name, runs) in enumerate(lines.items()):
        matrices = [run.record.top1_matrix.head for run in runs if run.record.top1_matrix.head]
        if not matrices:
            continue
        size = min(map(len, matrices))
        values: list[list[Number]] = [
            [sum(m[t][j] for m in matrices) / len(matrices) if j <= t else None for j in range(size)]
            for t in range(size)
        ]
        names = [str(t + 1) for t in range(size)]
        yield Heat(f"matrix-{place}", name, "classes of task", "after task", values, names, names)


def confusion(lines: Lines) -> Iterator[Heat]:
    """Percent of each true class that was taken for each class after the last task; seeds with one order together."""
    for place, (name, runs) in enumerate(lines.items()):
        first = runs[0].record
        size = len(first.confusion.head)
        equal = (first.class_order, size)
        records = [run.record for run in runs]
        same = [r for r in records if (r.class_order, len(r.confusion.head)) == equal]
        counts = np.sum([record.confusion.head for record in same], axis=0, dtype=float)
        shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
        names = first.classes[: len(shares)]
        borders = tuple(accumulate(first.task_sizes))[:-1]
        told = f"{name} ({len(same)} seeds)" if len(same) > 1 else name
        yield Heat(f"confusion-{place}", told, "taken for", "class", shares.round(1).tolist(), names, names, borders)


def forgetting(lines: Lines) -> Iterator[Bars]:
    """Best accuracy of each class before the last task, minus its accuracy now; the first run of each line."""
    made: list[Line] = []
    names: list[list[str]] = []
    for colour, (name, runs) in enumerate(lines.items()):
        record = runs[0].record
        rows = record.top1_by_class.head
        if len(rows) < 2:
            continue
        lost = []
        for k in range(len(rows[-2])):
            before, now = [value for row in rows[:-1] if len(row) > k and (value := row[k]) is not None], rows[-1][k]
            lost.append(max(before) - now if before and now is not None else None)
        made.append(Line(name, list(range(len(lost))), lost, colour=colour))
        names.append(record.classes[: len(lost)])
    if made:
        places = [str(k + 1) for k in range(max(map(len, names)))]
        told = names[0] if all(each == names[0] for each in names) else places
        yield Bars("forgetting", "Forgetting of each class", "class, as learned", "points lost", told, tuple(made))


def losses(lines: Lines) -> Iterator[Curves]:
    """Each named term over all epochs of the first run of each line."""
    for place, (name, runs) in enumerate(lines.items()):
        events = runs[0].events
        if not events:
            continue
        terms = list(dict.fromkeys(term for event in events for term in event["losses"]))
        made = tuple(
            Line(term, list(range(1, len(events) + 1)), [e["losses"].get(term) for e in events], colour=colour)
            for colour, term in enumerate(terms)
        )
        yield Curves(f"losses-{place}", name, "epoch", "mean loss", made, borders=_task_borders(events))


def _task_borders(events: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    pairs = enumerate(pairwise(events), 1)
    return tuple(at + 0.5 for at, (before, after) in pairs if before["task"] != after["task"])


def assignment(lines: Lines) -> Iterator[Curves]:
    """How many new classes own another prototype than an epoch before, and how near centroids are to their own."""
    for place, (name, runs) in enumerate(lines.items()):
        events = [event for event in runs[0].events if "assignment" in event]
        if not events:
            continue
        changes: list[Number] = []
        for before, after in zip([None, *events], events, strict=False):
            first = before is None or before["task"] != after["task"]
            earlier = list(range(len(after["assignment"]))) if first or before is None else before["assignment"]
            moved = sum(a != b for a, b in zip(earlier, after["assignment"], strict=True))
            changes.append(100 * moved / len(earlier))
        epochs = list(range(1, len(events) + 1))
        made = (
            Line("classes that changed", epochs, changes, colour=0),
            Line("nearness", epochs, [event["alignment"] for event in events], colour=1, second=True),
        )
        title, right = f"{name}: assignment", "cosine of centroid and prototype"
        yield Curves(
            f"assignment-{place}", title, "epoch", "% of new classes", made, right, borders=_task_borders(events)
        )


def feature_map(lines: Lines) -> Iterator[Cloud]:
    """t-SNE of test features and of the head's vectors, all of length one, of the first run of each line."""
    from sklearn.manifold import TSNE

    for place, (name, runs) in enumerate(lines.items()):
        run, drawn = runs[0], runs[0].sketch
        if drawn is None or len(drawn["features"]) < 3:
            continue
        labels, shown = drawn["labels"], np.unique(drawn["labels"])
        rows = np.concatenate([drawn["features"], drawn["vectors"][shown]]).astype(np.float64)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        places = TSNE(init="pca", perplexity=perplexity, random_state=SEED).fit_transform(rows)
        yield Cloud(f"tsne-{place}", name, tuple(_groups(run.record, labels, shown, places)))


def _groups(record: Record, labels: np.ndarray, shown: np.ndarray, places: np.ndarray) -> Iterator[Group]:
    num_old = len(record.classes) - record.task_sizes[-1]
    kinds = (
        ("old classes", labels < num_old, OLD, "circle", labels, 0),
        ("new classes", labels >= num_old, NEW, "circle", labels, 0),
        ("prototypes, old", shown < num_old, OLD, "x", shown, len(labels)),
        ("prototypes, new", shown >= num_old, NEW, "cross", shown, len(labels)),
    )
    for name, chosen, colour, mark, names, offset in kinds:
        rows = places[offset + np.flatnonzero(chosen)]
        words = [record.classes[k] for k in names[chosen]]
        if len(rows):
            x, y = (rows[:, axis].round(3).tolist() for axis in (0, 1))
            yield Group(name, x, y, words, colour, mark)


def over_memory(methods: Mapping[str, Sequence[Record]]) -> Iterator[Curves]:
    """A_last over the number of exemplars, a line for each method."""
    made = []
    for colour, (name, runs) in enumerate(methods.items()):
        memories = sorted({int(run.config.memory) for run in runs})
        of = {m: [run.a_last.head for run in runs if int(run.config.memory) == m] for m in memories}
        many = any(len(values) > 1 for values in of.values())
        made.append(
            Line(
                name,
                memories,
                [sum(values) / len(values) for values in of.values()],
                [min(values) for values in of.values()] if many else (),
                [max(values) for values in of.values()] if many else (),
                colour,
            )
        )
    yield Curves("over-memory", "Accuracy over memory: head", "exemplars in all", "A_last, %", tuple(made))


def uniformity(distances: Sequence[Distance]) -> Iterator[Curves]:
    """Smallest cosine distance over the number of prototypes: mean and range over draws."""
    made = []
    for colour, generator in enumerate(GENERATORS):
        own = sorted((d for d in distances if d.generator == generator), key=lambda d: d.num)
        if own:
            low, high = [d.low for d in own], [d.high for d in own]
            made.append(Line(generator, [d.num for d in own], [d.mean for d in own], low, high, colour))
    dim = distances[0].dim if distances else 0
    title = f"Smallest cosine distance of any two prototypes, {dim} dimensions"
    yield Curves("uniformity", title, "prototypes", "1 - largest cosine", tuple(made))
