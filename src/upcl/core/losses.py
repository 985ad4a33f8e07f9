"""Loss terms: tensors in, scalar out. Notation: B batch, C classes, d features; `tau` a temperature."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def one_hot(labels: Tensor, num_classes: int, dtype: torch.dtype) -> Tensor:
    """1 where an image is of a class (B x C). torch's one_hot looks at the labels first and waits for the answer."""
    return (labels[:, None] == torch.arange(num_classes, device=labels.device)).to(dtype)


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


def target_margin(labels: Tensor, num_classes: int, margins: Tensor | float) -> Tensor:
    """-margin on the target's entry, 0 elsewhere (AM-softmax), as B x C; one margin for all or one for each class."""
    if isinstance(margins, Tensor):
        margins = margins[labels][:, None]
    return -margins * one_hot(labels, num_classes, torch.float32)


Margin = Literal["prior", "paper_literal", "fixed", "columns", "none"]


def margin_logits(
    kind: Margin, labels: Tensor, counts: Tensor, num_old: int, scale: Tensor | float, sizes: tuple[float, float]
) -> Tensor | None:
    """What a margin adds to the logits scale * cos; `sizes` are those of old and of new classes.

    prior: log p. paper_literal: scale * log p. fixed: scale * (new) size off the target. columns: scale * size off each
    column.
    """
    old, new = sizes
    if kind == "prior":
        return log_prior(counts)
    if kind == "paper_literal":
        return scale * log_prior(counts)
    if kind == "fixed":
        return scale * target_margin(labels, len(counts), new)
    if kind == "columns":
        is_old = torch.arange(len(counts), device=counts.device) < num_old
        return -scale * torch.where(is_old, old, new)
    return None


def focal(scores: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Mean of (1 - p_y)^gamma (-log p_y): easy images count less (Lin et al.)."""
    log_p = scores.log_softmax(1).gather(1, labels[:, None])[:, 0]
    missed = (-torch.expm1(log_p)).clamp(min=1e-12)  # 1 - p_y, whose power has a gradient even where p_y rounds to 1
    return -(missed**gamma * log_p).mean()


def ldam_margins(counts: Tensor, largest: float) -> Tensor:
    """n_k^(-1/4), scaled so that the rarest class gets the largest margin (Cao et al.); absent counts as one."""
    margins = counts.clamp(min=1).float() ** -0.25
    return margins * (largest / margins.max())


def effective_weights(counts: Tensor, beta: float) -> Tensor:
    """Class weights (1 - beta) / (1 - beta^n_k), scaled to sum to the number of classes (deferred re-weighting)."""
    effective = [-math.expm1(n * math.log(beta)) for n in counts.clamp(min=1).tolist()] if beta else [1.0] * len(counts)
    weights = torch.tensor([1 / number for number in effective], device=counts.device)
    return weights / weights.sum() * len(counts)


def margin_ranking(
    cosines: Tensor, labels: Tensor, num_old: int, *, rivals: int, margin: float, reduction: Literal["mean", "sum"]
) -> Tensor:
    """LUCIR: an image of an old class keeps its cosine `margin` above those of its nearest new classes.

    `mean` averages over old images and rivals (official code), `sum` sums over the rivals (paper). Images of new
    classes do not count; without any old image the loss is zero.
    """
    own = cosines.gather(1, labels[:, None])
    nearest = cosines[:, num_old:].topk(min(rivals, cosines.shape[1] - num_old), 1).values
    is_old = (labels < num_old).to(cosines.dtype)
    hinge = (margin - own + nearest).clamp(min=0)
    per_image = hinge.mean(1) if reduction == "mean" else hinge.sum(1)
    return (per_image * is_old).sum() / is_old.sum().clamp(min=1)


def decorrelation(unit: Tensor, labels: Tensor, form: Literal["code", "paper"]) -> Tensor:
    """CwD: how much the features of one class go together, over the classes with at least two images in the batch.

    With X_c the centred features of class c over their unbiased deviation and R_c = X_c' X_c: `code` is the mean
    squared off-diagonal of R_c, summed over classes and divided by the images used; `paper` the class mean of
    |R_c/(n-1)|^2/d^2. |R_c|^2 is read off the Gram matrix of the images, so that no d x d matrix is built.
    """
    same = (labels[:, None] == labels[None, :]).to(unit.dtype)
    num = same.sum(1)  # of each image's class; a sum over classes is a sum over images of 1 / num
    share = (num >= 2) / num
    centred = unit - same @ unit / num[:, None]
    variance = same @ centred.square() / (num - 1).clamp(min=1)[:, None]
    rows = centred / (variance + 1e-8).sqrt()
    whole = same @ ((rows @ rows.T).square() * same).sum(1)
    dim = unit.shape[1]
    if form == "paper":
        per_class = whole / (num - 1).clamp(min=1).square() / dim**2
        mean: Tensor = (per_class * share).sum() / share.sum().clamp(min=1e-9)
        return mean
    diagonal = (same @ rows.square()).square().sum(1)
    per_class = (whole - diagonal) / (dim**2 - dim)
    per_image: Tensor = (per_class * share).sum() / (num >= 2).sum().clamp(min=1)
    return per_image


def dot_regression(unit: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
    """Half the mean of (v . w - 1)^2 over the images, or over the counted ones (NCCIL)."""
    squares = ((unit * targets).sum(1) - 1).square() / 2
    return squares.mean() if counted is None else (squares * counted).sum() / counted.sum().clamp(min=1)
