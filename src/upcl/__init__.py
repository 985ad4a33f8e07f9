"""Class-incremental image classification: UPCL and the methods it is compared with, under one honest protocol.

For experiments, `run` takes a `Request` and returns a `Record`; `Method` is the base class of every method, and
`METHODS` lists them. For photos, `Learner` is a model in one file that keeps learning, and `GrowingClassifier` the same
model with the interface of scikit-learn.

Names are imported on first use, so that `import upcl` does not load torch.

Example:
    >>> from upcl import Request, run
    >>> record = run(Request(method="finetune", data="synthetic:classes=4,train=8,test=4", tasks=2, epochs=1))
    >>> len(record.top1.head)
    2
"""

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
    from upcl.research.record import Record
    from upcl.research.run import run

__version__ = "0.1.0"

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
    "Record",
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
    "research.record": ["Record"],
    "research.run": ["run"],
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module 'upcl' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
