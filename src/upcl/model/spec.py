"""What a model is made with: options of the user, resolved into a `ModelSpec`, and the method that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.core.budget import Budget
from upcl.core.errors import UserError
from upcl.core.options import check_values, fields_of
from upcl.core.recipes import RECIPES, Recipes, override_recipes, split_recipe_options
from upcl.data import Transform
from upcl.data.defaults import (
    DEFAULT_MEMORY,
    IMAGENET_MEAN,
    IMAGENET_STD,
    default_augmentations,
    default_backbone,
    default_channels,
    default_image_size,
    default_normalisation,
)
from upcl.data.io.listing import ImageFile
from upcl.methods import Method, Setting
from upcl.methods.registry import build_method, find_method, method_options
from upcl.nets import Execution, Precision, num_features
from upcl.nets.pretrained import infer_backbone, read_weights
from upcl.training.pretrained import find_pretrained, is_pretrained

from .bundle import ModelSpec, ModelState
from .familiarity import without_familiarity
from .options import DEFAULT_EPOCHS, LearnOptions, pretrained_choice

DEFAULT_METHOD = "upcl"
AUTOMATIC_METHODS = ("ncm", "slda", "ridge", "ranpac")  # of equals, the first is the simplest
FROZEN_PROJECTOR_DIM = 256  # of the projector that learns where the backbone is frozen
PRETRAINED_LR = 0.01  # lower than for training from scratch
PRETRAINED_SIZE = 224  # pixels: the size that pretrained networks expect


def choose_image_shape(
    options: LearnOptions, files: Sequence[ImageFile], existing: ModelSpec | None, path: Path
) -> tuple[int, int]:
    """Choose the size and the number of channels of the images.

    Args:
        options: options of the user.
        files: the readable images of the folder.
        existing: the model's spec; None for a new model.
        path: the model's file, for messages.

    Returns:
        Size in pixels, and channels.

    Raises:
        UserError: if the requested size differs from that of the existing model.

    Example:
        >>> files = [ImageFile(Path("icon.png"), "icons", "train", width=28, height=28)]
        >>> choose_image_shape(LearnOptions(), files, None, Path("model.upcl"))
        (28, 3)
    """
    if existing:
        if options.size not in (None, existing.size):
            raise UserError(
                f"{path} uses images of {existing.size} pixels, which cannot change; requested {options.size}"
            )
        return existing.size, existing.channels
    if pretrained_choice(options):
        return options.size or PRETRAINED_SIZE, 3
    return options.size or default_image_size(files), default_channels(files)


def resolve_spec(options: LearnOptions, images: Tensor, existing: ModelSpec | None, path: Path) -> ModelSpec:
    """Resolve the options of the user into a complete spec.

    Args:
        options: options of the user.
        images: training images, uint8 (N x C x size x size).
        existing: the model's spec; None for a new model.
        path: the model's file, for messages.

    Raises:
        UserError: if an option is unknown, impossible, or contradicts the existing model.

    Example:
        >>> images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
        >>> spec = resolve_spec(LearnOptions(method="icarl"), images, None, Path("model.upcl"))
        >>> spec.method, spec.backbone, spec.memory, spec.size
        ('icarl', 'medium', '20/class', 8)
    """
    if options.memory and not Budget.parse(options.memory).capacity(1, images[0].numel()):
        raise UserError(
            f"--memory {options.memory} is too small for a single image, so known classes would be forgotten: "
            f"try {DEFAULT_MEMORY}"
        )
    return updated_spec(options, existing, path) if existing else _new_spec(options, images)


def updated_spec(options: LearnOptions, existing: ModelSpec, path: Path) -> ModelSpec:
    """The spec of an existing model: memory and frozen may change, anything else must agree.

    Args:
        options: options of the user.
        existing: the model's spec.
        path: the model's file, for messages.

    Raises:
        UserError: if an option contradicts the model.

    Example:
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> updated_spec(LearnOptions(memory="5/class"), spec, Path("model.upcl")).memory
        '5/class'
    """
    method_class = find_package_method(existing.method)
    requested = check_values(
        method_class, split_recipe_options(options.options)["method"], f"option of {method_class.name}"
    )
    requested |= {"method": options.method, "backbone": options.backbone, "keep": options.keep}
    stored = {**existing.options, "method": existing.method, "backbone": existing.backbone, "keep": existing.keep}
    for name, value in requested.items():
        if value is not None and value not in (stored[name], existing.pretrained):
            raise UserError(
                f"{path}: {name} cannot change after the model was created: stored {stored[name]}, requested {value}"
            )
    frozen = existing.frozen or options.frozen
    method_class(**existing.options).check_frozen(frozen)
    return dataclasses.replace(existing, memory=options.memory or existing.memory, frozen=frozen)


def _new_spec(options: LearnOptions, images: Tensor) -> ModelSpec:
    if options.keep:
        raise UserError("--keep is for classifiers in closed form on pretrained features; others have --memory")
    name = options.method or DEFAULT_METHOD
    _, channels, _, size = images.shape
    spec = ModelSpec(
        method=name,
        options=growing_method_options(name, options),
        backbone=options.backbone or default_backbone(size),
        channels=channels,
        size=size,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        memory=options.memory or DEFAULT_MEMORY,
        frozen=options.frozen,
        arrays=options.arrays,
    )
    choice = pretrained_choice(options)
    if choice and is_pretrained(choice):
        known = find_pretrained(choice)
        return dataclasses.replace(spec, backbone=known.architecture, pretrained=choice, mean=known.mean, std=known.std)
    if choice:  # files of weights were trained with ImageNet's mean and standard deviation
        file = Path(choice)
        return dataclasses.replace(spec, backbone=infer_backbone(read_weights(file), file), pretrained=choice)
    mean, std = default_normalisation(images)
    return dataclasses.replace(spec, mean=mean, std=std)


def growing_method_options(name: str, options: LearnOptions) -> dict[str, Any]:
    """All fields of a method; methods that must know the number of classes in advance are refused.

    Args:
        name: the method's name.
        options: options of the user.

    Raises:
        UserError: if the method cannot grow, or an option is unknown.

    Example:
        >>> growing_method_options("ridge", LearnOptions(options={"penalty": 0.1}))
        {'penalty': 0.1}
    """
    method_class = find_package_method(name)
    given = split_recipe_options(options.options)["method"]
    if options.frozen and "projector" in fields_of(method_class):
        given = {"projector": FROZEN_PROJECTOR_DIM, **given}  # otherwise only fixed prototypes follow the backbone
    values = method_options(name, method_class, given)
    method = method_class(**values)
    method.check_frozen(options.frozen)
    if method.needs_num_classes:
        raise UserError(
            f"{method_class.title} with these options needs the number of classes in advance, so a model cannot grow "
            "with it: choose another method, such as upcl, icarl or wa"
        )
    return values


def resolve_recipes(options: LearnOptions, spec: ModelSpec) -> Recipes:
    """Resolve how the model is trained: the `quick` recipe with the epochs and recipe fields of the user.

    Args:
        options: options of the user.
        spec: the resolved spec; a pretrained backbone gets a lower learning rate unless it is frozen.

    Example:
        >>> images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
        >>> options = LearnOptions(epochs=3, options={"recipe.lr": 0.5})
        >>> recipes = resolve_recipes(options, resolve_spec(options, images, None, Path("model.upcl")))
        >>> recipes.first.epochs, recipes.later.lr
        (3, 0.5)
    """
    given = options.options
    if spec.pretrained and not spec.frozen:
        given = {"recipe.lr": PRETRAINED_LR, **given}
    return override_recipes(_quick_recipes(), options.epochs or DEFAULT_EPOCHS, split_recipe_options(given))


def _quick_recipes() -> Recipes:
    quick = RECIPES["quick"]
    assert quick
    return quick


def find_package_method(name: str) -> type[Method[Any]]:
    """Find a method of this package. Code outside it is refused: a model file must never name code to run.

    Args:
        name: the method's name.

    Raises:
        UserError: if the name is unknown, or has the form FILE.py:Class.

    Example:
        >>> find_package_method("icarl").title
        'iCaRL'
    """
    if ":" in name:
        raise UserError(f"method {name}: models in files are limited to the methods that `upcl methods` lists")
    return find_method(name)


def make_method(
    spec: ModelSpec,
    num_classes: int,
    device: torch.device,
    recipes: Recipes | None = None,
    precision: Precision = "float32",
) -> Method[Any]:
    """Build the method of a model with a fresh network.

    Args:
        spec: what the model is made with.
        num_classes: number of labels after the next step.
        device: where the network runs.
        recipes: how it is trained; by default the `quick` recipe.
        precision: what the backbone computes in.

    Example:
        >>> images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
        >>> spec = resolve_spec(LearnOptions(backbone="small"), images, None, Path("model.upcl"))
        >>> make_method(spec, num_classes=2, device=torch.device("cpu")).title
        'UPCL'
    """
    method_class = find_package_method(spec.method)
    shape = (num_features(spec.backbone),) if spec.features else (spec.channels, spec.size, spec.size)
    setting = Setting(
        backbone=spec.backbone,
        channels=spec.channels,
        transform=Transform(spec.mean, spec.std, default_augmentations(spec.size)),
        recipes=recipes or _quick_recipes(),
        budget=Budget.parse(spec.memory),
        selection="herding",
        image_shape=shape,
        num_classes=num_classes,
        device=device,
        execution=Execution(precision),
    )
    return build_method(method_class, method_options(spec.method, method_class, spec.options), setting, spec.seed)


def restore_state(method: Method[Any], state: ModelState) -> None:
    """Load the weights and exemplars of a state into a method.

    Args:
        method: a method built by `make_method`.
        state: the state.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> bundle = learner.require_bundle()
        >>> method = make_method(bundle.spec, num_classes=2, device=torch.device("cpu"))
        >>> restore_state(method, bundle.state)
        >>> len(method.memory.samples), copy_weights(method).keys() == bundle.state.weights.keys()
        (8, True)
    """
    memory = {"inputs": state.exemplars.inputs, "labels": state.exemplars.labels}
    method.restore({"growth": list(state.growth), "net": without_familiarity(state.weights), "memory": memory})
    method.net.eval()


def copy_weights(method: Method[Any]) -> dict[str, Tensor]:
    """Copy the parameters and buffers of a method's network to the CPU.

    Args:
        method: the method.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> sorted(copy_weights(MethodHarness(METHODS["finetune"], few_digits(1)).method))[-2:]
        ['head.bias', 'head.weight']
    """
    return {name: value.detach().cpu().clone() for name, value in method.net.state_dict().items()}
