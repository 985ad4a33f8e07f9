"""Where data sets and decoded images are stored, and how paths are printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs


def data_root(given: str | Path | None = None) -> Path:
    """Folder that holds the data sets: `given`, else `$UPCL_DATA`, else a folder in the platform's cache.

    Args:
        given: the folder chosen by the user, if any.

    Example:
        >>> data_root("/mnt/data").as_posix()
        '/mnt/data'
    """
    chosen = given or os.environ.get("UPCL_DATA")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("upcl") / "data"


def cache_root() -> Path:
    """Folder of what can be computed again: `$UPCL_CACHE`, else a folder in the platform's cache.

    Example:
        >>> decoded_root().parent == cache_root()
        True
    """
    chosen = os.environ.get("UPCL_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("upcl")


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
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    r"""Text with control characters escaped, so that it cannot steer a terminal.

    Args:
        text: any text, such as a class name from a file.

    Example:
        >>> printable("red\x1b[31m\n")
        'red\\x1b[31m\\n'
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: found[0].encode("unicode_escape").decode(), text)
