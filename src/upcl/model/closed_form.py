"""Growth in closed form: a model's classifier follows from the features of all its photos, whatever their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.closed_form import Statistics
from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.methods import Method
from upcl.methods.closed_form import ClosedForm
from upcl.methods.registry import method_options

from .bundle import Bundle, Keep, ModelSpec, ModelState
from .spec import AUTOMATIC_METHODS, copy_weights, find_package_method, make_method

MAX_RANPAC_PHOTOS = 5000
MANY = 10  # photos per dimension from which the Gram matrix is stored: it is then smaller than the features
FINETUNE_PAYS = 300  # photos per class: at 150, frozen features are ahead of fine-tuning, at 450 behind
GRAM = "head.gram"
Digests = dict[str, tuple[str, ...]]
"""Digests of the photos that a model learned from or holds out, by class."""


def is_closed_form(spec: ModelSpec) -> bool:
    """Whether the classifier of a model is computed, not trained, from stored features.

    Args:
        spec: what the model is made with.

    Example:
        >>> is_closed_form(ModelSpec("upcl", {}, "small", 1, 8, mean=(0.5,), std=(0.2,), memory="20/class"))
        False
    """
    return spec.features and issubclass(find_package_method(spec.method), ClosedForm)


def require_features(bundle: Bundle) -> None:
    """Refuse to take something out of a model that keeps no features.

    Args:
        bundle: the model.

    Raises:
        UserError: if it was made with `--keep none`.

    Example:
        >>> require_features(Bundle(ModelSpec("ncm", {}, "small", 3, 8, (0.5,), (0.2,), "1", keep="none"), (), {}))
        Traceback (most recent call last):
        upcl.core.errors.UserError: this model keeps no features (--keep none), so that nothing can be taken out ...
    """
    if bundle.spec.keep == "none":
        raise UserError(
            "this model keeps no features (--keep none), so that nothing can be taken out of its sums or moved: learn "
            "a new model"
        )


def sort_features(samples: Samples, trained: Digests, classes: tuple[str | None, ...]) -> tuple[Samples, Digests]:
    """Bring features into the order of their classes and digests, so that it does not matter when they were learned.

    Args:
        samples: features; those of a class are in the order of its digests.
        trained: the digests.
        classes: names of the classes by label; None for a removed class.

    Returns:
        The features and the digests in the new order.

    Example:
        >>> samples = Samples(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1, 0, 1]))
        >>> ordered, digests = sort_features(samples, {"cat": ("c",), "dog": ("b", "a")}, ("cat", "dog"))
        >>> ordered.inputs[:, 0].tolist(), digests["dog"]
        ([2.0, 3.0, 1.0], ('a', 'b'))
    """
    rows, ordered = [], {}
    for members, name in zip(samples.rows_by_class(len(classes)), classes, strict=False):
        if name is not None:
            pairs = sorted(zip(trained.get(name, ()), members.tolist(), strict=True))
            ordered[name] = tuple(digest for digest, _ in pairs)
            rows += [row for _, row in pairs]
    return samples[torch.tensor(rows, dtype=torch.int64)], ordered


def fit_classifier(
    spec: ModelSpec,
    samples: Samples,
    num_labels: int,
    backbone: Mapping[str, Tensor],
    device: torch.device,
    gram: Tensor | None = None,
    earlier: Statistics | None = None,
) -> tuple[ModelSpec, Method[Any], str]:
    """Compute the classifier of a model from all its features, by the best method if the model is automatic.

    Args:
        spec: what the model is made with.
        samples: features of all photos, as `sort_features` orders them.
        num_labels: number of labels, removed classes included.
        backbone: weights of the frozen backbone.
        device: where to compute.
        gram: the Gram matrix of all features, if it is known.
        earlier: statistics of earlier photos whose features are not kept; the method is then fixed.

    Returns:
        The spec with the chosen method, the method, and a sentence on the choice (empty if there was none).

    Example:
        >>> from upcl.nets import make_backbone
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> samples = Samples(torch.eye(128)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 1]))
        >>> backbone = make_backbone("small").state_dict()
        >>> _, method, _ = fit_classifier(spec, samples, 2, backbone, torch.device("cpu"))
        >>> method.scores(samples.inputs).argmax(1).tolist()
        [0, 0, 1, 1]
    """
    features, labels = samples.inputs.to(device).float(), samples.labels.to(device)
    shared: Statistics | None = None
    choice = spec.automatic and earlier is None
    candidates, found = automatic_methods(len(samples), spec.keep) if choice else (spec.method,), {}
    for name in candidates:
        chosen = dataclasses.replace(spec, method=name, options=_options(spec, name))
        method = make_method(chosen, num_labels, device)
        assert isinstance(method, ClosedForm)
        method.net.grow(num_labels)
        embeddings = method.net.projector(features)
        if embeddings is not features:
            method.net.head.statistics = method.net.head.measure(embeddings, labels)
        else:  # several methods share them
            if shared is None:
                shared = method.net.head.measure(features, labels, None if gram is None else gram.to(device))
                shared = shared + _padded(earlier, num_labels) if earlier else shared
            method.net.head.statistics = shared
        strength, accuracy = method.cross_validate(embeddings, labels)
        found[name] = (accuracy, strength, chosen, method)
    best = max(candidates, key=lambda name: found[name][0])
    _, strength, chosen, method = found[best]
    method.net.head.solution = method.solve(method.net.head.statistics, strength)
    method.net.backbone.load_state_dict(dict(backbone))
    figures = ", ".join(f"{found[name][3].title} {100 * found[name][0]:.1f} %" for name in candidates)
    note = f"classifier: {method.title}, the best in cross-validation ({figures})" if choice else ""
    if choice and len(samples) >= FINETUNE_PAYS * len(labels.unique()):
        note += "; with so many photos, a new model with --finetune is likely to be better, after hours of training"
    return chosen, method, note


def _padded(statistics: Statistics, num_labels: int) -> Statistics:
    """Statistics with rows for new classes."""
    missing = num_labels - len(statistics.counts)
    sums, counts = F.pad(statistics.sums, (0, 0, 0, missing)), F.pad(statistics.counts, (0, missing))
    return Statistics(statistics.gram, sums, counts)


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


def automatic_methods(num_photos: int, keep: Keep = "features") -> tuple[str, ...]:
    """The methods in closed form that an automatic model chooses from.

    Args:
        num_photos: number of photos to learn from; RanPAC takes minutes with many of them.
        keep: what is kept of them; the sums of RanPAC alone would take 200 MB.

    Example:
        >>> automatic_methods(1_000), automatic_methods(100_000)
        (('ncm', 'slda', 'ridge', 'ranpac'), ('ncm', 'slda', 'ridge'))
    """
    few = num_photos <= MAX_RANPAC_PHOTOS and keep != "none"
    return tuple(name for name in AUTOMATIC_METHODS if name != "ranpac" or few)


def _options(spec: ModelSpec, name: str) -> dict[str, Any]:
    given = {} if spec.automatic else spec.options
    return method_options(name, find_package_method(name), given)


def changed_gram(
    before: ModelState | None, samples: Samples, trained: Digests, classes: tuple[str | None, ...]
) -> Tensor | None:
    """The Gram matrix of all features after a change, from the one that a state stores: only photos that came or went
    are computed.

    Args:
        before: the state before the change, if there is one.
        samples: features after the change, as `sort_features` orders them.
        trained: their digests.
        classes: names of the classes by label after the change.

    Returns:
        The matrix (d x d); None if the state stores none.

    Example:
        >>> samples = Samples(torch.eye(2), torch.tensor([0, 1]))
        >>> changed_gram(None, samples, {"cat": ("a",), "dog": ("b",)}, ("cat", "dog")) is None
        True
    """
    if before is None or GRAM not in before.weights:
        return None
    old, new = photo_rows(before.trained, before.classes), photo_rows(trained, classes)
    gram = before.weights[GRAM].clone()
    for sign, features, rows in (
        (-1, before.exemplars.inputs, [row for key, row in old.items() if key not in new]),
        (1, samples.inputs, [row for key, row in new.items() if key not in old]),
    ):
        exact = F.normalize(features[rows].float()).double()
        gram.addmm_(exact.T, exact, alpha=sign)
    return gram


def photo_rows(trained: Digests, classes: tuple[str | None, ...]) -> dict[tuple[str, str], int]:
    """Where the features of each photo are, in the order of `sort_features`.

    Args:
        trained: digests of photos by class.
        classes: names of the classes by label; None for a removed class.

    Returns:
        Rows by class and digest.

    Example:
        >>> photo_rows({"cat": ("a", "b"), "dog": ("c",)}, ("dog", None, "cat"))
        {('dog', 'c'): 0, ('cat', 'a'): 1, ('cat', 'b'): 2}
    """
    keys = [(name, digest) for name in classes if name is not None for digest in trained.get(name, ())]
    return {key: row for row, key in enumerate(keys)}


def weights_to_store(method: Method[Any], num_photos: int, keep: Keep = "features") -> dict[str, Tensor]:
    """Copy the weights of a classifier that can be computed again from stored features. The Gram matrix is left out,
    unless it is much smaller than the features.

    Args:
        method: the method.
        num_photos: number of photos whose features are stored.
        keep: with `none`, the Gram matrix is all that is left of the photos, besides class means.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> GRAM in weights_to_store(MethodHarness(METHODS["ridge"], few_digits(1)).method, num_photos=100)
        False
    """
    weights, dim = copy_weights(method), method.net.backbone.dim
    if keep != "none" and (num_photos < MANY * dim or weights[GRAM].shape != (dim, dim)):
        del weights[GRAM]
    return weights
