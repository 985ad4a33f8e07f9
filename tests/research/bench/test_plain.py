"""The plain implementation computes the same as ours: only then is comparing their times fair."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import normalize

from upcl.core.frames import extend_orthonormal
from upcl.core.losses import supervised_contrast
from upcl.core.memory import herding
from upcl.nets import PrototypeHead
from upcl.research.bench.plain import PlainLinearHead, PlainPrototypeHead, plain_contrast, plain_herding


def test_contrast_equals_ours() -> None:
    torch.manual_seed(0)
    unit, labels = normalize(torch.randn(24, 16)), torch.arange(24) % 6
    assert torch.allclose(supervised_contrast(unit, labels, 0.1), plain_contrast(unit, labels, 0.1), atol=1e-5)


def test_herding_equals_ours() -> None:
    torch.manual_seed(0)
    features = torch.randn(50, 8).double()
    assert herding(normalize(features), 20).tolist() == plain_herding(features.numpy(), 20)


def test_assignment_equals_ours() -> None:
    torch.manual_seed(0)
    labels, frame = torch.arange(24) % 6, extend_orthonormal(torch.empty(0, 16), 6)
    ours, plain = PrototypeHead(16, frame=frame.clone()), PlainPrototypeHead(frame, torch.ones(6))
    ours.grow(6)
    for _ in range(4):
        rows = normalize(torch.randn(24, 16))
        ours.update_centroids(rows, labels, 0.9)
        ours.assign(0)
        plain.match(rows, labels)
        assert torch.equal(ours.vectors, plain.prototypes)


def test_linear_loss_is_cross_entropy_and_distillation() -> None:
    torch.manual_seed(0)
    head = PlainLinearHead(nn.Flatten(), 4, num_old=2, num_classes=3)
    inputs, labels = torch.randn(5, 1, 2, 2), torch.tensor([0, 1, 2, 2, 1])
    features = inputs.flatten(1)
    soft = torch.softmax(head.old_head(features) / 2, 1)
    logits = head.head(features)
    distillation = -(soft * torch.log_softmax(logits[:, :2] / 2, 1)).sum(1).mean()
    expected = nn.functional.cross_entropy(logits, labels) + distillation
    assert torch.allclose(head.loss(features, labels, inputs), expected)
