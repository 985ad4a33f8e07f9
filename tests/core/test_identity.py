"""Differences of configs and digests of weights."""

from __future__ import annotations

import torch

from upcl.core.identity import differences, weights_sha256


def test_differences_are_listed_by_path() -> None:
    stored = {"seed": 0, "options": {"tau": 0.07, "ema": 0.9}, "tasks": [2, 2]}
    requested = {"seed": 0, "options": {"tau": 0.2, "ema": 0.9}, "tasks": [4], "device": "cpu"}
    assert differences(stored, requested) == [
        "options.tau: stored 0.07, requested 0.2",
        "tasks: stored [2, 2], requested [4]",
        "device: stored None, requested 'cpu'",
    ]


def test_equal_values_have_no_differences() -> None:
    value = {"a": {"b": [1, 2]}, "c": None}
    assert differences(value, {"c": None, "a": {"b": [1, 2]}}) == []


def test_digest_covers_names_types_shapes_and_values() -> None:
    state = {"a": torch.arange(4.0), "b": torch.zeros(2, 2)}
    others = [
        {"a": torch.arange(4.0) + 1e-6, "b": state["b"]},
        {"a": torch.arange(4.0, dtype=torch.float64), "b": state["b"]},
        {"a": torch.arange(4.0)[None], "b": state["b"]},
        {"c": torch.arange(4.0), "b": state["b"]},
        {"a": torch.arange(4.0)},
    ]
    digests = {weights_sha256(state), *map(weights_sha256, others)}
    assert len(digests) == 6
    assert weights_sha256(dict(reversed(state.items()))) == weights_sha256(state), "the order does not matter"


def test_digest_does_not_depend_on_the_memory_layout() -> None:
    weight = torch.rand(4, 3, 2, 2)
    other = weight.contiguous(memory_format=torch.channels_last)
    assert weights_sha256({"w": weight}) == weights_sha256({"w": other})
    assert len(weights_sha256({"empty": torch.empty(0, 3)})) == 64
