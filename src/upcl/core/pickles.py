"""Pickles of unknown origin: how deep their tuples are nested, before they are loaded."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from typing import IO

MAX_NESTING = 100  # Python hashes nested tuples by recursion in C: a million levels end the process
_MARK = -1


def check_nesting(file: IO[bytes]) -> None:
    """Refuse a pickle whose tuples are nested more than `MAX_NESTING` deep. Nothing is built.

    Args:
        file: a pickle, which is read up to its end.

    Raises:
        pickle.UnpicklingError: if they are, or if the pickle is damaged.

    Example:
        >>> import io
        >>> check_nesting(io.BytesIO(pickle.dumps({"shape": (3, (32, 32))})))
        >>> check_nesting(io.BytesIO(b")" + 1000 * b"\\x85" + b"."))
        Traceback (most recent call last):
        _pickle.UnpicklingError: tuples are nested more than 100 deep
    """
    stack: list[int] = []  # how deep each object is nested
    memo: dict[int, int] = {}
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        try:
            if name.endswith("PUT") or name == "MEMOIZE":
                memo[len(memo) if argument is None else int(argument)] = stack[-1]
            elif name.endswith("GET"):
                stack.append(memo[int(str(argument))])
            elif name == "MARK":
                stack.append(_MARK)
            else:
                taken = _take(stack, opcode)
                depth = 1 + max(taken, default=0) if name.endswith(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")) else 0
                if depth > MAX_NESTING:
                    raise pickle.UnpicklingError(f"tuples are nested more than {MAX_NESTING} deep")
                stack += [max(taken) if name == "DUP" else depth] * len(opcode.stack_after)
        except (IndexError, KeyError, TypeError, ValueError):
            raise pickle.UnpicklingError("a damaged pickle") from None


def _take(stack: list[int], opcode: pickletools.OpcodeInfo) -> list[int]:
    """Remove from the stack what an opcode takes."""
    before, taken = opcode.stack_before, list[int]()
    if pickletools.markobject in before:  # all objects above the last mark, and those that are listed before it
        while (depth := stack.pop()) != _MARK:
            taken.append(depth)
        before = before[: before.index(pickletools.markobject)]
    return taken + [stack.pop() for _ in before]


def check_torch_archive(archive: zipfile.ZipFile) -> None:
    """Check the pickle in an archive that `torch.save` wrote, or claims to be.

    Args:
        archive: the archive.

    Raises:
        pickle.UnpicklingError: as `check_nesting`.

    Example:
        >>> import io, torch
        >>> file = io.BytesIO()
        >>> torch.save({"bias": torch.zeros(2)}, file)
        >>> check_torch_archive(zipfile.ZipFile(file))
    """
    for name in archive.namelist():
        if name.endswith("data.pkl"):
            with archive.open(name) as file:
                check_nesting(file)
