"""The contract of a method as code: checks that every method passes, inside or outside of the package.

Each check runs the method on a small stream with the smallest backbone, in seconds: steps on synthetic images and on a
few real digits, whole runs on the digits, unusual settings on synthetic images.

Example:
    >>> from upcl.checks import CHECKS, check_method
    >>> sorted(CHECKS)[:2]
    ['extra_images_are_learned_or_refused on digits', 'extra_images_are_learned_or_refused on synthetic']
    >>> check_method(MyMethod)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from upcl.core.seeding import preserve_rng_state
from upcl.data import Dataset, load_dataset
from upcl.methods import MethodClass

from .contract import STEPS, WHOLE_RUNS
from .edge_cases import EDGE_CASES
from .harness import SYNTHETIC, MethodHarness, few_digits

__all__ = ["CHECKS", "MethodHarness", "check_method", "few_digits"]

STREAMS: dict[str, Callable[[], Dataset]] = {"synthetic": lambda: load_dataset(SYNTHETIC), "digits": few_digits}


def _check_on(check: Callable[[MethodClass, Dataset], None], make: Callable[[], Dataset], method: MethodClass) -> None:
    check(method, make())


CHECKS: dict[str, Callable[[MethodClass], None]] = {
    **{f"{c.__name__} on {name}": partial(_check_on, c, make) for c in STEPS for name, make in STREAMS.items()},
    **{c.__name__: partial(_check_on, c, few_digits) for c in WHOLE_RUNS},
    **{c.__name__: c for c in EDGE_CASES},
}


def check_method(method: MethodClass) -> None:
    """Run every check.

    Args:
        method: the class of the method.

    Raises:
        AssertionError: by the first check that fails, with what is wrong.

    Example:
        >>> from upcl.methods import METHODS
        >>> check_method(METHODS["icarl"])  # doctest: +SKIP
    """
    for check in CHECKS.values():
        with preserve_rng_state():
            check(method)
