"""A plain implementation to compare with, as is common in the field: one image and one class at a time, with a
synchronisation in every step."""

from __future__ import annotations

import copy
import logging
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageEnhance, ImageOps
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class PlainImages(Dataset[tuple[Tensor, int]]):
    """An array of images, each augmented on its own as torchvision's transforms do.

    Padded crop, flip, brightness by a colour jitter, conversion to a tensor, normalisation; torch draws all random
    numbers.

    Args:
        images: uint8 array of shape N x H x W x C.
        labels: one label per image.
        mean: mean of each channel.
        std: standard deviation of each channel.

    Example:
        >>> images = PlainImages(np.zeros((2, 8, 8, 3), np.uint8), np.array([0, 1]), (0.5,) * 3, (0.25,) * 3)
        >>> images[1][0].shape, images[1][1]
        (torch.Size([3, 8, 8]), 1)
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.images, self.labels, self.mean, self.std = images, labels, mean, std

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = self.images[index]
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
        padded = ImageOps.expand(image, border=4, fill=0)
        top, left = (int(torch.randint(0, 9, (1,)).item()) for _ in range(2))
        image = padded.crop((left, top, left + image.width, top + image.height))
        if torch.rand(1) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for change in torch.randperm(4):  # brightness, contrast, saturation, hue; only brightness is enabled
            if change == 0:
                factor = float(torch.empty(1).uniform_(1 - 63 / 255, 1 + 63 / 255))
                image = ImageEnhance.Brightness(image).enhance(factor)
        array = np.array(image, np.uint8, copy=True)
        array = array.reshape(image.height, image.width, -1)
        tensor = torch.from_numpy(array).permute(2, 0, 1).contiguous().float().div(255)
        mean, std = (torch.as_tensor(values, dtype=tensor.dtype).view(-1, 1, 1) for values in (self.mean, self.std))
        return tensor.clone().sub_(mean).div_(std), int(self.labels[index])


def plain_contrast(unit: Tensor, labels: Tensor, tau: float) -> Tensor:
    """Compute supervised contrast with masks over exponentials.

    Args:
        unit: normalised features.
        labels: one label per row.
        tau: temperature.

    Example:
        >>> round(plain_contrast(torch.eye(2), torch.tensor([0, 1]), 1.0).item(), 4)
        0.3133
    """
    similarity = unit @ unit.T / tau
    exponentials = torch.exp(similarity)
    mask = (labels[:, None] == labels[None, :]).float()
    log_share = similarity - torch.log(exponentials.sum(1, keepdim=True))
    return -(mask * log_share).sum(1).div(mask.sum(1)).mean()


class PlainPrototypeHead:
    """Prototypes with loops over classes for centroids and matching, solved from scratch for every batch.

    Args:
        frame: the prototypes, one per class.
        counts: training images per class.

    Example:
        >>> head = PlainPrototypeHead(torch.eye(2), counts=torch.tensor([10, 10]))
        >>> head.match(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1]))
        >>> head.prototypes.tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, frame: Tensor, counts: Tensor) -> None:
        self.prototypes, self.frame, self.counts = frame.clone(), frame.clone(), counts
        self.centroids: dict[int, Tensor] = {}

    def match(self, unit: Tensor, labels: Tensor) -> None:
        """Update the centroids of the classes in a batch and assign prototypes.

        Args:
            unit: normalised features.
            labels: one label per row.
        """
        for k in labels.unique():
            mean = F.normalize(unit[labels == k].mean(0), dim=0)
            old = self.centroids.get(k.item())
            self.centroids[k.item()] = mean if old is None else F.normalize(0.9 * old + 0.1 * mean, dim=0)
        cost = np.zeros((len(self.frame), len(self.frame)))
        for k in range(len(self.frame)):
            centroid = self.centroids.get(k, self.frame[k])
            cost[k] = -(self.frame @ centroid).numpy()
        self.prototypes = self.frame[torch.from_numpy(linear_sum_assignment(cost)[1])]

    def loss(self, features: Tensor, labels: Tensor, _: Tensor) -> Tensor:
        """UPCL's loss of a batch.

        Args:
            features: features of the batch.
            labels: one label per row.
        """
        unit = F.normalize(features)
        self.match(unit.detach(), labels)
        prior = (self.counts / self.counts.sum()).log()
        logits = unit @ self.prototypes.T / 0.07 + prior
        return plain_contrast(unit, labels, 0.07) + F.cross_entropy(logits, labels)


class PlainLinearHead:
    """The loss of iCaRL and WA in a later task: cross-entropy, and distillation from an old network.

    Args:
        backbone: the network; a copy of it is the teacher.
        dim: number of feature dimensions.
        num_old: number of old classes.
        num_classes: number of all classes.

    Example:
        >>> head = PlainLinearHead(nn.Flatten(), dim=4, num_old=2, num_classes=3)
        >>> images = torch.ones(2, 1, 2, 2)
        >>> head.loss(images.flatten(1), torch.tensor([0, 2]), images).ndim
        0
    """

    def __init__(self, backbone: nn.Module, dim: int, num_old: int, num_classes: int) -> None:
        self.teacher = copy.deepcopy(backbone).eval()
        self.head, self.old_head = nn.Linear(dim, num_classes), nn.Linear(dim, num_old)

    def loss(self, features: Tensor, labels: Tensor, inputs: Tensor) -> Tensor:
        """The loss of a batch.

        Args:
            features: features of the batch.
            labels: one label per row.
            inputs: images of the batch, for the teacher.
        """
        logits, num_old = self.head(features), self.old_head.out_features
        with torch.no_grad():
            old_logits = self.old_head(self.teacher(inputs))
        soft = torch.softmax(old_logits / 2, dim=1)
        distillation = -torch.mul(soft, torch.log_softmax(logits[:, :num_old] / 2, dim=1)).sum() / len(labels)
        return F.cross_entropy(logits, labels) + distillation


def plain_epoch(
    backbone: nn.Module,
    head: PlainPrototypeHead | PlainLinearHead,
    images: PlainImages,
    batch_size: int,
    num_workers: int,
) -> torch.optim.Optimizer:
    """Train for one epoch, waiting for the loss after every step.

    Args:
        backbone: the network.
        head: the head with its loss.
        images: the training data.
        batch_size: images per step.
        num_workers: processes of the data loader.

    Returns:
        The optimizer, for a checkpoint.

    Example:
        >>> images = PlainImages(np.zeros((4, 2, 2, 1), np.uint8), np.array([0, 1, 0, 1]), (0.5,), (0.25,))
        >>> backbone = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
        >>> head = PlainPrototypeHead(torch.eye(4)[:2], counts=torch.tensor([2, 2]))
        >>> type(plain_epoch(backbone, head, images, batch_size=2, num_workers=0)).__name__
        'SGD'
    """
    optimizer = torch.optim.SGD(backbone.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than cores on purpose
        loader = DataLoader(images, batch_size, shuffle=True, num_workers=num_workers)
    total = 0.0
    backbone.train()
    for inputs, labels in loader:
        features = backbone(inputs)
        loss = head.loss(features, labels, inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    logging.getLogger(__name__).info("loss %.3f", total / len(loader))
    return optimizer


def plain_herding(features: np.ndarray, num: int) -> list[int]:
    """Select exemplars greedily, recomputing the distance of every candidate for every pick.

    Args:
        features: features of one class.
        num: number of exemplars.

    Returns:
        Indices of the exemplars in the order of their selection.

    Example:
        >>> plain_herding(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), 1)
        [1]
    """
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    mean = unit.mean(0)
    chosen: list[int] = []
    vectors: list[np.ndarray] = []
    for k in range(1, num + 1):
        total = np.sum(vectors, axis=0) if vectors else np.zeros_like(mean)
        distance = np.sqrt(np.sum((mean - (unit + total) / k) ** 2, axis=1))
        distance[chosen] = np.inf
        best = int(np.argmin(distance))
        chosen.append(best)
        vectors.append(unit[best])
    return chosen
