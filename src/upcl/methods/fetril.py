"""FeTrIL (Petit et al., WACV 2023): a frozen backbone; old classes are imitated by translated features of new ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.options import Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.nets import MeansHead, Network

from .base import Method


def nearest_new(old: Tensor, new: Tensor, by: Literal["cosine", "euclid"]) -> Tensor:
    """Find the nearest new class of each old class.

    Args:
        old: mean features of the old classes (n x d).
        new: mean features of the new classes (m x d).
        by: largest cosine or smallest Euclidean distance.

    Returns:
        The index of a new class per old class (n).

    Example:
        >>> old, new = torch.tensor([[2.0, 0.2], [0.1, 1.0]]), torch.tensor([[5.0, 1.0], [0.5, 0.6]])
        >>> nearest_new(old, new, "cosine").tolist(), nearest_new(old, new, "euclid").tolist()
        ([0, 1], [1, 1])
    """
    if by == "cosine":
        return (F.normalize(old) @ F.normalize(new).T).argmax(1)
    return torch.cdist(old, new).argmin(1)


@dataclass(kw_only=True, eq=False)
class FeTrIL(Method[MeansHead]):
    """Feature Translation, in PyCIL's form.

    First task: `L = CE(z, y)`. Later tasks, with the backbone frozen: `L = CE(W f, y)` over the features f of new
    images and the pseudo-features `f - mean_n + mean_c` of each old class c, where n is the new class nearest to c.

    References:
        G. Petit, A. Popescu, H. Schindler, D. Picard and B. Delezoide. FeTrIL: Feature Translation for Exemplar-Free
        Class-Incremental Learning. WACV 2023.

    Example:
        >>> FeTrIL(classifier="svm").svm_c
        1.0
    """

    name = "fetril"
    title = "FeTrIL"
    paper = "FeTrIL: Feature Translation for Exemplar-Free Class-Incremental Learning (WACV 2023); PyCIL's form"
    summary = "keeps one mean per class: the backbone is frozen after the first task, and only the head is trained"
    deviations = "no exemplars; the data set's own augmentation (PyCIL adds AutoAugment and Cutout in the first task)"
    recipes = Recipes(
        first=Recipe(epochs=200, schedule="cosine"),
        later=Recipe(epochs=50, lr=0.05, schedule="cosine"),
    )
    uses_memory = False
    uses_teacher = False

    nearest: Literal["cosine", "euclid"] = option(
        "cosine", "how the nearest new class is found", "PyCIL; official: euclid"
    )
    classifier: Literal["linear", "svm"] = option(
        "linear", "linear head trained by SGD, or one-vs-rest SVMs", "PyCIL; official: svm"
    )
    svm_c: Positive = option(1.0, "C of the SVMs", "official code")

    @property
    def online_obstacle(self) -> str:
        """SVMs are fitted until they converge."""
        is_svm = self.classifier == "svm"
        return "SVMs are fitted in many passes over the features; add --set classifier=linear" if is_svm else ""

    def make_net(self) -> Network[MeansHead]:
        return self.network_with(MeansHead)

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        if task.index == 0:
            yield self.stage()
        self.compute_means()
        rows = self.translate_features()
        if self.classifier == "svm":
            self.fit_svm(rows)
        elif task.index > 0:
            params = [self.net.head.weight, self.net.head.bias]
            yield Stage("head", rows, self.head_losses, params, self.recipe, False, [self.net.backbone])

    def compute_means(self) -> None:
        """Extract the features of the new classes, and store their means, which stay as they are from now on."""
        task = self.task
        self.features = self.extract(task.train)
        of = F.one_hot(task.train.labels.to(self.features.device) - task.num_old, task.num_new).to(self.features.dtype)
        self.net.head.means[task.num_old :] = of.T @ self.features / of.sum(0)[:, None]

    def translate_features(self) -> Samples:
        """Return the new features, and for each old class those of the nearest new class, translated to its mean."""
        means, num_old, labels = self.net.head.means, self.task.num_old, self.task.train.labels.to(self.setting.device)
        rows, classes = [self.features], [labels]
        near = nearest_new(means[:num_old], means[num_old:], self.nearest).tolist() if num_old else []
        for k, n in enumerate(near):
            like = self.features[labels == num_old + n]
            rows.append(like - means[num_old + n] + means[k])
            classes.append(torch.full((len(like),), k, device=labels.device))
        return Samples(torch.cat(rows), torch.cat(classes))

    def losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}

    def head_losses(self, batch: Batch) -> Losses:
        """Compute the loss terms of the stage that trains the head.

        Args:
            batch: a batch of features.
        """
        return {"ce": F.cross_entropy(self.net.head(batch.inputs), batch.labels)}

    @torch.no_grad()
    def fit_svm(self, rows: Samples) -> None:
        """Fit one-vs-rest linear SVMs on normalised features, and copy their weights to the head.

        Args:
            rows: features of all classes seen.
        """
        from sklearn.svm import LinearSVC

        if self.task.num_seen == 1:
            return
        svm = LinearSVC(C=self.svm_c, tol=1e-4, dual="auto", random_state=0)
        svm.fit(F.normalize(rows.inputs).cpu().numpy(), rows.labels.cpu().numpy())
        weight, bias = torch.from_numpy(svm.coef_), torch.from_numpy(svm.intercept_)
        if self.task.num_seen == 2:  # scikit-learn fits one hyperplane for two classes
            weight, bias = torch.cat([-weight, weight]), torch.cat([-bias, bias])
        self.net.head.weight.copy_(weight)
        self.net.head.bias.copy_(bias)

    def scores(self, features: Tensor) -> Tensor:
        return super().scores(F.normalize(features) if self.classifier == "svm" else features)
