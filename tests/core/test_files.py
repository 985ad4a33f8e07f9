"""Atomic writes and locks."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.core.files import atomic_path, exclusive_lock, write_atomic, write_json


def test_a_kill_during_a_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "value.bin"
    write_atomic(path, b"old")

    def die(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"half of ", b"a new one")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path], "no temporary file is left"


def test_parts_are_written_in_order(tmp_path: Path) -> None:
    write_atomic(tmp_path / "value.bin", b"one ", memoryview(b"two"))
    assert (tmp_path / "value.bin").read_bytes() == b"one two"


def test_the_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    with atomic_path(path, suffix=".png") as partial:
        partial.write_bytes(b"first part")
        assert not path.exists()
        assert partial.suffix == ".png" and partial.parent == tmp_path
    assert path.read_bytes() == b"first part"
    assert list(tmp_path.iterdir()) == [path]


def write_half_and_fail(path: Path) -> None:
    path.write_text("half")
    raise RuntimeError


def test_an_error_discards_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "value.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_path(path) as partial:
        write_half_and_fail(partial)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_standard(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": [1, None]})
    assert json.loads(path.read_text()) == {"a": [1, None]}
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, {"a": math.nan})
    assert json.loads(path.read_text()) == {"a": [1, None]}, "the old file stays"


HOLD = """
import sys
from pathlib import Path
from upcl.core.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_excludes_other_processes_and_its_file_stays(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == "held\n"
        inode = path.stat().st_ino
        with pytest.raises(UserError, match="in use"), exclusive_lock(path, busy="in use"):
            pass
        assert path.stat().st_ino == inode, "the lock file is not replaced while another process holds it"
        holder.communicate("\n")
    with exclusive_lock(path, busy="in use"):
        pass


def test_json_has_lists_of_plain_values_on_one_line(tmp_path: Path) -> None:
    value = {
        "matrix": [[1, 2], [3, 4.5]],
        "names": ["a [ b", "c ]", "\n", "{}"],
        "deep": [{"x": []}, None, [True, [["y"]]]],
        "empty": [],
    }
    write_json(tmp_path / "value.json", value)
    text = (tmp_path / "value.json").read_text()
    assert json.loads(text) == value
    assert "\n  [1, 2],\n" in text
