"""What users write: config files, class orders and task sizes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from upcl.core.errors import UserError


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a config file.

    Args:
        path: a YAML file with keys and values.

    Raises:
        UserError: if it cannot be read or holds something else.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "config.yaml"
        >>> _ = path.write_text("method: upcl")
        >>> read_yaml(path)
        {'method': 'upcl'}
    """
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} must hold keys and values, such as 'method: upcl'")
    return content


def read_order(text: str) -> list[str]:
    """Parse a class order.

    Args:
        text: class names or numbers separated by commas, or a file with one class per line.

    Example:
        >>> read_order("cat, dog,owl")
        ['cat', 'dog', 'owl']
    """
    path = Path(text).expanduser()
    is_file = os.path.isfile(path)  # noqa: PTH113 (a list may be longer than a path can be)
    lines = path.read_text().splitlines() if is_file else text.split(",")
    return [line.strip() for line in lines if line.strip()]


def parse_sizes(text: str) -> int | Sequence[int]:
    """Parse a number of tasks or the number of classes of each.

    Args:
        text: "5" or "4,3,3".

    Raises:
        UserError: if it is neither.

    Example:
        >>> parse_sizes("5"), parse_sizes("4,3,3")
        (5, [4, 3, 3])
    """
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"tasks '{text}': use a number (5) or the number of classes of each task (4,3,3)") from None
    return sizes[0] if len(sizes) == 1 else sizes
