"""Comparison of configs and digests of weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def differences(stored: Any, requested: Any, path: str = "") -> list[str]:
    """Describe where two JSON values differ.

    Args:
        stored: the earlier value.
        requested: the value to compare it with.
        path: the dotted path of the two values, for the messages.

    Returns:
        One line per difference; empty if the values are equal. A missing key counts as None.

    Example:
        >>> differences({"tau": 0.07, "seed": 0}, {"tau": 0.2, "seed": 0})
        ['tau: stored 0.07, requested 0.2']
    """
    if isinstance(stored, dict) and isinstance(requested, dict):
        keys = [*stored, *(key for key in requested if key not in stored)]
        pairs = ((stored.get(key), requested.get(key), f"{path}.{key}" if path else key) for key in keys)
        return [line for pair in pairs for line in differences(*pair)]
    return [] if stored == requested else [f"{path}: stored {stored!r}, requested {requested!r}"]


def weights_sha256(state: Mapping[str, Tensor]) -> str:
    """Compute one digest over the names, types, shapes and values of tensors.

    Args:
        state: tensors by name, such as a state dict. Their order does not matter.

    Returns:
        The SHA-256 digest as 64 hexadecimal digits.

    Example:
        >>> one, two = torch.zeros(2), torch.ones(3)
        >>> weights_sha256({"a": one, "b": two}) == weights_sha256({"b": two, "a": one})
        True
        >>> weights_sha256({"a": one}) == weights_sha256({"a": one + 1})
        False
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()


def json_sha256(value: Any) -> str:
    """Compute the digest of a JSON value; the order of keys does not matter.

    Args:
        value: any JSON-serialisable value.

    Returns:
        The SHA-256 digest as 64 hexadecimal digits.

    Example:
        >>> json_sha256({"a": 1, "b": 2}) == json_sha256({"b": 2, "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
