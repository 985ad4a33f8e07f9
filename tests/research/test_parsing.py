"""What users write: config files and task sizes. (Class orders: test_protocol.py.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.research.parsing import parse_sizes, read_yaml


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
