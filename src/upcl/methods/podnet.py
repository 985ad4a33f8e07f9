"""PODNet (Douillard et al., ECCV 2020): pooled maps of all stages are distilled; several proxies for each class."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.clusters import k_means
from upcl.core.errors import UserError
from upcl.core.losses import cosine_distillation, neighbourhood
from upcl.core.options import Natural, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import Network
from upcl.nets.extractors import StagedExtractor, pool_map
from upcl.nets.proxy_head import ProxyHead

from .base import Method

_RECIPE = Recipe(epochs=160, schedule="cosine")


@dataclass(kw_only=True, eq=False)
class PODNet(Method[ProxyHead]):
    """Pooled Outputs Distillation.

    `L = NCA(sigma y, label) + r (lambda_c mean_l ||p_l - p_l_old|| + lambda_f mean (1 - cos(f, f_old)))` with
    `r = sqrt(C / C_new)`, where p_l are the unit sums of squares over rows and columns of the map after stage l, and y
    the similarities to the classes' proxies. Then the proxies alone are trained on the balanced exemplars.

    References:
        A. Douillard, M. Cord, C. Ollion, T. Robert and E. Valle. PODNet: Pooled Outputs Distillation for Small-Tasks
        Incremental Learning. ECCV 2020.

    Example:
        >>> PODNet(spatial=8.0, flat=10.0).proxies
        10
    """

    name = "podnet"
    title = "PODNet"
    paper = "PODNet: Pooled Outputs Distillation for Small-Tasks Incremental Learning (ECCV 2020)"
    summary = "distils pooled maps of all stages; several proxies per class, which are tuned on balanced exemplars"
    deviations = (
        "maps after the ReLU of their stage, like those that the next stage sees; the backbone is frozen, with its "
        "batch norms, while proxies are tuned; gradients are not clipped"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)

    spatial: NonNegative = option(3.0, "lambda_c, the weight of POD-spatial", "official code, CIFAR; ImageNet: 8")
    flat: NonNegative = option(1.0, "lambda_f, the weight of POD-flat", "official code, CIFAR; ImageNet: 10")
    proxies: Natural = option(10, "proxies per class", "paper")
    nca: Literal["code", "paper"] = option(
        "code", "'paper' has a margin and leaves the target out of the denominator", "official code"
    )
    margin: NonNegative = option(0.6, "margin of the paper's form; in the code's it has no effect", "paper")
    tuning_share: NonNegative = option(
        20 / 160, "epochs of tuning the proxies, as a share of the task's; 0 leaves it out", "official code: 20 of 160"
    )
    tuning_rate: Positive = option(
        0.5, "learning rate of tuning, as a share of the task's", "official code, CIFAR; ImageNet: 0.2"
    )

    def make_net(self) -> Network[ProxyHead]:
        net = self.network_with(lambda dim: ProxyHead(dim, self.proxies), last_relu=False)
        if not isinstance(net.backbone, StagedExtractor):
            raise UserError(
                f"PODNet distils the maps after each stage, which backbone '{self.setting.backbone}' does not show: "
                "use one of the package's own, such as resnet18 (`upcl list backbones`)"
            )
        return net

    @property
    def frozen_obstacle(self) -> str:
        """Features have no maps."""
        return "it distils the maps after the stages of the backbone"

    @property
    def online_obstacle(self) -> str:
        """The tuning sees exemplars of the task a second time."""
        reason = "proxies are tuned on exemplars that were trained on before; add --set tuning_share=0"
        return reason if self.tuning_share else ""

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        self.remember()
        if task.num_old and len(self.memory.samples) and self.tuning_share:
            yield self.tuning_stage()

    def begin(self, task: Task) -> None:
        super().begin(task)
        if self.teacher is not None:
            self.imprint()

    @torch.no_grad()
    def imprint(self) -> None:
        """Place the proxies of each new class at the centres of clusters of its unit features."""
        task, head = self.task, self.net.head
        features = F.normalize(self.extract(task.train)).cpu()
        rows = task.train.rows_by_class(task.num_seen)[task.num_old :]
        centres = torch.stack([k_means(features[members], self.proxies) for members in rows])
        head.new.copy_(centres * head.old.norm(dim=2).mean().cpu())

    def stage(self) -> Stage:
        """Return the main stage, which does not train the old proxies."""
        params = [p for p in self.net.parameters() if p is not self.net.head.old]
        return dataclasses.replace(super().stage(), params=params)

    def tuning_stage(self) -> Stage:
        """Return the second stage: the proxies of all classes, on exemplars."""
        epochs = max(1, round(self.tuning_share * self.recipe.epochs))
        recipe = dataclasses.replace(
            self.recipe, epochs=epochs, lr=self.tuning_rate * self.recipe.lr, schedule="step", milestones=()
        )
        params = [self.net.head.old, self.net.head.new]
        return Stage("tuning", self.memory.samples, self.head_losses, params, recipe, frozen=[self.net.backbone])

    def losses(self, batch: Batch) -> Losses:
        if self.teacher is None:
            return self.head_losses(batch)
        old = self.look(self.teacher, batch.inputs)
        new = self.look(self.net, batch.inputs)
        ratio = (self.task.num_seen / self.task.num_new) ** 0.5
        distances = [(p - q).norm(dim=1).mean() for p, q in zip(new[:-1], old[:-1], strict=True)]
        forget = cosine_distillation(F.normalize(new[-1]), F.normalize(old[-1]))
        return {
            "nca": self.classification(new[-1], batch.labels),
            "spatial": self.spatial * ratio * torch.stack(distances).mean(),
            "flat": self.flat * ratio * forget,
        }

    def head_losses(self, batch: Batch) -> Losses:
        """Compute the classification loss alone: in the first task, and while proxies are tuned.

        Args:
            batch: a batch of images.
        """
        return {"nca": self.classification(self.net.features(batch.inputs), batch.labels)}

    def classification(self, features: Tensor, labels: Tensor) -> Tensor:
        """Compute the NCA loss.

        Args:
            features: features (B x dim).
            labels: labels (B).
        """
        head = self.net.head
        margin = (
            head.sigma.detach() * self.margin
        )  # else the margin's gradient turns the scale negative within 20 steps
        return neighbourhood(head(features), labels, margin, self.nca)

    def look(self, net: Network[ProxyHead], images: Tensor) -> tuple[Tensor, ...]:
        """Compute the pooled map of each stage, and the features.

        Args:
            net: the network or the teacher.
            images: normalised images.
        """
        backbone, widths = net.backbone, list[int]()
        assert isinstance(backbone, StagedExtractor)

        def compute(part: Tensor) -> Tensor:
            maps = backbone.stage_maps(part)
            rows = [*map(pool_map, maps), maps[-1].float().mean((2, 3))]
            widths[:] = [row.shape[1] for row in rows]
            return torch.cat(rows, 1)  # as one tensor, which shards can be joined of

        parts: tuple[Tensor, ...] = net.execute(compute, images).split(widths, 1)
        return parts
