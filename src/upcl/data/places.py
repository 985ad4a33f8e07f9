"""Where data lies: `--data-root`, else UPCL_DATA, else the platform's cache folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from ..errors import UserError


def data_root(given: str | Path | None = None) -> Path:
    """The folder that holds data sets, one folder or archive each."""
    chosen = given or os.environ.get("UPCL_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("upcl") / "data"


def decoded_root() -> Path:
    """The folder for images that were decoded once."""
    chosen = os.environ.get("UPCL_CACHE")
    return (Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("upcl")) / "decoded"


def find_folder(root: Path, names: Sequence[str], what: str, how: str) -> Path:
    """The first of these folders that is in the root; an error says where it was looked for and how to get it."""
    for name in names:
        if (root / name).is_dir():
            return root / name
    raise UserError(f"{what} is not in {root}: looked for {', '.join(names)}. {how}")
