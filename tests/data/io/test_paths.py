from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from upcl.core.errors import UserError
from upcl.data.io.paths import data_root, decoded_root, expand_home, printable_path


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


def test_bytes_that_are_not_utf8_are_escaped() -> None:
    assert printable_path(Path(os.fsdecode(b"caf\xe9")) / "é.png") == "caf\\xe9/é.png"
    assert printable_path("a\nb") == "a\\nb"


def test_home_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(UserError, match="~nosuchuser/x: there is no home directory ~nosuchuser; write the path"):
        expand_home("~nosuchuser/x")
    assert expand_home("~/x") == Path.home() / "x"


@pytest.mark.parametrize("found", [RuntimeError("no home"), Path("~/.cache/upcl")])  # by version of platformdirs
def test_without_a_home_directory_the_variable_is_named(
    found: RuntimeError | Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def user_cache_path(_name: str) -> Path:
        if isinstance(found, RuntimeError):
            raise found
        return found

    monkeypatch.setattr(platformdirs, "user_cache_path", user_cache_path)
    for variable, folder in (("UPCL_DATA", data_root), ("UPCL_CACHE", decoded_root)):
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(UserError, match=f"there is no home directory to keep data in: set .{variable} to a folder"):
            folder()
