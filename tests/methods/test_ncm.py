"""NCM, against a plain computation from all features at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.methods.scenarios import built, train
from upcl.core.types import Task
from upcl.data import load_dataset
from upcl.methods.ncm import NCM


def test_scores_are_cosines_to_class_means() -> None:
    data = load_dataset("synthetic:classes=3,train=5,test=2")
    method = built(NCM, data)
    train(method, Task(0, 0, 3, data.train))
    unit = F.normalize(method.extract(data.train)).double()
    means = F.normalize(torch.stack([unit[data.train.labels == k].mean(0) for k in range(3)]))
    assert torch.allclose(method.scores(method.extract(data.train)).double(), unit @ means.T, atol=1e-5)
