from __future__ import annotations

import os
from pathlib import Path

import pytest

from upcl.data.io.paths import data_root, decoded_root, printable, printable_path


def test_data_root_prefers_the_argument_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    default = data_root()
    assert default.name == "data" and default.parent.name == "upcl"
    monkeypatch.setenv("UPCL_DATA", "~/sets")
    assert data_root() == Path.home() / "sets"
    assert data_root("here") == Path("here")


def test_decoded_images_go_below_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPCL_CACHE", "~/fast")
    assert decoded_root() == Path.home() / "fast" / "decoded"
    monkeypatch.delenv("UPCL_CACHE")
    assert decoded_root().parent.name == "upcl"


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[31mb\nc\x9b") == "a\\x1b[31mb\\nc\\x9b"
    assert printable("été [x] <b>") == "été [x] <b>"


def test_bytes_that_are_not_utf8_are_escaped() -> None:
    assert printable_path(Path(os.fsdecode(b"caf\xe9")) / "é.png") == "caf\\xe9/é.png"
    assert printable_path("a\nb") == "a\\nb"
