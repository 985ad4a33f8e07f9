"""Files as scipy and MATLAB write them, and files that were made to harm."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from upcl.core.errors import UserError
from upcl.data.io import matlab
from upcl.data.io.matlab import read_matlab

ROWS = np.array([(k, f"{k:05d}.jpg") for k in (3, 1, 2)], dtype=[("class", "u1"), ("fname", "O")])


def save(path: Path, *, compressed: bool = False, **variables: Any) -> Path:
    scipy.io.savemat(path, variables, do_compression=compressed)
    return path


def matrix(kind: int, shape: tuple[int, ...], *parts: bytes, name: bytes = b"x") -> bytes:
    """The content of a matrix element, with a shape that may be a lie."""
    flags, dims = struct.pack("<II", kind, 0), struct.pack(f"<{len(shape)}i", *shape)
    return b"".join([element(6, flags), element(5, dims), element(1, name), *parts])


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def write(path: Path, *elements: bytes) -> Path:
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + b"".join(elements))
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_structures_names_and_numbers_are_read(tmp_path: Path, compressed: bool) -> None:
    names = np.array(["crow", "Kea", "bird of paradise"], dtype=object)
    path = save(tmp_path / "a.mat", compressed=compressed, annotations=ROWS, names=names, other=np.eye(3))
    found = read_matlab(path, ["annotations", "names"])
    assert list(found) == ["annotations", "names"]
    assert [int(row["class"]) for row in found["annotations"]] == [3, 1, 2]
    assert [str(row["fname"]) for row in found["annotations"]] == ["00003.jpg", "00001.jpg", "00002.jpg"]
    assert found["names"].tolist() == names.tolist()


def test_missing_files_and_variables_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.mat is missing: unpack the archive again"):
        read_matlab(tmp_path / "a.mat", ["x"])
    with pytest.raises(UserError, match=r"a\.mat does not hold 'x'"):
        read_matlab(save(tmp_path / "a.mat", y=1), ["x"])


def test_other_formats_are_refused(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "4.mat", {"x": 1}, format="4")
    (tmp_path / "text.mat").write_text("class,file\n" * 100)
    (tmp_path / "empty.mat").touch()
    for name in ("4", "text", "empty"):
        with pytest.raises(UserError, match="cannot be read as a MATLAB file: not in version 5"):
            read_matlab(tmp_path / f"{name}.mat", ["x"])


@pytest.mark.parametrize(
    "content",
    [
        matrix(6, (2**30, 2**10), element(9, bytes(8))),
        matrix(4, (1, 2**30), element(16, b"")),
        matrix(1, (2**30, 1), element(14, b"")),
        matrix(2, (1000, 1), element(5, struct.pack("<i", 1)), element(1, b"ab"), element(14, b"") * 1000),
        matrix(2, (2**30, 1), element(5, struct.pack("<i", 8)), element(1, b"")),
        matrix(6, (-1, 5), element(9, bytes(8))),
        matrix(16, (1, 1), element(14, b"")),
        matrix(5, (1, 1), element(9, bytes(8))),
        b"short",
    ],
    ids=["numbers", "text", "cells", "fields", "no fields", "negative", "function", "sparse", "short"],
)
def test_arrays_that_claim_more_than_they_hold_are_refused_before_they_are_loaded(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scipy.io, "loadmat", lambda *_, **__: pytest.fail("was loaded"))
    path = write(tmp_path / "a.mat", element(14, content))
    with pytest.raises(UserError, match=r"a\.mat cannot be read as a MATLAB file"):
        read_matlab(path, ["x"])
    write(path, element(15, zlib.compress(element(14, content)))[:-8])
    with pytest.raises(UserError, match=r"a\.mat cannot be read as a MATLAB file"):
        read_matlab(path, ["x"])


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    content = matrix(6, (1, 1), element(9, bytes(8)))
    for _ in range(5000):
        content = matrix(1, (1, 1), element(14, content))
    with pytest.raises(UserError, match="in too many others"):
        read_matlab(write(tmp_path / "a.mat", element(14, content)), ["x"])


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matlab, "MAX_BYTES", 10**6)
    packed = zlib.compress(bytes(10**8))
    with pytest.raises(UserError, match="larger than 1,000,000 bytes"):
        read_matlab(write(tmp_path / "a.mat", struct.pack("<II", 15, len(packed)) + packed), ["x"])
    with pytest.raises(UserError, match="larger than 1,000,000 bytes"):
        read_matlab(write(tmp_path / "b.mat", element(14, bytes(10**6))), ["x"])
    with pytest.raises(UserError, match="element of type 9"):
        read_matlab(write(tmp_path / "c.mat", element(9, bytes(8))), ["x"])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"rows": ROWS, "names": np.array(["a", "bc"], dtype=object)})
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(128, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "a.mat"
    path.write_bytes(content[: data.draw(st.integers(128, len(content)))])
    with contextlib.suppress(UserError):
        read_matlab(path, ["rows", "names"])
