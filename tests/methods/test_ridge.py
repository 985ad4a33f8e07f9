"""Ridge, against a plain computation from all features at once."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn import linear_model

from tests.methods.scenarios import built, train
from upcl.core.types import Task
from upcl.data import load_dataset
from upcl.methods.ridge import Ridge


def test_scores_are_those_of_scikit_learns_ridge() -> None:
    data = load_dataset("synthetic:classes=3,train=5,test=2")
    method = built(Ridge, data, {"penalty": 0.2})
    train(method, Task(0, 0, 3, data.train))
    unit = F.normalize(method.extract(data.train)).double()
    centred = unit - unit.mean(0)
    penalty = 0.2 * float((centred**2).sum())
    reference = linear_model.Ridge(alpha=penalty).fit(unit.numpy(), np.eye(3)[data.train.labels.numpy()])
    expected = torch.from_numpy(reference.predict(unit.numpy()))
    assert torch.allclose(method.scores(method.extract(data.train)).double(), expected, atol=1e-5)
