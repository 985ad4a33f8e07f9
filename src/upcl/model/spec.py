"""What a model is made with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.memory import Budget
from upcl.core.options import check_values, fields_of
from upcl.core.recipes import RECIPES, Recipes, split_recipe_options
from upcl.core.seeding import seed_all
from upcl.data import Transform
from upcl.data.defaults import CROP_SCALE, IMAGENET_MEAN, IMAGENET_STD, default_normalisation
from upcl.data.transforms import Flip, PadCrop, RandomResizedCrop
from upcl.methods import Method, Setting
from upcl.methods.registry import find_method, method_options
from upcl.nets.pretrained import infer_backbone, read_weights

from .bundle import Arrays, ModelSpec, ModelState

EPOCHS = 30
MEMORY = "20/class"
PROJECTOR = 256  # dimensions, where the backbone stands still
MAX_FORGETTING = 20.0  # points that old classes may lose in one step
PRETRAINED_LR = 0.01  # gentler than from the beginning
LARGEST_OWN = 64  # pixels that images are brought to where nothing else is said


@dataclass(frozen=True)
class LearnOptions:
    """What can be said when a model is made or grows; None leaves it as it is, or to the defaults."""

    method: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    backbone: str | None = None
    memory: str | None = None
    size: int | None = None
    frozen: bool = False
    epochs: int = EPOCHS
    max_forgetting: float | None = MAX_FORGETTING
    arrays: Arrays | None = None


def is_weights_file(backbone: str | None) -> bool:
    """Whether a backbone is asked for by a file of weights, not by its name."""
    return backbone is not None and (
        "/" in backbone or Path(backbone).suffix in (".safetensors", ".pt", ".pth", ".bin")
    )


def resolve_spec(asked: LearnOptions, train: Tensor, path: Path, made: ModelSpec | None) -> ModelSpec:
    """What a model is made with: as asked, else by default; what was made already stays, but for memory and frozen."""
    options = split_recipe_options(asked.options)["method"]
    if asked.memory and not Budget.parse(asked.memory).capacity(1, train[0].numel()):
        raise UserError(f"--memory {asked.memory} keeps no image, so old classes would be forgotten: say {MEMORY}")
    if made:
        method = find_package_method(made.method)
        checked = check_values(method, options, f"option of {method.name}")
        wanted = {**checked, "method": asked.method, "backbone": asked.backbone}
        has = {**made.options, "method": made.method, "backbone": made.backbone}
        for name, value in wanted.items():
            if value is not None and value not in (has[name], made.pretrained):
                raise UserError(f"{path} was made with {name} {has[name]}: that cannot change")
        return dataclasses.replace(made, memory=asked.memory or made.memory, frozen=made.frozen or asked.frozen)
    name = asked.method or "upcl"
    method = find_package_method(name)
    if asked.frozen and "projector" in fields_of(method):
        options = {"projector": PROJECTOR, **options}  # else nothing but fixed prototypes would follow the backbone
    options = method_options(name, method, options)
    if method(**options).needs_num_classes:
        raise UserError(
            f"{method.title} with these options must know the number of classes in advance, so it cannot grow from "
            "folders: choose upcl, icarl, wa, ..."
        )
    mean, std = default_normalisation(train)
    backbone = asked.backbone or ("medium" if train.shape[-1] <= LARGEST_OWN else "resnet18-7x7")
    pretrained = ""
    if is_weights_file(asked.backbone):
        pretrained = str(asked.backbone)
        backbone = infer_backbone(read_weights(Path(pretrained)), Path(pretrained))
        mean, std = IMAGENET_MEAN, IMAGENET_STD  # what such weights were learned with
    return ModelSpec(
        method=name,
        options=options,
        backbone=backbone,
        channels=train.shape[1],
        size=train.shape[-1],
        mean=mean,
        std=std,
        memory=asked.memory or MEMORY,
        pretrained=pretrained,
        frozen=asked.frozen,
        arrays=asked.arrays,
    )


def make_transform(spec: ModelSpec) -> Transform:
    crop = PadCrop(max(1, spec.size // 8)) if spec.size <= 32 else RandomResizedCrop(spec.size, scale=CROP_SCALE)
    return Transform(spec.mean, spec.std, (crop, Flip(0.5)))


def find_package_method(name: str) -> type[Method[Any]]:
    """A method of this package. A file that comes from elsewhere must not name code to run."""
    if ":" in name:
        raise UserError(f"method {name}: models in files keep to the methods that `upcl methods` lists")
    return find_method(name)


def make_method(spec: ModelSpec, num_classes: int, device: torch.device, recipes: Recipes | None = None) -> Method[Any]:
    """The method in the setting of this model, with a fresh network."""
    found = find_package_method(spec.method)
    method: Method[Any] = found(**method_options(spec.method, found, spec.options))
    quick = RECIPES["quick"]
    assert quick
    setting = Setting(
        backbone=spec.backbone,
        channels=spec.channels,
        transform=make_transform(spec),
        recipes=recipes or quick,
        budget=Budget.parse(spec.memory),
        selection="herding",
        image_shape=(spec.channels, spec.size, spec.size),
        num_classes=num_classes,
        device=device,
    )
    seed_all(spec.seed, "start")
    method.start(setting)
    return method


def restore(method: Method[Any], state: ModelState) -> None:
    memory = {"inputs": state.exemplars.inputs, "labels": state.exemplars.labels}
    method.restore({"growth": list(state.growth), "net": state.weights, "memory": memory})
    method.net.eval()


def copy_weights(method: Method[Any]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in method.net.state_dict().items()}
