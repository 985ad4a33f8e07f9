"""Loss terms: tensors in, scalar out. Notation: B batch, C classes, d features; `tau` a temperature."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def log_prior(counts: Tensor) -> Tensor:
    """log p_k from the images of each class (C).

    A class without any image counts as one: it stays a weak rival instead of leaving the softmax with log 0.
    """
    counts = counts.clamp(min=1).float()
    return (counts / counts.sum()).log()


def distillation(student: Tensor, teacher: Tensor, temperature: float = 2.0) -> Tensor:
    """KD_T of logits over the old classes: cross-entropy form, no T^2 factor (PyCIL)."""
    targets = (teacher / temperature).softmax(1)
    return -(targets * (student / temperature).log_softmax(1)).sum(1).mean()


def cosine_distillation(unit: Tensor, teacher_unit: Tensor) -> Tensor:
    """L_FKD: mean of 1 - cos between unit features of student and teacher (B x d each)."""
    return (1 - (unit * teacher_unit).sum(1)).mean()


def supervised_contrast(unit: Tensor, labels: Tensor, tau: float, *, self_pair: bool = True) -> Tensor:
    """L_feat: each image against all of the batch; images of its class are its positives.

    With `self_pair` an image is among its own positives and in its denominator (official UPCL code); without, as in
    Khosla et al., an image whose class is alone in the batch has no positive and is left out of the mean.
    """
    logits = unit @ unit.T / tau
    positive = labels[:, None] == labels[None, :]
    if not self_pair:
        alone = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        logits = logits.masked_fill(alone, float("-inf"))
        positive = positive & ~alone
    log_share = logits.log_softmax(1).masked_fill(~positive, 0.0)
    num_positive = positive.sum(1)
    per_anchor = -log_share.sum(1) / num_positive.clamp(min=1)
    return per_anchor.sum() / (num_positive > 0).sum().clamp(min=1)


def prototype_contrast(cosines: Tensor, labels: Tensor, tau: float, margin: Tensor | None = None) -> Tensor:
    """L_proto: cross-entropy of cos / tau, plus a margin for each column (C) or each entry (B x C) of the logits."""
    logits = cosines / tau
    return F.cross_entropy(logits if margin is None else logits + margin, labels)


def target_margin(labels: Tensor, num_classes: int, margin: float) -> Tensor:
    """-margin on the target's entry, 0 elsewhere (AM-softmax), as B x C."""
    return -margin * F.one_hot(labels, num_classes).float()
