"""PASS (Zhu et al., CVPR 2021): rotated classes, old prototypes with noise, and features held near the teacher's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.losses import one_hot
from upcl.core.options import NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import Network
from upcl.nets.rotation_head import ROTATIONS, RotationHead

from .base import Method

_RECIPE = Recipe(epochs=100, batch_size=64, milestones=(45, 90), weight_decay=2e-4)


def rotate(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate each image by 0, 90, 180 and 270 degrees; every rotation of a class is a class of its own.

    Args:
        images: square images (B x channels x side x side).
        labels: their classes (B).

    Returns:
        The rotations of the first image, of the second one, and so on (4 B x channels x side x side), and their labels,
        `4 label + rotation` (4 B).

    Example:
        >>> images, labels = rotate(torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([2]))
        >>> images[1].tolist(), labels.tolist()
        ([[[2, 4], [1, 3]]], [8, 9, 10, 11])
    """
    turned = torch.stack([torch.rot90(images, k, (2, 3)) for k in range(ROTATIONS)], 1)
    rotations = torch.arange(ROTATIONS, device=labels.device)
    return turned.flatten(0, 1), (ROTATIONS * labels[:, None] + rotations).flatten()


@dataclass(kw_only=True, eq=False)
class PASS(Method[RotationHead]):
    """Prototype Augmentation and Self-Supervision.

    `L = CE(g(f) / tau, y) + kd ||f - f_old|| + prototypes CE(g(mu + r e) / tau, 4 k)`: f are the features of all images
    in four rotations and y tells class and rotation, mu is the prototype of a random old class k, e is normal noise,
    and r is the radius of the classes of the first task. The norm is that of the complete batch.

    References:
        F. Zhu, X.-Y. Zhang, C. Wang, F. Yin and C.-L. Liu. Prototype Augmentation and Self-Supervision for Incremental
        Learning. CVPR 2021.

    Example:
        >>> PASS(kd=1.0).temperature
        0.1
    """

    name = "pass"
    title = "PASS"
    paper = "Prototype Augmentation and Self-Supervision for Incremental Learning (CVPR 2021)"
    summary = (
        "samples around a prototype per old class, classifies rotations, and keeps features close to the teacher's"
    )
    deviations = (
        "SGD instead of Adam, and therefore a factor on all terms; prototypes and the radius are computed from all "
        "images, as they are (the code augments them and leaves out the last batch); as many samples around prototypes "
        "as the batch has images"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    uses_memory = False

    temperature: Positive = option(0.1, "tau, divides scores in training", "official code")
    kd: NonNegative = option(10.0, "weight of the distance of features to the teacher's", "paper, official code")
    prototypes: NonNegative = option(10.0, "weight of the samples around prototypes", "paper, official code")
    scale: Positive = option(
        0.01, "factor of all terms, to which the official code's optimiser is invariant", "this package, for SGD"
    )

    @property
    def frozen_obstacle(self) -> str:
        """Features cannot be rotated."""
        return "it rotates images"

    def make_net(self) -> Network[RotationHead]:
        height, width = self.setting.image_shape[-2:]
        if height != width:
            raise UserError(
                f"PASS rotates images, which must be square, but these are {height} x {width} pixels: crop them, or "
                "use another method without exemplars, such as fetril"
            )
        return self.network_with(RotationHead)

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        self.keep_prototypes()

    @torch.no_grad()
    def keep_prototypes(self) -> None:
        """Store the mean features of the new classes, and in the first task the radius of its classes."""
        task, head, features = self.task, self.net.head, self.extract(self.task.train)
        labels = task.train.labels.to(features.device) - task.num_old
        of = one_hot(labels, task.num_new, features.dtype)
        counts = of.sum(0)
        means = of.T @ features / counts.clamp(min=1)[:, None]
        head.prototypes[task.num_old :] = means
        if task.index == 0:
            squares = of.T @ (features - means[labels]).square().mean(1)
            variances = squares / (counts - 1).clamp(min=1)
            head.radius.copy_((variances.sum() / (counts > 1).sum().clamp(min=1)).sqrt())  # one image has no variance

    def losses(self, batch: Batch) -> Losses:
        images, labels = rotate(batch.inputs, batch.labels)
        old = self.teacher.features(images) if self.teacher else None
        features = self.net.features(images)
        losses = {"ce": self.classification(features, labels)}
        if old is not None:
            sampled, rows = self.net.head.sample(len(batch.labels), self.task.num_old)
            losses["kd"] = self.kd * torch.linalg.vector_norm(features - old)
            losses["prototypes"] = self.prototypes * self.classification(sampled, rows)
        return {name: self.scale * loss for name, loss in losses.items()}

    def classification(self, features: Tensor, labels: Tensor) -> Tensor:
        """Compute cross-entropy over all rotations of all classes.

        Args:
            features: features (B x dim).
            labels: rows of the head (B).
        """
        return F.cross_entropy(self.net.head.rotation_scores(features) / self.temperature, labels)
