"""Margins: what is added to the logits of a classifier in training, so that rare classes are not crowded out."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .losses import log_prior, one_hot


def target_margin(labels: Tensor, num_classes: int, margins: Tensor | float) -> Tensor:
    """Create a margin that lowers the target's logit (AM-softmax): -margin at the target, 0 elsewhere.

    Args:
        labels: classes (B).
        num_classes: number of classes C.
        margins: one margin for all classes, or one per class (C).

    Returns:
        What to add to the logits (B x C).

    Example:
        >>> target_margin(torch.tensor([1]), 3, torch.tensor([0.1, 0.5, 0.1])).tolist()
        [[-0.0, -0.5, -0.0]]
    """
    if isinstance(margins, Tensor):
        margins = margins[labels][:, None]
    return -margins * one_hot(labels, num_classes, torch.float32)


Margin = Literal["prior", "paper_literal", "fixed", "columns", "none"]
"""The kinds of margin that `margin_logits` knows."""


def bounded_log_prior(counts: Tensor, strength: float, largest: Tensor | float) -> Tensor:
    """Compute s log p_k with the largest strength s at which no two classes differ by more than a bound.

    Args:
        counts: images per class (C).
        strength: upper limit of s.
        largest: the largest difference between two classes.

    Example:
        >>> counts = torch.tensor([1, 100])
        >>> bounded_log_prior(counts, 1.0, largest=2.0).diff().item()
        2.0
    """
    prior = log_prior(counts)
    spread = (prior.max() - prior.min()).clamp(min=1e-12)
    return prior * (largest / spread).clamp(max=strength)


def margin_logits(
    kind: Margin, labels: Tensor, counts: Tensor, num_old: int, scale: Tensor | float, sizes: tuple[float, float]
) -> Tensor | None:
    """Compute what a margin adds to the logits scale * cos.

    Args:
        kind: "prior": log p. "paper_literal": scale * log p. "fixed": -scale * size on the target, with the size of new
            classes. "columns": -scale * size on each column. "none": nothing.
        labels: classes (B).
        counts: training images per class (C), for the prior.
        num_old: number of old classes, for "columns".
        scale: what cosines are multiplied by.
        sizes: margins of old and of new classes, for "fixed" and "columns".

    Returns:
        The margin per class (C) or per entry (B x C); None for "none".

    Example:
        >>> counts, labels = torch.tensor([10, 30]), torch.tensor([0])
        >>> margin_logits("columns", labels, counts, num_old=1, scale=10.0, sizes=(0.25, 0.5)).tolist()
        [-2.5, -5.0]
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
