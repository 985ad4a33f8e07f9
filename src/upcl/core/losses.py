"""Loss terms: tensors in, scalar out. Notation: B batch size, C classes, d features, `tau` a temperature."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def one_hot(labels: Tensor, num_classes: int, dtype: torch.dtype) -> Tensor:
    """Encode labels as rows with a single 1 (B x C).

    torch's `one_hot` inspects the labels first, which forces the device to synchronise.

    Args:
        labels: class indices (B).
        num_classes: number of classes C.
        dtype: type of the result.

    Example:
        >>> one_hot(torch.tensor([1, 0]), 3, torch.int64).tolist()
        [[0, 1, 0], [1, 0, 0]]
    """
    return (labels[:, None] == torch.arange(num_classes, device=labels.device)).to(dtype)


def log_prior(counts: Tensor) -> Tensor:
    """Compute log p_k from the number of images per class.

    A class without any image counts as one: it stays a weak rival instead of leaving the softmax with log 0.

    Args:
        counts: images per class (C).

    Example:
        >>> log_prior(torch.tensor([10, 30])).exp().tolist()
        [0.25, 0.75]
    """
    counts = counts.clamp(min=1).float()
    return (counts / counts.sum()).log()


def distillation(
    student: Tensor, teacher: Tensor, temperature: float = 2.0, class_weights: Tensor | None = None
) -> Tensor:
    """Distil logits: `KD_T = -mean_b sum_k softmax(q_b / T)_k log softmax(s_b / T)_k`.

    This is the cross-entropy form without the factor T^2 (PyCIL). Its gradient is that of the Kullback-Leibler form.

    Args:
        student: logits s of the student over the old classes (B x C_old).
        teacher: logits q of the teacher (B x C_old).
        temperature: the temperature T.
        class_weights: multiply the teacher's probabilities, which are then made to sum to 1 again (C_old).

    Example:
        >>> same = torch.tensor([[2.0, 0.0]])
        >>> bool(distillation(same, same) < distillation(-same, same))
        True
    """
    targets = (teacher / temperature).softmax(1)
    if class_weights is not None:
        targets = targets * class_weights
        targets = targets / targets.sum(1, keepdim=True)
    return -(targets * (student / temperature).log_softmax(1)).sum(1).mean()


def cosine_distillation(unit: Tensor, teacher_unit: Tensor) -> Tensor:
    """Distil the direction of features: L_FKD, the mean of 1 - cos.

    Args:
        unit: unit features of the student (B x d).
        teacher_unit: unit features of the teacher (B x d).

    Example:
        >>> cosine_distillation(torch.eye(2), torch.eye(2)).item()
        0.0
    """
    return (1 - (unit * teacher_unit).sum(1)).mean()


def supervised_contrast(unit: Tensor, labels: Tensor, tau: float, *, self_pair: bool = True) -> Tensor:
    """Contrast each image with all images of the batch; those of its class are its positives (L_feat).

    `L = -mean_i 1/|P(i)| sum_{j in P(i)} log softmax_j(v_i . v_j / tau)`

    Args:
        unit: unit features v (B x d).
        labels: classes (B).
        tau: temperature.
        self_pair: whether an image is one of its own positives and part of its denominator (official UPCL code).
            Otherwise, as in Khosla et al. (Supervised Contrastive Learning, NeurIPS 2020), an image whose class occurs
            only once in the batch has no positive and is left out of the mean.

    Example:
        >>> unit = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> together, apart = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
        >>> bool(supervised_contrast(unit, together, 0.1) < supervised_contrast(unit, apart, 0.1))
        True
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


def view_contrast(rows: Tensor, targets: Tensor, tau: float) -> Tensor:
    """Recognise the other view of an image among all other rows of the batch (InfoNCE).

    `L = -mean_i log softmax_{j != i}(cos(r_i, t_j) / tau)_{p(i)}`, where p(i) = i + B/2 or i - B/2 is the other view.

    Args:
        rows: embeddings r of the first views of all images, then of their second views (B x d).
        targets: what they are compared with, in the same order (B x d): the same embeddings, or those of a teacher.
        tau: temperature.

    Example:
        >>> first, second = torch.eye(2), 2 * torch.eye(2)
        >>> alike = torch.cat([first, second])
        >>> swapped = torch.cat([first, second.flip(0)])
        >>> bool(view_contrast(alike, alike, 0.2) < view_contrast(swapped, swapped, 0.2))
        True
    """
    num = len(rows)
    alone = torch.eye(num, dtype=torch.bool, device=rows.device)
    logits = (F.normalize(rows) @ F.normalize(targets).T / tau).masked_fill(alone, float("-inf"))
    return F.cross_entropy(logits, torch.arange(num, device=rows.device).roll(num // 2))


def prototype_contrast(cosines: Tensor, labels: Tensor, tau: float, margin: Tensor | None = None) -> Tensor:
    """Contrast each image with all prototypes: cross-entropy of cos / tau plus a margin (L_proto).

    Args:
        cosines: cosines between features and prototypes (B x C).
        labels: classes (B).
        tau: temperature.
        margin: what to add to the logits, per class (C) or per entry (B x C).

    Example:
        >>> cosines, labels = torch.eye(2), torch.tensor([0, 1])
        >>> round(prototype_contrast(cosines, labels, tau=0.5).item(), 4)
        0.1269
    """
    logits = cosines / tau
    return F.cross_entropy(logits if margin is None else logits + margin, labels)


def focal(scores: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Compute the focal loss, which gives easy images less weight: the mean of (1 - p_y)^gamma (-log p_y).

    Lin et al., Focal Loss for Dense Object Detection, ICCV 2017.

    Args:
        scores: logits (B x C).
        labels: classes (B).
        gamma: strength; 0 is cross-entropy.

    Example:
        >>> scores, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
        >>> bool(focal(scores, labels, 2.0) < focal(scores, labels, 0.0))
        True
    """
    log_p = scores.log_softmax(1).gather(1, labels[:, None])[:, 0]
    missed = (-torch.expm1(log_p)).clamp(min=1e-12)  # 1 - p_y; its power has a gradient even if p_y rounds to 1
    return -(missed**gamma * log_p).mean()


def ldam_margins(counts: Tensor, largest: float) -> Tensor:
    """Compute margins proportional to n_k^(-1/4), scaled so that the rarest class has the largest one.

    Cao et al., Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss, NeurIPS 2019.

    Args:
        counts: training images per class (C); 0 counts as 1.
        largest: margin of the rarest class.

    Example:
        >>> ldam_margins(torch.tensor([1, 16]), largest=0.5).tolist()
        [0.5, 0.25]
    """
    margins = counts.clamp(min=1).float() ** -0.25
    return margins * (largest / margins.max())


def effective_weights(counts: Tensor, beta: float) -> Tensor:
    """Compute class weights (1 - beta) / (1 - beta^n_k), scaled to sum to the number of classes.

    The inverse effective number of samples (Cui et al., CVPR 2019), which LDAM uses for deferred re-weighting.

    Args:
        counts: training images per class (C); 0 counts as 1.
        beta: from 0 (equal weights) to 1, excluded (inverse frequencies, in the limit).

    Example:
        >>> effective_weights(torch.tensor([1, 1]), beta=0.9).tolist()
        [1.0, 1.0]
    """
    effective = [-math.expm1(n * math.log(beta)) for n in counts.clamp(min=1).tolist()] if beta else [1.0] * len(counts)
    weights = torch.tensor([1 / number for number in effective], device=counts.device)
    return weights / weights.sum() * len(counts)


def margin_ranking(
    cosines: Tensor, labels: Tensor, num_old: int, *, rivals: int, margin: float, reduction: Literal["mean", "sum"]
) -> Tensor:
    """Keep the cosine of an image of an old class above those of its nearest new classes by a margin (LUCIR).

    Hinge: max(0, margin - cos_y + cos_k) over the `rivals` new classes k with the largest cosines. Images of new
    classes do not count; without any image of an old class the loss is zero.

    Args:
        cosines: cosines between features and class vectors (B x C).
        labels: classes (B).
        num_old: number of old classes.
        rivals: new classes to rank against; at most all of them are used.
        margin: required difference of the cosines.
        reduction: "mean" averages over images and rivals (official code), "sum" sums over the rivals (paper).

    Example:
        >>> cosines = torch.tensor([[0.75, 0.5]])
        >>> margin_ranking(cosines, torch.tensor([0]), 1, rivals=1, margin=0.5, reduction="mean").item()
        0.25
    """
    own = cosines.gather(1, labels[:, None])
    nearest = cosines[:, num_old:].topk(min(rivals, cosines.shape[1] - num_old), 1).values
    is_old = (labels < num_old).to(cosines.dtype)
    hinge = (margin - own + nearest).clamp(min=0)
    per_image = hinge.mean(1) if reduction == "mean" else hinge.sum(1)
    return (per_image * is_old).sum() / is_old.sum().clamp(min=1)


def decorrelation(unit: Tensor, labels: Tensor, form: Literal["code", "paper"]) -> Tensor:
    """Measure how strongly the features of one class are correlated (CwD), over classes with two or more images.

    With X_c the centred features of class c divided by their unbiased standard deviation and R_c = X_c' X_c: "code" is
    the mean squared off-diagonal entry of R_c, summed over classes and divided by the number of images used; "paper" is
    the class mean of |R_c/(n-1)|^2/d^2. |R_c|^2 is read off the Gram matrix of the images, so that no d x d matrix is
    built.

    Args:
        unit: unit features (B x d).
        labels: classes (B).
        form: "code" or "paper".

    Example:
        >>> labels = torch.zeros(4, dtype=torch.int64)
        >>> linked = torch.tensor([[1.0, 1], [-1, -1], [2, 2], [-2, -2]])
        >>> free = torch.tensor([[1.0, 1], [-1, 1], [1, -1], [-1, -1]])
        >>> [round(decorrelation(features, labels, "paper").item(), 4) for features in (linked, free)]
        [1.0, 0.5]
    """
    same = (labels[:, None] == labels[None, :]).to(unit.dtype)
    num = same.sum(1)  # of each image's class; a sum over classes is a sum over images of 1 / num
    share = (num >= 2) / num
    centred = unit - same @ unit / num[:, None]
    variance = same @ centred.square() / (num - 1).clamp(min=1)[:, None]
    rows = centred / (variance + 1e-8).sqrt()
    squared = same @ ((rows @ rows.T).square() * same).sum(1)
    dim = unit.shape[1]
    if form == "paper":
        per_class = squared / (num - 1).clamp(min=1).square() / dim**2
        mean: Tensor = (per_class * share).sum() / share.sum().clamp(min=1e-9)
        return mean
    diagonal = (same @ rows.square()).square().sum(1)
    per_class = (squared - diagonal) / (dim**2 - dim)
    per_image: Tensor = (per_class * share).sum() / (num >= 2).sum().clamp(min=1)
    return per_image


def dot_regression(unit: Tensor, targets: Tensor, counted: Tensor | None = None) -> Tensor:
    """Regress dot products towards 1: half the mean of (v . w - 1)^2 (NCCIL).

    Args:
        unit: unit features v (B x d).
        targets: unit target w of each image (B x d).
        counted: which images count, as 0 and 1 (B); all by default.

    Example:
        >>> dot_regression(torch.eye(2), torch.eye(2)).item()
        0.0
    """
    squares = ((unit * targets).sum(1) - 1).square() / 2
    return squares.mean() if counted is None else (squares * counted).sum() / counted.sum().clamp(min=1)


def neighbourhood(scores: Tensor, labels: Tensor, margin: Tensor | float, form: Literal["code", "paper"]) -> Tensor:
    """Contrast the target's score with those of all other classes (NCA, PODNet).

    "paper": the mean of max(0, margin - s_y + log sum_{k != y} exp s_k). "code": cross-entropy in which the largest
    score of all stands for the target's in the denominator: the official code sets the target's difference to the
    largest score to 0 instead of leaving it out, and subtracts the margin from all scores, where it cancels.

    Args:
        scores: scores s (B x C).
        labels: classes (B).
        margin: what the target's score must be ahead by, for "paper".
        form: "code" or "paper".

    Example:
        >>> scores, labels = torch.tensor([[3.0, 1.0]]), torch.tensor([0])
        >>> neighbourhood(scores, labels, 2.5, "paper").item()
        0.5
    """
    target = one_hot(labels, scores.shape[1], torch.bool)
    own = scores.gather(1, labels[:, None])[:, 0]
    if form == "code":
        largest = scores.max(1, keepdim=True).values
        return (torch.where(target, largest, scores).logsumexp(1) - own).mean()
    rivals = scores.masked_fill(target, torch.finfo(scores.dtype).min)  # finite: the only class has no rival
    return (margin - own + rivals.logsumexp(1)).clamp(min=0).mean()
