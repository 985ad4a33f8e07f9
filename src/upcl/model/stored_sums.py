"""Sums over features that a model stores, and how they change with the photos that come and go."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.closed_form import Statistics
from upcl.core.types import Samples
from upcl.methods import Method

from .bundle import Keep, ModelState
from .closed_form import Digests, photo_rows
from .spec import copy_weights

GRAM = "head.gram"
MANY = 10  # photos per dimension from which the Gram matrix is stored: it is then smaller than the features


def stored_statistics(state: ModelState, device: torch.device) -> Statistics:
    """The statistics of all photos that a state which keeps no features learned from.

    Args:
        state: the state.
        device: where to compute.

    Example:
        >>> stored_statistics(state, torch.device("cpu")).counts  # doctest: +SKIP
        tensor([8., 8.], dtype=torch.float64)
    """
    return Statistics(*(state.weights[f"head.{name}"].to(device) for name in ("gram", "sums", "counts")))


def changed_gram(
    before: ModelState | None,
    samples: Samples,
    trained: Digests,
    classes: tuple[str | None, ...],
    gram: Tensor | None = None,
) -> Tensor | None:
    """The Gram matrix of all features after a change, from the one before: only photos that came or went are computed.

    Args:
        before: the state before the change, if there is one.
        samples: features after the change, as `sort_features` orders them.
        trained: their digests.
        classes: names of the classes by label after the change.
        gram: the matrix before the change; by default the one that the state stores, if it does.

    Returns:
        The matrix (d x d); None if there is none from before.

    Example:
        >>> samples = Samples(torch.eye(2), torch.tensor([0, 1]))
        >>> changed_gram(None, samples, {"cat": ("a",), "dog": ("b",)}, ("cat", "dog")) is None
        True
    """
    known = gram if gram is not None or before is None else before.weights.get(GRAM)
    if before is None or known is None:
        return None
    old, new = photo_rows(before.trained, before.classes), photo_rows(trained, classes)
    gram = known.cpu().clone()
    for sign, features, rows in (
        (-1, before.exemplars.inputs, [row for key, row in old.items() if key not in new]),
        (1, samples.inputs, [row for key, row in new.items() if key not in old]),
    ):
        exact = F.normalize(features[rows].float()).double()
        gram.addmm_(exact.T, exact, alpha=sign)
    return gram


def weights_to_store(
    method: Method[Any], num_photos: int, keep: Keep = "features", before: ModelState | None = None
) -> dict[str, Tensor]:
    """Copy the weights of a classifier that can be computed again from stored features. The Gram matrix is left out,
    unless it is much smaller than the features.

    Args:
        method: the method.
        num_photos: number of photos whose features are stored.
        keep: with `none`, the Gram matrix is all that is left of the photos, besides class means.
        before: the state before, which has the same backbone: its tensors are shared.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> GRAM in weights_to_store(MethodHarness(METHODS["ridge"], few_digits(1)).method, num_photos=100)
        False
    """
    weights, dim = copy_weights(method), method.net.backbone.dim
    if keep != "none" and (num_photos < MANY * dim or weights[GRAM].shape != (dim, dim)):
        del weights[GRAM]
    shared = before.weights if before else {}
    return {name: shared.get(name, value) if name.startswith("backbone.") else value for name, value in weights.items()}
