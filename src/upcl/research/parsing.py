"""What users write: config files, class orders and task sizes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from upcl.core.errors import UserError
from upcl.core.files import read_text
from upcl.data.io.paths import expand_home

MAX_BYTES, MAX_VALUES, MAX_DEPTH = 500_000, 20_000, 20  # of a config file
MAX_SCALAR = 100_000  # characters of a value: numbers such as 1:1:1 take the square of their length


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
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is too large for a config file: {MAX_BYTES:,} bytes at most")
        text = read_text(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    try:
        _check_extent(text)
        content = yaml.safe_load(text)
        repr(content)  # fails if a number, such as 59:59:59, has more digits than Python writes
    except Exception as error:  # PyYAML raises what its parts do: 2001-99-99 is a ValueError, `!!int ""` an IndexError
        raise UserError(f"{path} is not YAML that a config file may hold: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} must hold keys and values, such as 'method: upcl'")
    return content


def _check_extent(text: str) -> None:
    """Refuse YAML that is nested too deeply, or large once every alias is replaced by what it stands for."""
    sizes: dict[str | None, int] = {}  # of the nodes with a name
    nodes: list[tuple[str | None, int]] = []  # the open nodes: name, and size so far
    for event in yaml.parse(text, yaml.SafeLoader):
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            nodes.append((event.anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            name, size = nodes.pop()
            sizes[name] = size
        elif isinstance(event, yaml.AliasEvent):
            is_open = any(name == event.anchor for name, _ in nodes)  # then it stands for endlessly much
            size = MAX_VALUES if is_open else sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.ScalarEvent):
            size = sizes[event.anchor] = 1
            if len(event.value) > MAX_SCALAR:
                raise ValueError(f"a value of more than {MAX_SCALAR:,} characters")
        if nodes:
            nodes[-1] = nodes[-1][0], nodes[-1][1] + size
            if len(nodes) > MAX_DEPTH or nodes[-1][1] > MAX_VALUES:
                raise ValueError(f"more than {MAX_VALUES:,} values, or nested more than {MAX_DEPTH} deep")


def read_order(text: str) -> list[str]:
    """Parse a class order.

    Args:
        text: class names or numbers separated by commas, or a file with one class per line.

    Example:
        >>> read_order("cat, dog,owl")
        ['cat', 'dog', 'owl']
    """
    path = expand_home(text)
    is_file = os.path.isfile(path)  # noqa: PTH113 (a list may be longer than a path can be)
    lines = read_text(path).splitlines() if is_file else text.split(",")
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
