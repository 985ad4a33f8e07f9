"""Class-incremental image classification: UPCL and the methods it is compared with, under one honest protocol."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import Batch, Losses, Recipe, Recipes, Samples, Stage, Task, option
    from .data import Dataset, Transform, load_dataset
    from .errors import CheckpointError, TrainingError, UpclError, UserError
    from .estimator import GrowingClassifier
    from .learner import Learner
    from .methods import METHODS, LinearMethod, Method
    from .runs import run

__version__ = "0.1.0"

_HOME = {
    "core": ["Batch", "Losses", "Recipe", "Recipes", "Samples", "Stage", "Task", "option"],
    "data": ["Dataset", "Transform", "load_dataset"],
    "errors": ["CheckpointError", "TrainingError", "UpclError", "UserError"],
    "estimator": ["GrowingClassifier"],
    "learner": ["Learner"],
    "methods": ["METHODS", "LinearMethod", "Method"],
    "runs": ["run"],
}

__all__ = [
    "METHODS",
    "Batch",
    "CheckpointError",
    "Dataset",
    "GrowingClassifier",
    "Learner",
    "LinearMethod",
    "Losses",
    "Method",
    "Recipe",
    "Recipes",
    "Samples",
    "Stage",
    "Task",
    "TrainingError",
    "Transform",
    "UpclError",
    "UserError",
    "load_dataset",
    "option",
    "run",
]


def __getattr__(name: str) -> Any:
    """Import on first use: `upcl --help` must not wait for torch."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'upcl' has no attribute '{name}'")
