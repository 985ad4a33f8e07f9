"""The plan of an update: options resolved and images sorted, before anything is trained or written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.identity import json_sha256
from upcl.core.recipes import Recipes
from upcl.core.types import Task
from upcl.nets import Precision
from upcl.training.precision import choose_precision, stored_precision

from .bundle import Bundle, HistoryEntry, ModelSpec, ModelState
from .intake import Intake, NewImages, sort_images
from .options import LearnOptions
from .spec import find_package_method, make_method, resolve_recipes, resolve_spec


@dataclass(frozen=True, eq=False)
class UpdatePlan:
    """Everything that determines an update, checked before anything is trained or written.

    Attributes:
        path: the model's file.
        bundle: the model as it is; None for a new model.
        spec: what the model is made with.
        recipes: how it is trained.
        intake: the new images, sorted.
        max_forgetting: accepted drop of accuracy on known classes, in percentage points; None accepts any.
        device: where training runs.
        precision: what the backbone computes in.

    Example:
        >>> pixels = torch.arange(2 * 64, dtype=torch.uint8).view(2, 1, 8, 8)
        >>> images = NewImages(pixels, ["cat", "dog"], pixels[:0], [])
        >>> plan = plan_update(Path("pets.upcl"), None, images, LearnOptions(), torch.device("cpu"))
        >>> plan.before, plan.task.num_old, plan.task.num_new
        (None, 0, 2)
    """

    path: Path
    bundle: Bundle | None
    spec: ModelSpec
    recipes: Recipes
    intake: Intake
    max_forgetting: float | None
    device: torch.device
    precision: Precision = "float32"

    @property
    def before(self) -> ModelState | None:
        """The state that the update starts from."""
        return self.bundle.state if self.bundle else None

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """The steps so far."""
        return self.bundle.history if self.bundle else ()

    @property
    def work_folder(self) -> Path:
        """Folder next to the model with the checkpoints of an interrupted or rejected update."""
        return work_folder(self.path)

    @property
    def task(self) -> Task:
        """The images as a task: new classes, and additional images of known ones."""
        index = len(self.before.growth) if self.before else 0
        return Task(index, self.intake.num_old, self.intake.num_new, self.intake.train, self.intake.extra)


def check_options(
    path: Path, existing: ModelSpec | None, shape: tuple[int, int], options: LearnOptions, device: torch.device
) -> None:
    """Check the options of an update before images are decoded and anything is written.

    Args:
        path: the model's file, for messages.
        existing: the model's spec; None for a new model.
        shape: size and channels of the images.
        options: options of the user.
        device: where training runs.

    Raises:
        UserError: if an option is unknown, impossible, or contradicts the existing model.

    Example:
        >>> check_options(Path("pets.upcl"), None, (8, 1), LearnOptions(backbone="smal"), torch.device("cpu"))
        Traceback (most recent call last):
        ...
        upcl.core.errors.UserError: unknown backbone 'smal': did you mean small?
    """
    size, channels = shape
    spec = resolve_spec(options, torch.zeros(1, channels, size, size, dtype=torch.uint8), existing, path)
    recipes = resolve_recipes(options, spec)
    if existing is None:
        make_method(spec, 1, device, recipes)


def plan_update(
    path: Path,
    bundle: Bundle | None,
    images: NewImages,
    options: LearnOptions,
    device: torch.device,
    spec: ModelSpec | None = None,
) -> UpdatePlan:
    """Resolve options and sort images, without training or writing anything.

    Args:
        path: the model's file.
        bundle: the model as it is; None for a new model.
        images: images offered to the model.
        options: options of the user.
        device: where training runs.
        spec: what the model is made with, if the images are features; otherwise it is resolved from the images.

    Raises:
        NothingNewError: if the model already has all images.
        UserError: if an option is wrong, or the method cannot learn more images of known classes.

    Example:
        >>> pixels = torch.arange(4 * 64, dtype=torch.uint8).view(4, 1, 8, 8)
        >>> images = NewImages(pixels[:3], ["cat", "dog", "cat"], pixels[3:], ["dog"])
        >>> options = LearnOptions(epochs=1, backbone="small")
        >>> plan = plan_update(Path("pets.upcl"), None, images, options, torch.device("cpu"))
        >>> plan.intake.added, plan.spec.size, plan.task.num_new, plan.work_folder.name
        (('cat', 'dog'), 8, 2, 'pets.upcl.work')
    """
    spec = spec or resolve_spec(options, images.train, bundle.spec if bundle else None, path)
    recipes = resolve_recipes(options, spec)
    intake = sort_images(images, bundle.state if bundle else None)
    _check_extra_is_accepted(spec, intake)
    plan = UpdatePlan(path, bundle, spec, recipes, intake, options.max_forgetting, device)
    precision = stored_precision(plan.work_folder) or choose_precision(device, spec.size)
    return dataclasses.replace(plan, precision=precision)


def _check_extra_is_accepted(spec: ModelSpec, intake: Intake) -> None:
    method_class = find_package_method(spec.method)
    if len(intake.extra) and not method_class.accepts_extra():
        names = ", ".join(list(intake.extra_counts)[:5])
        raise UserError(
            f"{method_class.title} keeps no exemplars, so it cannot learn more images of known classes ({names}): "
            "pass folders of new classes only"
        )


@dataclass(frozen=True)
class UpdateIdentity:
    """What identifies an update: the same model, images and options resume the same interrupted training.

    Attributes:
        content: the identifying values.

    Example:
        >>> before, after = UpdateIdentity({"model": 0}), UpdateIdentity({"model": 1})
        >>> before.digest() == after.digest()
        False
    """

    content: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        value: dict[str, Any] = json.loads(json.dumps(self.content))
        return value

    def digest(self) -> str:
        """Return the SHA-256 of the values."""
        return json_sha256(self.to_json())


def work_folder(path: Path) -> Path:
    """The folder next to a model with the checkpoints of an interrupted or rejected update.

    Args:
        path: the model's file.

    Example:
        >>> work_folder(Path("pets.upcl")).name
        'pets.upcl.work'
    """
    return path.with_name(path.name + ".work")


IDENTITY_KEYS = {"model", "spec", "recipes", "precision", "images", "before"}


def identify(plan: UpdatePlan) -> UpdateIdentity:
    """Identify an update by the model's weights, the images, the spec and the recipes.

    Args:
        plan: the update.

    Example:
        >>> from upcl.model.intake import NewImages
        >>> images = torch.arange(8 * 64, dtype=torch.uint8).view(8, 1, 8, 8)
        >>> new = NewImages(images, ["cat", "dog"] * 4, images[:0], [])
        >>> options = LearnOptions(backbone="small")
        >>> plans = [plan_update(Path("pets.upcl"), None, new, options, torch.device("cpu")) for _ in range(2)]
        >>> identify(plans[0]).digest() == identify(plans[1]).digest()
        True
    """
    weights = plan.before.weights if plan.before else {}
    parts = (plan.intake.train, plan.intake.extra)
    return UpdateIdentity(
        {
            "model": len(plan.history),
            "spec": dataclasses.asdict(plan.spec),
            "recipes": dataclasses.asdict(plan.recipes),
            "precision": plan.precision,
            "images": _sha256(tensor for part in parts for tensor in (part.inputs, part.labels)),
            "before": _sha256(weights[name] for name in sorted(weights)),  # a file may list them in any order
        }
    )


def _sha256(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()
