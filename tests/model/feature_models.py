"""Models on features: made without photos, from random vectors in clouds."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.model.bundle import Bundle, ModelSpec
from upcl.model.intake import NewImages
from upcl.model.options import LearnOptions
from upcl.model.plan import plan_update
from upcl.model.update import apply_update

CPU = torch.device("cpu")
DIM = 128  # features of the backbone `small`
NAMES = ("ant", "bull", "cat", "dog", "eel")

Lot = Mapping[str, Sequence[int]]
"""Photos by class; a photo is a number."""
Row = tuple[Tensor, str, str]
"""Features of a photo, its class and its digest."""


def spec(method: str = "ridge", **changes: Any) -> ModelSpec:
    values: dict[str, Any] = {"frozen": True, "features": True, **changes}
    return ModelSpec(method, {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", **values)


def feature(name: str, photo: int) -> Tensor:
    """The features of a photo: those of its class, and noise."""
    generator = torch.Generator().manual_seed(1000 * NAMES.index(name) + photo)
    centre = torch.zeros(DIM)
    centre[10 * NAMES.index(name) : 10 * NAMES.index(name) + 20] = 1.0
    return (centre + 0.7 * torch.rand(DIM, generator=generator)).half()


def digest(name: str, photo: int) -> str:
    return hashlib.sha256(f"{name} {photo}".encode()).hexdigest()[:16]


def grow(bundle: Bundle | None, lot: Lot, held_out: Lot | None = None, made_with: ModelSpec | None = None) -> Bundle:
    """Learn one lot of photos."""
    train, tested = (
        [(feature(name, photo), name, digest(name, photo)) for name, photos in part.items() for photo in photos]
        for part in (lot, held_out or {})
    )
    return learn_features(bundle, train, tested, made_with or spec())


def learn_features(
    bundle: Bundle | None,
    train: Sequence[Row],
    held_out: Sequence[Row],
    made_with: ModelSpec,
    *,
    undecided: bool = False,
) -> Bundle:
    """Learn rows of features."""
    features, names, digests = _columns(train)
    tested, tested_names, tested_digests = _columns(held_out)
    images = NewImages(features, names, tested, tested_names, (digests, tested_digests), undecided=undecided)
    options = LearnOptions(max_forgetting=None)
    chosen = bundle.spec if bundle else made_with
    with tempfile.TemporaryDirectory() as folder:
        return apply_update(plan_update(Path(folder) / "model.upcl", bundle, images, options, CPU, chosen))


def _columns(rows: Sequence[Row]) -> tuple[Tensor, list[str], list[str]]:
    features = torch.stack([row for row, _, _ in rows]) if rows else torch.empty(0, DIM).half()
    return features, [name for _, name, _ in rows], [digest for _, _, digest in rows]


def weights_by_class(bundle: Bundle) -> dict[str, Tensor]:
    """Row and bias of each class, whatever the order in which they were learned."""
    state = bundle.state
    rows = torch.cat([state.weights["head.weight"], state.weights["head.bias"][:, None]], 1)
    return {name: rows[label] for label, name in enumerate(state.classes) if name is not None}


def assert_same_model(found: Bundle, expected: Bundle) -> None:
    """The same classifier for the same classes, to float error."""
    one, other = weights_by_class(found), weights_by_class(expected)
    assert one.keys() == other.keys() and found.spec.method == expected.spec.method
    for name, row in one.items():
        assert torch.allclose(row, other[name], atol=1e-6), name
