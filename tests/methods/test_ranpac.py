"""RanPAC, against a plain computation from all features at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.methods.scenarios import built, train
from upcl.core.closed_form import Statistics, ridge
from upcl.core.types import Task
from upcl.data import load_dataset
from upcl.methods.ranpac import RanPAC


def test_ridge_is_solved_behind_a_fixed_random_layer() -> None:
    data = load_dataset("synthetic:classes=3,train=5,test=2")
    method = built(RanPAC, data, {"penalty": 0.2, "expansion": 3})
    train(method, Task(0, 0, 3, data.train))
    features, matrix = method.extract(data.train), method.net.projector.matrix
    assert matrix.shape == (features.shape[1], 3 * features.shape[1]) and not matrix.requires_grad
    hidden = F.normalize((F.normalize(features) @ matrix).clamp(min=0)).double()
    weight, bias = ridge(Statistics.of(hidden, data.train.labels, 3), 0.2)
    assert torch.allclose(method.scores(features).double(), hidden @ weight.T + bias, atol=1e-5)
