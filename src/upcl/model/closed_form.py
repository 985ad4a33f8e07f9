"""Growth in closed form: a model's classifier follows from the features of all its photos, whatever their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.closed_form import Statistics
from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.methods import Method
from upcl.methods.closed_form import ClosedForm
from upcl.methods.registry import method_options

from .bundle import Bundle, Keep, ModelSpec
from .spec import AUTOMATIC_METHODS, find_package_method, make_method

MAX_RANPAC_PHOTOS = 5000
FINETUNE_PAYS = 300  # photos per class: at 150, frozen features are ahead of fine-tuning, at 450 behind
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


class Fitted(NamedTuple):
    """A classifier in closed form.

    Attributes:
        spec: what the model is made with, with the chosen method.
        method: the method.
        note: a sentence on the choice; empty if there was none.
        strength: the regularisation.

    Example:
        >>> Fitted._fields
        ('spec', 'method', 'note', 'strength')
    """

    spec: ModelSpec
    method: Method[Any]
    note: str
    strength: float


def fit_classifier(
    spec: ModelSpec,
    samples: Samples,
    num_labels: int,
    backbone: Mapping[str, Tensor],
    device: torch.device,
    gram: Tensor | None = None,
    earlier: Statistics | None = None,
    strength: float | None = None,
) -> Fitted:
    """Compute the classifier of a model from all its features, by the best method if the model is automatic.

    Args:
        spec: what the model is made with.
        samples: features of all photos, as `sort_features` orders them.
        num_labels: number of labels, removed classes included.
        backbone: weights of the frozen backbone.
        device: where to compute.
        gram: the Gram matrix of all features, if it is known.
        earlier: statistics of earlier photos whose features are not kept; the method is then fixed.
        strength: the regularisation, if it is known; the method is then fixed, and nothing is cross-validated.

    Returns:
        The method with its spec, and what was chosen.

    Example:
        >>> from upcl.nets import make_backbone
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> samples = Samples(torch.eye(128)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 1]))
        >>> backbone = make_backbone("small").state_dict()
        >>> fitted = fit_classifier(spec, samples, 2, backbone, torch.device("cpu"))
        >>> fitted.method.scores(samples.inputs).argmax(1).tolist()
        [0, 0, 1, 1]
    """
    features, labels = samples.inputs.to(device), samples.labels.to(device)
    choice = spec.automatic and earlier is None and strength is None
    candidates, found = automatic_methods(len(samples), spec.keep) if choice else (spec.method,), {}
    first, shared = None, None

    def measure(method: ClosedForm, embeddings: Tensor) -> Statistics:
        nonlocal shared
        if embeddings is not features:
            return method.net.head.measure(embeddings, labels)
        if shared is None:
            shared = method.net.head.measure(features, labels, None if gram is None else gram.to(device))
            shared = shared + _padded(earlier, num_labels) if earlier else shared
        return shared

    def few_of(method: ClosedForm) -> bool:
        return earlier is None and len(labels) < method.net.head.dim

    for name in candidates:
        chosen = dataclasses.replace(spec, method=name, options=_options(spec, name))
        method = make_classifier(chosen, num_labels, device, beside=first)
        first = first or method
        if strength is not None:
            found[name] = (strength, 1.0, chosen, method)
            continue
        embeddings = embeddings_of(method, features)
        if not few_of(method):
            method.net.head.statistics = measure(method, embeddings)
        found[name] = (*method.cross_validate(embeddings, labels, few=few_of(method)), chosen, method)
    validated = choice and bool((torch.bincount(labels) > 1).any())  # otherwise nothing was there to be recognised
    best = max(candidates, key=lambda name: found[name][1])
    best_strength, _, chosen, method = found[best]
    embeddings = embeddings_of(method, features)
    method.net.head.statistics = measure(method, embeddings)
    if few_of(method) and 2 * len(labels) < method.net.head.dim:  # else, finding what they span takes longer
        method.net.head.solution = method.solve_few(embeddings, labels, best_strength)
    else:
        method.net.head.solution = method.solve(method.net.head.statistics, best_strength)
    method.net.backbone.load_state_dict(dict(backbone))
    figures = ", ".join(f"{found[name][3].title} {100 * found[name][1]:.1f} %" for name in candidates)
    note = f"classifier: {method.title}, the best in cross-validation ({figures})" if validated else ""
    if choice and len(samples) >= FINETUNE_PAYS * len(labels.unique()):
        note += "; with so many photos, a new model with --finetune is likely to be better, after hours of training"
    return Fitted(chosen, method, note, best_strength)


def embeddings_of(method: ClosedForm, features: Tensor) -> Tensor:
    """What the head of a method in closed form sees: features themselves, which are not copied, or their projection.

    Args:
        method: the method.
        features: features of the backbone (N x d), in any precision.

    Example:
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> features = torch.zeros(1, 128)
        >>> embeddings_of(make_classifier(spec, 2, torch.device("cpu")), features) is features
        True
    """
    projector = method.net.projector
    return features if isinstance(projector, nn.Identity) else projector(features.float())


def make_classifier(
    spec: ModelSpec, num_labels: int, device: torch.device, beside: ClosedForm | None = None
) -> ClosedForm:
    """Build a method in closed form, with rows for all classes and no statistics.

    Args:
        spec: what the model is made with.
        num_labels: number of labels, removed classes included.
        device: where to compute.
        beside: another method of the model, whose backbone it shares.

    Example:
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> make_classifier(spec, 2, torch.device("cpu")).net.head.num_classes
        2
    """
    if beside is None:
        method = make_method(spec, num_labels, device)
        assert isinstance(method, ClosedForm)
    else:
        method_class = find_package_method(spec.method)
        assert issubclass(method_class, ClosedForm)
        method = method_class(**spec.options)
        method.start_beside(beside)
    method.net.grow(num_labels)
    return method


def _padded(statistics: Statistics, num_labels: int) -> Statistics:
    """Statistics with rows for new classes."""
    missing = num_labels - len(statistics.counts)
    sums, counts = F.pad(statistics.sums, (0, 0, 0, missing)), F.pad(statistics.counts, (0, missing))
    return Statistics(statistics.gram, sums, counts)


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
