"""The cosine rows of the UPCL paper's ablation: a learnable cosine head in place of uniform prototypes."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import cosine_distillation
from upcl.core.types import Batch, Losses
from upcl.nets import CosineHead, Network

from .margin import MarginMethod
from .upcl import UPCL


@dataclass(kw_only=True, eq=False)
class Cosine(MarginMethod[CosineHead]):
    """The "Baseline + Cos" rows of the UPCL paper's ablation.

    `L = (1 - lambda_2) CE(sigma cos + margin, y) + lambda_2 L_FKD` with `lambda_2 = C_old / C`.

    References:
        L. Wang, L. Xiang, Y. Wang, H. Wu and Z. He. Rethinking Class-Incremental Learning from a Dynamic Imbalanced
        Learning Perspective. arXiv, 2024.

    Example:
        >>> Cosine(margin="fixed").margin_size
        0.1
    """

    name = "cosine"
    title = "Baseline + Cos"
    paper = UPCL.paper + ", ablation"
    summary = "cosine head trained by cross-entropy, with feature distillation and a margin"
    deviations = (
        "new rows are random (zero in the official code: they never turn again after one step), and the teacher's "
        "features are normalised (they are not in the official code, so that the loss has no lower bound)"
    )
    recipes = UPCL.recipes

    def margin_on(self, labels: Tensor, scale: Tensor | float) -> Tensor | None:
        """Compute the margin; 'columns' acts on the scaled logits, as in the official cosine baseline.

        Args:
            labels: classes (B).
            scale: what cosines are multiplied by.
        """
        return super().margin_on(labels, 1.0 if self.margin == "columns" else scale)

    def make_net(self) -> Network[CosineHead]:
        return self.network_with(CosineHead)

    def losses(self, batch: Batch) -> Losses:
        features, head, past = self.net.features(batch.inputs), self.net.head, self.old_share
        scores = self.net.classify(features)
        margin = self.margin_on(batch.labels, head.sigma)
        losses = {"ce": (1 - past) * F.cross_entropy(scores if margin is None else scores + margin, batch.labels)}
        if self.teacher:
            old = F.normalize(self.teacher.features(batch.inputs))
            losses["fkd"] = past * cosine_distillation(F.normalize(features), old)
        return losses
