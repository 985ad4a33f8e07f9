"""EFC (Magistri et al., ICLR 2024): no images; features are free to change where predictions do not depend on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.errors import UserError
from upcl.core.options import NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import make_backbone
from upcl.nets.elastic import ElasticNetwork, GaussianHead

from .base import Method


def feature_matrix(features: Tensor, scores: Tensor, weight: Tensor) -> Tensor:
    """Compute how strongly predictions depend on features: the mean of sum_c p_c g_c g_c', where g_c is the gradient of
    log p_c with respect to the features. For a linear classifier it is W' (diag(p) - p p') W.

    Args:
        features: features (N x d); only their number matters.
        scores: their scores (N x C).
        weight: rows of the classifier (C x d).

    Returns:
        The empirical feature matrix (d x d).

    Example:
        >>> feature_matrix(torch.zeros(1, 1), torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0], [0.0]])).item()
        1.0
    """
    shares = scores.softmax(1)
    spread = shares.mean(0).diag() - shares.T @ shares / len(features)
    return weight.T @ spread @ weight


def mean_drift(means: Tensor, before: Tensor, after: Tensor, metric: Tensor, sigma: float) -> Tensor:
    """Estimate how class means moved, from how the features of present images did: near ones count more.

    Args:
        means: class means, by the old network (C x d).
        before: features by the old network (N x d).
        after: features of the same images by the new one (N x d).
        metric: positive semi-definite matrix of squared distances (d x d).
        sigma: width of the weights, with distances scaled to [0, 1].

    Returns:
        What to add to the means (C x d).

    Example:
        >>> means, before = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.1, 0.0], [9.0, 0.0]])
        >>> after = before + torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> mean_drift(means, before, after, torch.eye(2), sigma=0.2).round(decimals=3).tolist()
        [[1.0, 0.0]]
    """
    of_means, of_rows = means @ metric, before @ metric
    squares = (of_means * means).sum(1)[:, None] - 2 * of_means @ before.T + (of_rows * before).sum(1)
    near = (squares.max() - squares) / (squares.max() - squares.min()).clamp(min=1e-12)
    return (near / (2 * sigma**2)).softmax(1) @ (after - before)


@dataclass(kw_only=True, eq=False)
class EFC(Method[GaussianHead]):
    """Elastic Feature Consolidation.

    First task: `L = CE` over the classes and their rotations. Later: `L = CE(z_new, y) + mean d' (lambda E + eta I) d +
    CE(z, y)`, where d is the change of an image's features, E the empirical feature matrix of the last task, and the
    last term is over new images and features drawn from the distributions of old classes, in proportion to the classes.
    Afterwards the means of old classes follow the drift of the features.

    References:
        S. Magistri, T. Trinci, A. Soutif-Cormerais, J. van de Weijer and A. D. Bagdanov. Elastic Feature Consolidation
        for Cold Start Exemplar-Free Incremental Learning. ICLR 2024.

    Example:
        >>> EFC(strength=5.0).damping
        0.1
    """

    name = "efc"
    title = "EFC"
    paper = "Elastic Feature Consolidation for Cold Start Exemplar-Free Incremental Learning (ICLR 2024)"
    summary = "keeps a normal distribution per class, and lets features change where predictions do not depend on them"
    deviations = (
        "SGD like every other method (official: Adam, apart from ImageNet's first task); new images of the last term "
        "come from the batch itself, not from the one before; statistics of images that are not augmented; the head "
        "has a bias"
    )
    recipes = Recipes(
        first=Recipe(epochs=160, batch_size=64, milestones=(80, 120, 150)),
        later=Recipe(epochs=100, batch_size=64, weight_decay=2e-4),
    )
    uses_memory = False
    net: ElasticNetwork = field(init=False, repr=False)

    strength: NonNegative = option(10.0, "lambda, the weight of the empirical feature matrix", "paper")
    damping: NonNegative = option(0.1, "eta, how strongly all other changes of features are held back", "paper")
    sigma: Positive = option(0.2, "width of the weights by which means follow the drift", "paper")
    rate: Positive = option(
        0.1, "learning rate of later tasks, as a share of the recipe's", "official code: Adam with 1e-3, then 1e-4"
    )
    max_norm: Positive = option(
        1.0,
        "largest norm of a later task's gradient, if the recipe has no limit",
        "this package: SGD diverges without it",
    )
    rotations: bool = option(True, "learn rotated images as classes of their own in the first task", "paper")

    @property
    def frozen_obstacle(self) -> str:
        """Features of a frozen backbone do not change."""
        return "it rotates images, and decides which features may change"

    def make_net(self) -> ElasticNetwork:
        *_, height, width = self.setting.image_shape
        if self.rotations and height != width:
            raise UserError(
                f"EFC rotates images by 90 degrees, but these are {width} x {height} pixels: use --set rotations=false"
            )
        backbone = make_backbone(self.setting.backbone, self.setting.channels)
        return ElasticNetwork(backbone, rotations=3 if self.rotations else 0)

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        self.net.end_task()
        self.consolidate()

    def stage(self) -> Stage:
        """Return the main stage; batch norms change in the first task alone."""
        stage = super().stage()
        if not self.task.num_old:
            return stage
        norms = [m for m in self.net.backbone.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        fixed = {id(p) for norm in norms for p in norm.parameters()}
        params = [p for p in stage.params if id(p) not in fixed]
        limit = stage.recipe.clip or self.max_norm
        recipe = dataclasses.replace(stage.recipe, lr=self.rate * stage.recipe.lr, clip=limit)
        return dataclasses.replace(stage, params=params, recipe=recipe, frozen=[self.net.backbone])

    def losses(self, batch: Batch) -> Losses:
        if self.teacher is None:
            return self.first_losses(batch)
        before = self.teacher.features(batch.inputs)
        features, num_old = self.net.features(batch.inputs), self.task.num_old
        scores, change = self.net.classify(features), features - before
        held = (change @ self.net.head.importance * change).sum(1).mean()
        return {
            "ce": F.cross_entropy(scores[:, num_old:], batch.labels - num_old),
            "change": self.strength * held + self.damping * change.square().sum(1).mean(),
            "replay": self.replay(scores, batch.labels),
        }

    def first_losses(self, batch: Batch) -> Losses:
        """Compute the loss of the first task.

        Args:
            batch: a batch of images.
        """
        images, labels, num = batch.inputs, batch.labels, self.task.num_seen
        if not self.rotations:
            return {"ce": F.cross_entropy(self.net(images), labels)}
        features = self.net.features(torch.cat([images.rot90(turns, (2, 3)) for turns in range(4)]))
        scores = torch.cat([self.net.classify(features), self.net.turned(features)], 1)
        return {"ce": F.cross_entropy(scores, torch.cat([labels + turns * num for turns in range(4)]))}

    def replay(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Compute the cross-entropy over all classes: of features drawn for old ones, and of some of the new images.

        Args:
            scores: scores of new images (B x C).
            labels: their labels (B).
        """
        task, head = self.task, self.net.head
        num_drawn = max(1, min(len(labels) - 1, round(len(labels) * task.num_old / task.num_seen)))
        order = torch.randperm(task.num_old, device=labels.device)
        drawn = order.repeat(-(-num_drawn // task.num_old))[:num_drawn]
        rest = len(labels) - num_drawn
        return F.cross_entropy(torch.cat([head(head.draw(drawn)), scores[:rest]]), torch.cat([drawn, labels[:rest]]))

    @torch.no_grad()
    def consolidate(self) -> None:
        """Let old means follow the drift, and measure the feature matrix and the distributions of new classes."""
        task, head = self.task, self.net.head
        features = self.extract(task.train)
        if self.teacher is not None:
            before = torch.cat([self.teacher.features(inputs) for inputs, _ in self.setting.batches(task.train)])
            old = head.means[: task.num_old]
            old += mean_drift(old, before, features, head.importance, self.sigma)
        head.importance = feature_matrix(features, self.net.classify(features), head.weight)
        rows = task.train.rows_by_class(task.num_seen)
        for k in range(task.num_old, task.num_seen):
            head.learn(k, features[rows[k].to(features.device)])
