"""The model card: what a model knows, how well, and where it fails, as a Markdown document (Mitchell et al., 2019)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from scipy.stats import binomtest

from upcl.core.text import printable
from upcl.methods import METHODS

from .bundle import Bundle
from .update import utc_now

FEW_PHOTOS = 10  # of a class: with fewer, the card warns
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#])")


def write_card(bundle: Bundle, path: Path) -> str:
    """Describe a model.

    Args:
        bundle: the model.
        path: its file, whose name is the title.

    Returns:
        The card in Markdown.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> from upcl.model.bundle import HistoryEntry, ModelSpec, ModelState
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> state = ModelState({}, growth=(2,), classes=("cat", "dog"), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> card = write_card(Bundle(spec, (HistoryEntry("2026-01-01"),), {0: state}), Path("pets.upcl"))
        >>> card.splitlines()[0]
        '# pets'
    """
    return "\n".join(_lines(bundle, path)) + "\n"


def accuracy_interval(percent: float, num_images: int) -> tuple[float, float]:
    """The 95 % interval of an accuracy (Wilson's), in percent.

    Args:
        percent: the measured accuracy.
        num_images: number of images that it was measured on.

    Example:
        >>> [round(bound, 1) for bound in accuracy_interval(90.0, num_images=50)]
        [78.6, 95.7]
    """
    found = binomtest(round(percent * num_images / 100), num_images).proportion_ci(method="wilson")
    return 100 * float(found.low), 100 * float(found.high)


def _lines(bundle: Bundle, path: Path) -> Iterator[str]:
    spec, state, entry = bundle.spec, bundle.state, bundle.history[-1]
    yield f"# {_text(path.stem)}"
    yield ""
    yield f"An image classifier for {len(state.class_names)} classes, described on {utc_now()[:10]}."
    yield ""
    yield "## Data"
    yield ""
    num = sum(map(len, state.trained.values()))
    yield f"Learned from {num} photos in {len(bundle.history)} steps, the last on {entry.when[:10]}."
    yield ""
    tested = state.held_out.counts(len(state.classes)).tolist()
    rows = [
        (_text(name), str(len(state.trained.get(name, ()))), str(tested[label]), _percent(entry.by_class.get(name)))
        for label, name in enumerate(state.classes)
        if name is not None
    ]
    yield from _table(("class", "photos learned", "photos held out", "accuracy"), rows)
    yield ""
    yield "## Accuracy"
    yield ""
    yield from _accuracy(bundle)
    yield ""
    yield "## Limits"
    yield ""
    yield from (f"- {limit}" for limit in _limits(bundle))
    yield ""
    yield "## How it was made"
    yield ""
    origin = f"pretrained ({_text(spec.pretrained)})" if spec.pretrained else "trained from scratch"
    yield f"- method: {METHODS[spec.method].title if spec.method in METHODS else _text(spec.method)}"
    yield f"- network: {spec.backbone}, {origin}{', frozen' if spec.frozen else ''}"
    yield f"- input: {spec.size} x {spec.size} pixels, the central square of a photo"
    if bundle.written_by:
        yield f"- written by: {_text(', '.join(f'{name} {version}' for name, version in bundle.written_by.items()))}"


def _accuracy(bundle: Bundle) -> Iterator[str]:
    state, calibration = bundle.state, bundle.state.calibration
    accuracy = bundle.history[-1].accuracy.get(state.reading)
    if accuracy is None or not calibration.num_images:
        yield "Not measured: no photo was held out."
        return
    low, high = accuracy_interval(accuracy, calibration.num_images)
    yield (
        f"{accuracy:.1f} % of {calibration.num_images} held-out photos, which were never learned from (95 % interval "
        f"{low:.1f} to {high:.1f} %). Confidence differs from accuracy by {100 * calibration.calibration_error:.1f} "
        "points on average (expected calibration error)."
    )


def _limits(bundle: Bundle) -> Iterator[str]:
    state, calibration = bundle.state, bundle.state.calibration
    yield "Measured on photos from the same folders: photos from other cameras or places may be recognised worse."
    if calibration.auroc is not None:
        yield (
            f'Photos of other things are called "none of these" with an AUROC of {calibration.auroc:.2f}, measured on '
            f"classes left out; {100 * calibration.false_alarm_rate:.1f} % of known things are, too."
        )
    else:
        yield 'How well "none of these" works was not measured.'
    if few := [name for name in state.class_names if len(state.trained.get(name, ())) < FEW_PHOTOS]:
        yield f"Fewer than {FEW_PHOTOS} photos were learned of: {_text(', '.join(few))}."
    by_class = bundle.history[-1].by_class
    known = {name: value for name, value in by_class.items() if value is not None}
    worst = min(known, key=lambda name: known[name], default="")
    if worst and known[worst] < 100:
        yield f"Recognised least: {_text(worst)} ({known[worst]:.0f} % of its held-out photos)."
    yield "Only the central square of a photo is seen, and one class is named per photo."


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def _text(text: str) -> str:
    """A text from elsewhere, without meaning in Markdown or HTML."""
    return _MARKUP.sub(r"\\\1", printable(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")
