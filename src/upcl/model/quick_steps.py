"""What a quick step takes from the step before, so that one click is learned at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from upcl.methods import Method

from .bundle import Bundle
from .closed_form import embeddings_of, make_classifier
from .stored_sums import GRAM


class Known(NamedTuple):
    """What a quick step takes from the step before.

    Attributes:
        strength: the regularisation.
        gram: the Gram matrix of the features that the state before learned from; None computes it.

    Example:
        >>> Known(0.01).gram is None
        True
    """

    strength: float
    gram: Tensor | None = None


def find_known(bundle: Bundle, device: torch.device) -> Known:
    """Find what quick steps need, the Gram matrix of all features included.

    Args:
        bundle: a model with a classifier in closed form that keeps features.
        device: where to compute.

    Example:
        >>> find_known(bundle, torch.device("cpu")).strength  # doctest: +SKIP
        0.01
    """
    known, spec = stored_known(bundle, device), bundle.spec
    if known.gram is not None:
        return known
    method = make_classifier(spec, len(bundle.state.classes), device)
    if gram_of_features(method) is None:
        return known
    samples = bundle.state.exemplars
    return known._replace(gram=method.net.head.measure(samples.inputs.to(device), samples.labels.to(device)).gram)


def stored_known(bundle: Bundle, device: torch.device) -> Known:
    """What quick steps need, as far as a model stores it. Only a model of an older version, which does not store the
    regularisation, cross-validates it.

    Args:
        bundle: a model with a classifier in closed form that keeps features.
        device: where to compute.

    Example:
        >>> stored_known(bundle, torch.device("cpu")).strength  # doctest: +SKIP
        0.01
    """
    state, gram = bundle.state, bundle.state.weights.get(GRAM)
    if state.strength is not None:
        return Known(state.strength, gram)
    method = make_classifier(bundle.spec, len(state.classes), device)
    embeddings = embeddings_of(method, state.exemplars.inputs.to(device))
    labels = state.exemplars.labels.to(device)
    method.net.head.statistics = method.net.head.measure(embeddings, labels)
    return Known(method.cross_validate(embeddings, labels)[0], gram_of_features(method))


def gram_of_features(method: Method[Any]) -> Tensor | None:
    """The Gram matrix of the features that a method in closed form learned from; None if it projects them.

    Args:
        method: the method.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> gram_of_features(MethodHarness(METHODS["ncm"], few_digits(1)).method).shape
        torch.Size([128, 128])
    """
    gram, dim = method.net.head.gram, method.net.backbone.dim
    return gram if gram.shape == (dim, dim) else None
