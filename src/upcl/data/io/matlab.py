"""MATLAB files of labels from elsewhere: measured before they are loaded."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import scipy.io

from upcl.core.errors import UserError

from .images import open_file

MAX_BYTES = 2**25  # of the file and of what it unpacks to; ImageNet's and Stanford's take some 3 MB
MAX_DEPTH = 8  # of cells and structures
HEADER_BYTES = 128
MATRIX, COMPRESSED = 14, 15  # types of elements
CELL, STRUCT, CHAR, NUMBERS = 1, 2, 4, range(6, 16)  # classes of arrays; others are objects, functions and the like


def read_matlab(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Read variables from a file that MATLAB wrote in version 5 of its format, or claims to have written.

    The loader allocates what the file says an array holds, and follows cells and structures however deep they are. So
    the file is walked through before: no array may be larger than the bytes that hold it.

    Args:
        path: the file.
        names: the variables to read, all of which must be there.

    Returns:
        The variables by name, without axes of length 1. Structures are records.

    Raises:
        UserError: the file is missing, damaged, too large, or lacks a variable.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> path = Path(tempfile.mkdtemp()) / "meta.mat"
        >>> scipy.io.savemat(path, {"class_names": np.array(["cat", "dog"], dtype=object)})
        >>> read_matlab(path, ["class_names"])["class_names"].tolist()
        ['cat', 'dog']
    """
    if not path.is_file():
        raise UserError(f"{path} is missing: unpack the archive again")
    try:
        content = _checked_content(path)
        loaded = scipy.io.loadmat(io.BytesIO(content), squeeze_me=True, variable_names=list(names))
        return {name: loaded[name] for name in names}
    except KeyError as error:
        raise UserError(f"{path} does not hold {error}: it is another file, or damaged") from None
    except Exception as error:  # a damaged file can fail in any way
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} cannot be read as a MATLAB file: {error or type(error).__name__}") from None


def _checked_content(path: Path) -> bytes:
    """The content of a file, with its compressed variables unpacked."""
    with open_file(path) as file:
        content = file.read(MAX_BYTES + 1)
    mark = content[HEADER_BYTES - 4 : HEADER_BYTES]
    if mark not in (b"\x00\x01IM", b"\x01\x00MI"):
        raise ValueError("not in version 5 of the format")
    order = "<" if mark.endswith(b"IM") else ">"
    parts, size = [content[:HEADER_BYTES]], len(content)
    for kind, element in _elements(content[HEADER_BYTES:], order) if size <= MAX_BYTES else ():
        if kind == COMPRESSED:
            parts.append(_unpacked(element))
            size += len(parts[-1])
        else:
            parts.append(struct.pack(f"{order}II", kind, len(element)) + element)
        if size > MAX_BYTES:
            break
    if size > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES:,} bytes")
    checked = b"".join(parts)
    for kind, element in _elements(checked[HEADER_BYTES:], order):
        if kind != MATRIX:
            raise ValueError(f"element of type {kind}")
        _check_array(element, order, 0)
    return checked


def _unpacked(element: bytes) -> bytes:
    """A compressed element, up to a length that the caller refuses."""
    return zlib.decompressobj().decompress(element, MAX_BYTES + 1)


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Type and content of the elements that follow each other."""
    start = 0
    while start < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, start)
        short = kind >> 16  # up to four bytes stand in the tag itself
        first = start + (4 if short else 8)
        kind, size = (kind & 0xFFFF, short) if short else (kind, size)
        if size > (4 if short else len(content) - first) or (kind == MATRIX and size % 8):
            raise ValueError("ends too early")
        yield kind, content[first : first + size]
        padded = size if kind == COMPRESSED else -(-size // 8) * 8
        start = start + 8 if short else first + padded


def _check_array(content: bytes, order: str, depth: int) -> None:
    """Refuse an array with more entries than bytes, and what is neither text, numbers, cells nor structures."""
    if not content:
        return
    parts = [part for _, part in _elements(content, order)]
    if len(parts) < 3 or len(parts[0]) != 8 or len(parts[1]) % 4 or depth > MAX_DEPTH:
        raise ValueError("an array is damaged, or in too many others")
    kind = struct.unpack_from(f"{order}I", parts[0])[0] & 0xFF
    shape = struct.unpack(f"{order}{len(parts[1]) // 4}i", parts[1])
    if kind not in (CELL, STRUCT, CHAR, *NUMBERS) or min(shape, default=-1) < 0:
        raise ValueError(f"an array of class {kind} and shape {shape}")
    inner, per_entry = (parts[5:], _num_fields(parts, order)) if kind == STRUCT else (parts[3:], 1)
    if math.prod(shape) * per_entry > (len(inner) if kind in (CELL, STRUCT) else sum(map(len, inner))):
        raise ValueError(f"an array of shape {shape} in {len(content):,} bytes")
    if kind in (CELL, STRUCT):
        for part in inner:
            _check_array(part, order, depth + 1)


def _num_fields(parts: Sequence[bytes], order: str) -> int:
    """Number of fields of a structure: each entry has a value for every one of them."""
    length = struct.unpack(f"{order}i", parts[3])[0] if len(parts) > 4 and len(parts[3]) == 4 else 0
    if length < 1 or len(parts[4]) < length:
        raise ValueError("a structure without fields")
    return len(parts[4]) // length
