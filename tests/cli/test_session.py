from __future__ import annotations

import logging
import warnings

import pytest

from upcl.cli.session import terminal_session
from upcl.core.progress import logger


def test_notices_are_printed_during_a_session_only(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal_session():
        logger.warning("%d files were skipped", 3)
        logger.info("not for users")
    logger.warning("after the session")
    assert capsys.readouterr() == ("", "note: 3 files were skipped\n")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]


def test_warning_on_large_images_is_hidden_during_a_session_only() -> None:
    message = "Image size (99 pixels) exceeds limit of 10 pixels, could be decompression bomb DOS attack."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with terminal_session():
            warnings.warn(message, stacklevel=1)
            warnings.warn("something else", stacklevel=1)
        warnings.warn(message, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["something else", message]


def test_warnings_of_pillow_are_hidden_during_a_session(recwarn: pytest.WarningsRecorder) -> None:
    with terminal_session():
        warnings.warn_explicit("Corrupt EXIF data", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin")
    assert not recwarn.list
