from __future__ import annotations

import logging
import warnings

import pytest

from upcl.cli.quiet import quiet_export


def test_warnings_and_logs_of_the_exporter_are_hidden_for_a_while() -> None:
    logger = logging.getLogger("torch.onnx")
    with quiet_export():
        warnings.warn("deprecated inside the exporter", stacklevel=1)  # an error, if it were not hidden
        assert not logger.isEnabledFor(logging.WARNING)
        assert logger.isEnabledFor(logging.ERROR)
    assert logger.isEnabledFor(logging.WARNING)
    with pytest.raises(UserWarning, match="afterwards"):
        warnings.warn("afterwards", stacklevel=1)


def test_state_is_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), quiet_export():
        raise ZeroDivisionError
    assert logging.getLogger("torch.onnx").isEnabledFor(logging.WARNING)
