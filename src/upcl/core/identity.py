"""Digests and differences of configs and weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Lines that say where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        return [line for k in keys for line in differences(old.get(k), new.get(k), f"{path}.{k}" if path else k)]
    return [] if old == new else [f"{path}: stored {old!r}, requested {new!r}"]


def weights_sha256(state: Mapping[str, Tensor]) -> str:
    """One digest over names, types, shapes and values of all tensors."""
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    return digest.hexdigest()
