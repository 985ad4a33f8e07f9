"""Pickles whose tuples are nested too deeply are refused before they are loaded."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

import pytest
import torch

from upcl.core.pickles import MAX_NESTING, check_nesting, check_torch_archive

DEEP = b"\x80\x02}" + b")" + b"\x85" * 1_000_000 + b"K\x01s."  # a dict with one key


def nested(depth: int) -> Any:
    value: Any = ()
    for _ in range(depth - 1):
        value = (1, value, "x")
    return value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_depth_is_counted_in_every_protocol(protocol: int) -> None:
    shared = nested(3)
    plain = {"names": ["a", b"b", 3.5, None, True], "shapes": [shared, shared, {1, 2}], "order": OrderedDict(a=1)}
    for value in (plain, nested(MAX_NESTING)):
        check_nesting(io.BytesIO(pickle.dumps(value, protocol)))
    with pytest.raises(pickle.UnpicklingError, match="nested more than 100 deep"):
        check_nesting(io.BytesIO(pickle.dumps([nested(MAX_NESTING + 1)], protocol)))


@pytest.mark.parametrize(
    "content",
    [
        DEEP,
        b"(" * 500 + b")" + b"t" * 500 + b".",  # to the mark, as the first protocols do
        b")" + b"2\x86" * 500 + b".",  # a tuple of a tuple, twice
        b")" + b"".join(b"q%c0h%c\x85" % (n, n) for n in range(200)) + b".",  # through the memo
    ],
)
def test_no_way_of_nesting_is_missed(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="nested more than 100 deep"):
        check_nesting(io.BytesIO(content))


@pytest.mark.parametrize("content", [b"\x85.", b"h\x05.", b"t.", b"q\x01."])
def test_damaged_pickles_are_refused(content: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="damaged"):
        check_nesting(io.BytesIO(content))


def test_archives_of_torch() -> None:
    file = io.BytesIO()
    torch.save({f"layer{i}.weight": torch.zeros(3, 4) for i in range(200)}, file)
    check_torch_archive(zipfile.ZipFile(file))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights/data.pkl", DEEP)
        with pytest.raises(pickle.UnpicklingError, match="nested"):
            check_torch_archive(archive)
