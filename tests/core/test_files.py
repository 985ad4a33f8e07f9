"""Atomic writes and locks."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.core.files import (
    MAX_JSON_DEPTH,
    atomic_path,
    check_archive,
    errors_name,
    exclusive_lock,
    parse_json,
    read_text,
    remove_partials,
    write_atomic,
    write_json,
)


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


def test_any_name_that_the_file_system_allows_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 125 + ".upcl")  # 255 bytes
    write_atomic(path, b"value")
    assert path.read_bytes() == b"value" and list(tmp_path.iterdir()) == [path]


DIE = """
import os, signal, sys
from pathlib import Path
from upcl.core.files import atomic_path
with atomic_path(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_can_be_removed(tmp_path: Path) -> None:
    path, earlier = tmp_path / "model[1].upcl", tmp_path / "model[1].upcl.0123456789ab.partial"
    earlier.write_text("of an earlier version")
    assert subprocess.run([sys.executable, "-c", DIE, str(path)], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    others = [tmp_path / "model[1].upcl.mine.partial", tmp_path / "model1.upcl.0123456789ab.partial"]
    for other in others:
        other.write_text("of the user")
    with atomic_path(tmp_path / "other.upcl") as partial:  # of another process that holds another lock
        partial.write_text("complete")
        remove_partials(path)
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "other.upcl"])


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


CONTEND = """
import os, sys
from pathlib import Path
from upcl.core.files import exclusive_lock
folder, inside = Path(sys.argv[1]), Path(sys.argv[1]) / "inside"
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with exclusive_lock(folder / ".lock"):
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if another process is inside
        count = int((folder / "count").read_text())
        (folder / "count").write_text(str(count + 1))
        inside.unlink()
"""


def test_of_processes_that_contend_for_a_lock_one_is_inside(tmp_path: Path) -> None:
    num_processes, num_turns = 3, 100
    (tmp_path / "count").write_text("0")
    command = [sys.executable, "-c", CONTEND, str(tmp_path), str(num_turns)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(num_processes)]
    for process in processes:  # all of them start at the same time
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * num_processes
    assert int((tmp_path / "count").read_text()) == num_processes * num_turns
    assert (tmp_path / ".lock").exists(), "a lock file that is removed lets two processes in"


def test_no_version_of_filelock_that_removes_locks_is_allowed() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (bound,) = [text.removeprefix("filelock>=") for text in project["dependencies"] if text.startswith("filelock")]
    kept_again = (3, 29, 5)  # from 3.21.0 to 3.29.4, the file was removed on release
    assert tuple(map(int, bound.split("."))) >= kept_again
    assert tuple(map(int, version("filelock").split("."))) >= kept_again


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_are_bounded_before_they_are_read(method: int, tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"

    def check(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("content", content)
        with zipfile.ZipFile(path) as archive:
            check_archive(path, archive)

    check(bytes(1_000_000))  # little is allowed at any ratio
    check(os.urandom(2_000_000))
    with pytest.raises(ValueError, match="unpacks to 2,000,000 bytes"):
        check(bytes(2_000_000))
    with pytest.raises(ValueError, match="packed neither by deflate"):
        check(b"", method)


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


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_atomic(tmp_path / "value.bin", b"new")
    assert caught.value.filename == str(tmp_path / "value.bin")
    assert list(tmp_path.iterdir()) == []


def test_errors_name_the_file_that_users_know(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "value.bin"
    with pytest.raises(FileNotFoundError) as caught:
        write_atomic(path, b"new")
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught, errors_name(path):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other"), "a name that is known stays"


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 500, 10_000])
def test_deeply_nested_json_is_refused(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        with pytest.raises(ValueError, match="nested more than 50 deep"):
            parse_json(opening * depth + "0" * (opening != "[") + closing * depth)
    assert parse_json("[" * 50 + "]" * 50)


@pytest.mark.parametrize("content", [b"\x7fELF\x00", b"\xff\xfe", b"a\0b"])
def test_binary_files_are_not_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "order.txt").write_bytes(content)
    with pytest.raises(UserError, match=r"order\.txt is not a text file"):
        read_text(tmp_path / "order.txt")


def test_devices_and_pipes_are_never_replaced(tmp_path: Path) -> None:
    """As root, /dev/null itself would be replaced by a file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UserError, match=f"{name} is not a file but a device or a pipe"):
            write_atomic(tmp_path / name, b"new")
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()


def test_folders_are_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, Path()):
        with pytest.raises(IsADirectoryError):
            write_atomic(path, b"new")
