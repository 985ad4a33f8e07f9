"""What users write: config files and task sizes. (Class orders: test_protocol.py.)"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.research.parsing import MAX_BYTES, parse_sizes, read_order, read_yaml


def test_yaml_must_hold_keys(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    for content, message in (("- a", "must hold keys"), ("a: [", "is not YAML"), ("", "must hold keys")):
        path.write_text(content)
        with pytest.raises(UserError, match=message):
            read_yaml(path)
    with pytest.raises(UserError, match="cannot read"):
        read_yaml(tmp_path / "none.yaml")
    path.write_text("method: upcl\ntasks: [4, 6]\noptions: {tau: 0.1}\n")
    assert read_yaml(path) == {"method": "upcl", "tasks": [4, 6], "options": {"tau": 0.1}}


def test_task_sizes_are_a_number_or_a_list() -> None:
    assert parse_sizes("5") == 5
    assert parse_sizes("4,3,3") == [4, 3, 3]
    with pytest.raises(UserError, match="use a number"):
        parse_sizes("five")


def laughs(levels: int, pattern: str) -> str:
    """Each name stands for ten times what the one before stands for."""
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{k}: &a{k} {pattern % ', '.join([f'*a{k - 1}'] * 10)}" for k in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "content",
    [
        laughs(12, "[%s]"),
        laughs(12, "{<<: [%s]}"),
        "a: &a [*a]",
        "a: &a {b: [*a]}",
        "a: *nothing",
        "a: " + "[" * 10_000 + "]" * 10_000,
        "a: " + "{b: " * 10_000,
        "".join(" " * k + "a:\n" for k in range(100)),
        "a: 2001-99-99",
        "a: " + "9" * 5000,
        "a: " + ":".join(["59"] * 3000),
        'a: !!int ""',
        "a: " + ":".join(["1"] * 100_000),
        "a: !!timestamp x",
        "? [a]\n: 3",
        "a: 1\n---\nb: 2",
        "a: !!python/object/apply:os.mkdir [executed]",
    ],
)
def test_hostile_yaml_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "c.yaml").write_text(content)
    with pytest.raises(UserError, match=r"c\.yaml is not YAML that a config file may hold"):
        read_yaml(tmp_path / "c.yaml")


def test_large_and_binary_config_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: " + "x" * MAX_BYTES)
    with pytest.raises(UserError, match="too large for a config file"):
        read_yaml(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_bytes(b"\x7fELF\0")
    with pytest.raises(UserError, match="not a text file"):
        read_yaml(tmp_path / "c.yaml")


def test_devices_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match="is not a file but a device or a pipe"):
            read_yaml(path)


def test_aliases_are_understood(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a\n")
    assert read_yaml(tmp_path / "c.yaml") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1}}


def test_class_order_from_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "order").write_bytes(b"\x7fELF\xff")
    with pytest.raises(UserError, match="is not a text file"):
        read_order(str(tmp_path / "order"))
    (tmp_path / "order").write_text("owl\n\ncat\n")
    assert read_order(str(tmp_path / "order")) == ["owl", "cat"]
