"""Class-incremental image classification: UPCL and the methods it is compared with, under one honest protocol."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upcl.core.errors import CheckpointError, TrainingError, UpclError, UserError
    from upcl.core.options import option
    from upcl.core.recipes import Recipe, Recipes
    from upcl.core.types import Batch, Losses, Samples, Stage, Task
    from upcl.data import Dataset, Transform, load_dataset
    from upcl.methods import METHODS, LinearMethod, Method
    from upcl.model.estimator import GrowingClassifier
    from upcl.model.learner import Learner
    from upcl.research.config import Request
    from upcl.research.run import run

__version__ = "0.1.0"

_MODULES = {
    "core.errors": ["CheckpointError", "TrainingError", "UpclError", "UserError"],
    "core.options": ["option"],
    "core.recipes": ["Recipe", "Recipes"],
    "core.types": ["Batch", "Losses", "Samples", "Stage", "Task"],
    "data": ["Dataset", "Transform", "load_dataset"],
    "methods": ["METHODS", "LinearMethod", "Method"],
    "model.estimator": ["GrowingClassifier"],
    "model.learner": ["Learner"],
    "research.config": ["Request"],
    "research.run": ["run"],
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
    "Request",
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
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'upcl' has no attribute '{name}'")
