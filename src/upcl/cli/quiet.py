"""Silence for third-party warnings that users can do nothing about."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_export() -> Iterator[None]:
    """Hide what exporters report about their own deprecations, optional packages and further steps.

    Example:
        >>> with quiet_export():
        ...     warnings.warn("deprecated inside the exporter")
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
