"""Where data sets and decoded images are stored, and how paths are printed."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from upcl.core.errors import UserError
from upcl.core.text import printable


def data_root(given: str | Path | None = None) -> Path:
    """Folder that holds the data sets: `given`, else `$UPCL_DATA`, else a folder in the platform's cache.

    Args:
        given: the folder chosen by the user, if any.

    Example:
        >>> data_root("/mnt/data").as_posix()
        '/mnt/data'
    """
    chosen = given or os.environ.get("UPCL_DATA")
    return expand_home(chosen) if chosen else _platform_cache("UPCL_DATA") / "data"


def cache_root() -> Path:
    """Folder of what can be computed again: `$UPCL_CACHE`, else a folder in the platform's cache.

    Example:
        >>> decoded_root().parent == cache_root()
        True
    """
    chosen = os.environ.get("UPCL_CACHE")
    return expand_home(chosen) if chosen else _platform_cache("UPCL_CACHE")


def _platform_cache(variable: str) -> Path:
    try:
        path = platformdirs.user_cache_path("upcl")
    except RuntimeError:
        path = Path("~")
    if not path.is_absolute():  # older versions of platformdirs return ~ as it is
        raise UserError(f"there is no home directory to keep data in: set ${variable} to a folder")
    return path


def expand_home(path: str | Path) -> Path:
    """Replace `~` or `~user` at the beginning of a path by a home directory.

    Args:
        path: any path.

    Raises:
        UserError: if there is no such user, or no home directory.

    Example:
        >>> expand_home("/mnt/data").as_posix()
        '/mnt/data'
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        name = printable_path(Path(path).parts[0])
        raise UserError(f"{printable_path(path)}: there is no home directory {name}; write the path in full") from None


def decoded_root() -> Path:
    """Folder that caches decoded images, below `cache_root`.

    Example:
        >>> decoded_root().name
        'decoded'
    """
    return cache_root() / "decoded"


def printable_path(path: str | Path) -> str:
    r"""Path that is safe to print, even if its bytes are not UTF-8 or contain terminal control sequences.

    Args:
        path: any path, or a part of one.

    Example:
        >>> printable_path(os.fsdecode(b"caf\xe9.jpg"))
        'caf\\xe9.jpg'
    """
    return printable(os.fsdecode(path))
