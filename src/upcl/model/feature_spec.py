"""What a model that works on features of a frozen pretrained network is made with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from upcl.core.errors import UserError
from upcl.data.defaults import DEFAULT_MEMORY, IMAGENET_MEAN, IMAGENET_STD
from upcl.methods.closed_form import ClosedForm
from upcl.nets.pretrained import infer_backbone, read_weights
from upcl.training.pretrained import find_pretrained, is_pretrained

from .bundle import ModelSpec
from .options import MIN_PRETRAINED_SIDE, LearnOptions, pretrained_choice
from .spec import AUTOMATIC_METHODS, PRETRAINED_SIZE, find_package_method, growing_method_options, updated_spec


def feature_spec(options: LearnOptions, existing: ModelSpec | None, path: Path) -> ModelSpec:
    """The spec of a model that works on features of a frozen pretrained backbone.

    Args:
        options: options of the user.
        existing: the model's spec; None for a new model.
        path: the model's file, for messages.

    Raises:
        UserError: if an option is unknown, impossible, or contradicts the existing model.

    Example:
        >>> feature_spec(LearnOptions(), None, Path("model.upcl")).method  # doctest: +SKIP
        'ncm'
    """
    if existing:
        _check_feature_options(options, existing, path)
        spec = updated_spec(options, _pinned_spec(options, existing), path)
        _check_nothing_is_trained(options, spec.method)
        return spec
    choice = pretrained_choice(options, MIN_PRETRAINED_SIDE)
    assert choice is not None
    automatic = options.method is None
    method = options.method or AUTOMATIC_METHODS[0]
    if options.keep == "none" and (method == "ranpac" or not issubclass(find_package_method(method), ClosedForm)):
        raise UserError(f"--keep none works with ncm, slda and ridge; {method} needs what it learned from")
    _check_nothing_is_trained(options, method)
    known = find_pretrained(choice) if is_pretrained(choice) else None
    file = Path(choice)
    return ModelSpec(
        method=method,
        options=growing_method_options(method, dataclasses.replace(options, frozen=True)),
        backbone=known.architecture if known else infer_backbone(read_weights(file), file),
        channels=3,
        size=options.size or (known.size if known else PRETRAINED_SIZE),
        mean=known.mean if known else IMAGENET_MEAN,
        std=known.std if known else IMAGENET_STD,
        memory=options.memory or DEFAULT_MEMORY,
        pretrained=choice,
        frozen=True,
        features=True,
        automatic=automatic,
        keep=options.keep or "features",
        arrays=options.arrays,
    )


def _check_feature_options(options: LearnOptions, existing: ModelSpec, path: Path) -> None:
    """Refuse what a model that stores features cannot do, instead of ignoring it."""
    if options.finetune:
        raise UserError(
            f"{path} stores features of a frozen network, so --finetune cannot be added: learn a new model from all "
            "photos with --finetune"
        )
    if options.size not in (None, existing.size):
        raise UserError(
            f"{path} uses images of {existing.size} pixels, which cannot change: leave out --size {options.size}, or "
            "learn a new model"
        )


def _check_nothing_is_trained(options: LearnOptions, method: str) -> None:
    """Refuse options of training for a classifier that is computed."""
    given = [f"--{name}" for name in ("epochs", "memory") if getattr(options, name) is not None]
    if given and issubclass(find_package_method(method), ClosedForm):
        raise UserError(
            f"{' and '.join(given)}: a classifier in closed form is computed from all photos, not trained. Leave the "
            "option out, or train a method on the features of a new model, with --method upcl for example"
        )


def _pinned_spec(options: LearnOptions, existing: ModelSpec) -> ModelSpec:
    """With another method in closed form, which needs nothing but what the model stores."""
    if options.method is None or not existing.features:
        return existing
    methods = [find_package_method(name) for name in (existing.method, options.method)]
    same = existing.method == options.method and not existing.automatic
    if same or not all(issubclass(method, ClosedForm) for method in methods):
        return existing
    if existing.keep == "none" and options.method == "ranpac":
        raise UserError("ranpac needs the features of all photos, but this model keeps only sums (--keep none)")
    values = growing_method_options(options.method, dataclasses.replace(options, frozen=True))
    return dataclasses.replace(existing, method=options.method, options=values, automatic=False)
