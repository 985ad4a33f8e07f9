"""The setting of a method."""

from __future__ import annotations

import pytest
import torch

from tests.methods.scenarios import make_setting, small_data
from upcl.methods import setting as module
from upcl.methods.icarl import ICaRL


def test_batches_are_normalised_images_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVALUATION_BATCH", 5)
    data = small_data()
    batches = list(make_setting(data, ICaRL).batches(data.train))
    assert [len(labels) for _, labels in batches] == [5, 5, 5, 5, 4]
    assert torch.equal(torch.cat([inputs for inputs, _ in batches]), data.transform.test(data.train.inputs))
    assert torch.equal(torch.cat([labels for _, labels in batches]), data.train.labels)


def test_batches_of_large_images_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVALUATION_PIXELS", 3 * 8 * 8)
    data = small_data()
    assert {len(labels) for _, labels in make_setting(data, ICaRL).batches(data.train)} == {3}


def test_image_bytes_are_those_of_a_raw_image() -> None:
    assert make_setting(small_data(), ICaRL).image_bytes == 3 * 8 * 8
