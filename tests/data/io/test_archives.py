"""Archives that are hostile, damaged or fine."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.conftest import ProgressRecorder
from tests.full_disk import files_up_to
from upcl.core.errors import UserError
from upcl.data.io import archives
from upcl.data.io.archives import read_npz, unpack


def tar_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    path.write_bytes(gzip.compress(tar_bytes(files)))
    return path


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar_link(path: Path) -> Path:
    link = tarfile.TarInfo("x/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(link)
    return path


def write_zip_link(path: Path) -> Path:
    link = zipfile.ZipInfo("x/link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    return path


def write_cut(path: Path) -> Path:
    content = write_tar(path, {"x/a": b"content"}).read_bytes()
    path.write_bytes(content[:40])
    return path


def write_text(path: Path) -> Path:
    path.write_bytes(b"no archive")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(("write", "suffix"), [(write_tar, ".tar.gz"), (write_zip, ".zip")])
def test_archive_is_unpacked_with_progress(
    tmp_path: Path, root: Path, progress: ProgressRecorder, write: Callable[..., Path], suffix: str
) -> None:
    files = {"x/one": b"1", "x/inner/two": b"22", "x/empty": b"", "readme": b"ignored"}
    assert unpack(write(tmp_path / f"a{suffix}", files), root, "x") == root / "x"
    found = {str(p.relative_to(root)): p.read_bytes() for p in (root / "x").rglob("*") if p.is_file()}
    assert found == {name: content for name, content in files.items() if name != "readme"}
    assert sorted(p.name for p in root.iterdir()) == [".x.lock", "x"]
    work = progress.only()
    assert (work.description, work.total, work.completed, work.finished) == (f"unpacking a{suffix}", 4, 4, True)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("up.tar.gz", lambda path: write_tar(path, {"../escaped": b"x"}), "lies outside"),
        ("absolute.tar.gz", lambda path: write_tar(path, {"/escaped": b"x"}), "lies outside"),
        ("up.zip", lambda path: write_zip(path, {"x/../../escaped": b"x"}), "lies outside"),
        ("windows.zip", lambda path: write_zip(path, {"x\\..\\..\\escaped": b"x"}), "lies outside"),
        ("link.tar.gz", write_tar_link, "links or devices, such as x/link"),
        ("link.zip", write_zip_link, "links or devices, such as x/link"),
        ("other.tar.gz", lambda path: write_tar(path, {"y/a": b"x"}), "does not contain the folder x"),
        ("cut.tar.gz", write_cut, "is damaged"),
        ("text.zip", write_text, "is damaged"),
        ("text.tar.gz", write_text, "is damaged"),
    ],
)
def test_bad_archives_are_refused_and_leave_nothing(
    tmp_path: Path, root: Path, name: str, write: Callable[[Path], Path], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        unpack(write(tmp_path / name), root, "x")
    assert [path.name for path in root.iterdir()] == [".x.lock"]
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("overhead", [archives.TAR_OVERHEAD, 0], ids=["by its headers", "while the stream is read"])
def test_too_large_content_is_refused(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, overhead: int
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 3)
    monkeypatch.setattr(archives, "TAR_OVERHEAD", overhead)
    with pytest.raises(UserError, match="exceeds the limit of 3 bytes"):
        unpack(write_tar(tmp_path / "big.tar.gz", {"x/a": b"12345"}), root, "x")
    assert [path.name for path in root.iterdir()] == [".x.lock"]


def test_content_that_expands_too_much_is_refused(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MIN_EXPANDED_BYTES", 1000)
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/zeros", bytes(100_000))
    with pytest.raises(UserError, match="exceeds the limit of"):
        unpack(bomb, root, "x")


def test_flipped_bit_is_detected(tmp_path: Path, root: Path) -> None:
    """tarfile mistakes a damaged header for the end of the archive; only gzip's checksum reveals it."""
    content = bytearray(tar_bytes({"x/one": b"." * 600, "x/two": b"." * 600}))
    compressed = gzip.compress(bytes(content))
    content[1536] ^= 1  # the second header
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(bytes(content))[:-8] + compressed[-8:])
    with pytest.raises(UserError, match="is damaged"):
        unpack(tmp_path / "a.tar.gz", root, "x")
    assert not (root / "x").exists()


def test_remains_of_a_killed_process_are_removed(tmp_path: Path, root: Path) -> None:
    (root / ".unpacking-x-killed").mkdir()
    (root / ".unpacking-x-killed" / "half").touch()
    unpack(write_tar(tmp_path / "a.tar.gz", {"x/one": b"1"}), root, "x")
    assert not list(root.glob(".unpacking-*"))


def test_existing_folder_is_left_alone(tmp_path: Path, root: Path) -> None:
    (root / "x").mkdir()
    assert unpack(write_tar(tmp_path / "a.tar.gz", {"x/one": b"1"}), root, "x") == root / "x"
    assert not list((root / "x").iterdir())


def test_concurrent_callers_unpack_once(tmp_path: Path, root: Path) -> None:
    archive = write_tar(tmp_path / "a.tar.gz", {f"x/{k}": b"1" for k in range(50)})
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: unpack(archive, root, "x"), range(4))) == {root / "x"}
    assert len(list((root / "x").iterdir())) == 50
    assert sorted(path.name for path in root.iterdir()) == [".x.lock", "x"]


def npy_bytes(shape: tuple[int, ...], descr: str = "|u1", content: bytes = bytes(8)) -> bytes:
    """An array in numpy's format whose header claims any shape and type."""
    buffer = io.BytesIO()
    header: dict[str, Any] = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + content


def test_named_arrays_are_read_and_others_left_alone(tmp_path: Path) -> None:
    files = {"x.npy": npy_bytes((2, 4)), "y.npy": npy_bytes((2,), "<i4"), "other.npy": b"not an array"}
    arrays = read_npz(write_zip(tmp_path / "a.npz", files), ["x", "y", "z"])
    assert {name: array.shape for name, array in arrays.items()} == {"x": (2, 4), "y": (2,)}


@pytest.mark.parametrize(
    "content",
    [
        npy_bytes((10**13,)),
        npy_bytes((-8,)),
        npy_bytes((7,)),
        npy_bytes((10**13,), "|V0"),
        npy_bytes((0, 10**30)),
        npy_bytes((1,), "|O"),
        b"\x93NUMPY\x01\x00\xff\x20" + b"-" * 8447 + b"1",  # as deep an expression as a header may be long
        b"\x93NUMPY\x03\x00",
        b"\x93NUMPY",
        b"",
    ],
)
def test_arrays_that_are_not_what_their_header_says_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UserError, match=r"a\.npz cannot be read as npz"):
        read_npz(write_zip(tmp_path / "a.npz", {"x.npy": content}), ["x"])


def test_npz_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MIN_EXPANDED_BYTES", 10**4)
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(10**6, np.uint8))
    with pytest.raises(UserError, match=r"exceeds the limit of .* bytes: save it without compression"):
        read_npz(tmp_path / "a.npz", ["x"])
    np.savez(tmp_path / "a.npz", x=np.zeros(10**6, np.uint8))
    assert read_npz(tmp_path / "a.npz", ["x"])["x"].size == 10**6


def test_full_disk_is_named(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "birds.zip", {"birds/a.bin": bytes(100_000)})
    with pytest.raises(OSError, match="File too large") as caught, files_up_to(10_000):
        unpack(archive, tmp_path, "birds")
    assert caught.value.filename == str(tmp_path / "birds")
    assert not (tmp_path / "birds").exists()
