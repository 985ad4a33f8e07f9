"""Where data lies: `--data-root`, else UPCL_DATA, else the platform's cache folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from upcl.core.errors import UserError

from .archives import unpack


def data_root(given: str | Path | None = None) -> Path:
    """The folder that holds data sets, one folder or archive each."""
    chosen = given or os.environ.get("UPCL_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("upcl") / "data"


def decoded_root() -> Path:
    """The folder for images that were decoded once."""
    chosen = os.environ.get("UPCL_CACHE")
    return (Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("upcl")) / "decoded"


def find_folder(root: Path, folder: str, archives: Sequence[str], what: str, how: str) -> Path:
    """A data set's folder in the root, unpacked from its archive where only that is there."""
    if (root / folder).is_dir():
        return root / folder
    for name in archives:
        if (root / name).is_file():
            return unpack(root / name, root, folder)
    raise UserError(f"{what} is not in {root}: looked for {folder}/ and {', '.join(archives)}. {how}")
