"""Checks that a method survives unusual data and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upcl.core.errors import UserError
from upcl.data import Dataset, load_dataset
from upcl.methods import MethodClass
from upcl.research.config import Request
from upcl.research.record import Record
from upcl.research.run import RunProgress, run

from .harness import QUICK, SYNTHETIC


def _run(data: str | Dataset, method: MethodClass, **changes: Any) -> Record:
    record = run(Request(method=method, data=data, **{**QUICK, "epochs": 1, **changes}))
    assert record.finished
    assert all(0 <= accuracy <= 100 for accuracy in record.top1.head)
    return record


def one_class_per_task(method: MethodClass) -> None:
    """Tasks of a single class, from the very first.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> one_class_per_task(METHODS["finetune"])
    """
    _run("synthetic:classes=4,train=8,test=4", method, tasks=4)


def one_image_in_a_class(method: MethodClass) -> None:
    """A class with a single training image.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> one_image_in_a_class(METHODS["finetune"])
    """
    dataset = load_dataset("synthetic:classes=4,train=8,test=4")
    rare = dataset.train.labels == 2
    rare[rare.nonzero()[0]] = False
    train = dataset.train[~rare]
    _run(Dataset(**{**vars(dataset), "train": train, "name": "one-image"}), method, tasks=2)


def memory_smaller_than_the_classes(method: MethodClass) -> None:
    """Fewer exemplars than classes: the run works, and the record has a note.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> memory_smaller_than_the_classes(METHODS["icarl"])
    """
    record = _run(SYNTHETIC, method, memory="4")
    enough = not method.uses_memory or record.exemplars[-1] > 4
    assert bool(record.notes) != enough, f"{record.exemplars[-1]} exemplars, notes {record.notes}"


def no_memory(method: MethodClass) -> None:
    """Without exemplars the run works, or is refused before training.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> no_memory(METHODS["bic"])  # it needs exemplars and is refused
    """
    if not method.needs_exemplars:
        _run(SYNTHETIC, method, memory="0")
        return
    try:
        run(Request(method=method, data=SYNTHETIC, **{**QUICK, "memory": "0"}), on_progress=_fail)
    except UserError:
        return
    raise AssertionError("it needs exemplars but ran without")


def _fail(_: RunProgress) -> None:
    raise AssertionError("training started")


def more_than_100_classes(method: MethodClass) -> None:
    """120 classes in 3 tasks.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> more_than_100_classes(METHODS["finetune"])  # doctest: +SKIP
    """
    _run("synthetic:classes=120,train=3,test=1", method, memory="120")


def uneven_tasks(method: MethodClass) -> None:
    """Tasks of different sizes.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> uneven_tasks(METHODS["finetune"])
    """
    _run(SYNTHETIC, method, tasks=(3, 1, 2))


def greyscale(method: MethodClass) -> None:
    """Images with one channel.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> greyscale(METHODS["finetune"])
    """
    _run(SYNTHETIC + ",channels=1", method)


EDGE_CASES: tuple[Callable[[MethodClass], None], ...] = (
    one_class_per_task,
    one_image_in_a_class,
    memory_smaller_than_the_classes,
    no_memory,
    more_than_100_classes,
    uneven_tasks,
    greyscale,
)
