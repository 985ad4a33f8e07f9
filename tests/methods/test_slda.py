"""SLDA, against a plain computation from all features at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.methods.scenarios import built, train
from upcl.core.types import Task
from upcl.data import load_dataset
from upcl.methods.slda import SLDA


def test_scores_are_those_of_discriminant_analysis() -> None:
    data = load_dataset("synthetic:classes=3,train=5,test=2")
    method = built(SLDA, data, {"shrinkage": 0.2})
    train(method, Task(0, 0, 3, data.train))
    unit = F.normalize(method.extract(data.train)).double()
    means = torch.stack([unit[data.train.labels == k].mean(0) for k in range(3)])
    centred = unit - means[data.train.labels]
    within = centred.T @ centred / len(unit)
    shrunk = within + 0.2 * within.trace() * torch.eye(len(within))
    weight = torch.linalg.solve(shrunk, means.T).T
    expected = unit @ weight.T - (weight * means).sum(1) / 2
    assert torch.allclose(method.scores(method.extract(data.train)).double(), expected, rtol=1e-3, atol=1e-3)
