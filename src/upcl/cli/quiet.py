"""Silence for third-party warnings that users can do nothing about."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_export() -> Iterator[None]:
    """Hide what PyTorch's exporter reports about its own deprecations and about optional packages.

    Example:
        >>> with quiet_export():
        ...     warnings.warn("deprecated inside the exporter")
    """
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
