"""PASS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.gradients import check_gradients, linear
from tests.methods.gradients import cross_entropy as by_loop
from tests.methods.scenarios import CPU, batch_at, begun, built, second_task, small_data, split_tasks, total
from upcl.core.errors import UserError
from upcl.core.types import Samples, Task
from upcl.methods.prototype_augmentation import PASS, rotate
from upcl.nets.rotation_head import RotationHead
from upcl.training.engine import fit

IMAGES = torch.arange(32.0).view(2, 1, 4, 4) / 10


class Flat(nn.Module):
    """A teacher whose features are the pixels."""

    def features(self, images: Tensor) -> Tensor:
        return images.flatten(1)


def fixture(scale: float = 1.0, **options: Any) -> Any:
    """The second task; features are pixels plus 0.1, the teacher's are the pixels."""
    torch.manual_seed(0)
    method = second_task(PASS(scale=scale, **options), RotationHead(16))
    method.net.features = lambda images: images.flatten(1) + 0.1
    method.teacher = Flat()
    nn.init.normal_(method.net.head.bias)
    method.net.head.prototypes[:2] = torch.rand(2, 16)
    return method


def test_rotations_are_classes_of_their_own() -> None:
    images, labels = rotate(IMAGES, torch.tensor([3, 1]))
    assert labels.tolist() == [12, 13, 14, 15, 4, 5, 6, 7]
    for image, turned in zip(IMAGES, images.split(4), strict=True):
        for k in range(4):
            assert np.array_equal(turned[k, 0].numpy(), np.rot90(image[0].numpy(), k))


def test_terms_equal_naive_loops() -> None:
    method, labels = fixture(), torch.tensor([2, 3])
    head = method.net.head
    losses = method.losses(batch_at(IMAGES, labels))
    weight, bias = head.weight.detach().double(), head.bias.detach().double()

    def cross_entropy(row: Tensor, target: int) -> float:
        logits = [(float(weight[j] @ row.double()) + float(bias[j])) / 0.1 for j in range(16)]
        top = max(logits)
        return top + math.log(sum(math.exp(value - top) for value in logits)) - logits[target]

    terms, distance = [], 0.0
    for image, label in zip(IMAGES, labels.tolist(), strict=True):
        for k in range(4):
            old = torch.rot90(image[0], k).flatten()
            terms.append(cross_entropy(old + 0.1, 4 * label + k))
            distance += 16 * 0.1**2
    assert losses["ce"].item() == pytest.approx(sum(terms) / 8, rel=1e-4)
    assert losses["kd"].item() == pytest.approx(10 * math.sqrt(distance), rel=1e-4)

    old = head.prototypes[:2]  # the radius is zero: samples are prototypes, as often as they were drawn
    by_class = [10 * cross_entropy(old[k], 4 * k) for k in range(2)]
    possible = [(by_class[i] + by_class[j]) / 2 for i in range(2) for j in range(2)]
    assert any(losses["prototypes"].item() == pytest.approx(value, rel=1e-4) for value in possible)


def test_the_scale_multiplies_all_terms() -> None:
    whole, part = (fixture(scale=scale).losses(batch_at(IMAGES, torch.tensor([2, 3]))) for scale in (1.0, 0.25))
    for name in ("ce", "kd"):
        assert part[name].item() == pytest.approx(0.25 * whole[name].item(), rel=1e-5)
    assert set(part) == {"ce", "kd", "prototypes"}


def test_there_is_no_distillation_in_the_first_task() -> None:
    method = fixture()
    method.teacher = None
    assert set(method.losses(batch_at(IMAGES, torch.tensor([0, 1])))) == {"ce"}


def test_features_that_have_not_moved_have_a_finite_gradient() -> None:
    method = fixture()
    moved = torch.zeros(16, requires_grad=True)
    method.net.features = lambda images: images.flatten(1) + moved
    losses = method.losses(batch_at(IMAGES, torch.tensor([2, 3])))
    (gradient,) = torch.autograd.grad(losses["kd"], [moved])
    assert losses["kd"].item() == 0 and torch.equal(gradient, torch.zeros(16))


def kept(features: Tensor, labels: Tensor, index: int = 0) -> Any:
    method = second_task(PASS(), RotationHead(features.shape[1]))
    old = 2 * index
    method.task = Task(index, old, 4 - old, Samples(torch.zeros(len(labels), 1), labels))
    method.extract = lambda _: features
    method.keep_prototypes()
    return method.net.head


def test_prototypes_and_radius_equal_numpy() -> None:
    torch.manual_seed(0)
    features, labels = torch.randn(40, 5), torch.arange(4).repeat(10)
    head = kept(features, labels)
    variances = []
    for k in range(4):
        of_class = features[labels == k].numpy()
        assert np.allclose(head.prototypes[k].numpy(), of_class.mean(0), atol=1e-6)
        variances.append(np.trace(np.cov(of_class.T)) / 5)
    assert head.radius.item() == pytest.approx(math.sqrt(np.mean(variances)), rel=1e-5)


def test_a_class_with_one_image_has_no_say_in_the_radius() -> None:
    features, labels = torch.randn(9, 5), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2])
    head = kept(torch.cat([features, torch.rand(1, 5)]), torch.cat([labels, torch.tensor([3])]))
    variances = [np.trace(np.cov(features[labels == k].numpy().T)) / 5 for k in range(2)]
    assert head.radius.item() == pytest.approx(math.sqrt(np.mean(variances)), rel=1e-5)
    assert kept(torch.rand(4, 5), torch.arange(4)).radius.item() == 0


def test_the_radius_and_old_prototypes_stay_as_they_are() -> None:
    head = kept(torch.rand(6, 5), torch.tensor([2, 2, 2, 3, 3, 3]), index=1)
    assert head.radius.item() == 0 and not head.prototypes[:2].any() and bool(head.prototypes[2:].all())


def test_the_teacher_is_the_network_of_the_last_task() -> None:
    method = begun(PASS)
    assert method.net.head.radius > 0 and bool(method.net.head.prototypes[:2].any())
    assert method.teacher.head.num_classes == 2 and method.net.head.weight.shape[0] == 16
    images = torch.rand(3, 3, 16, 16)
    method.net.eval()
    assert torch.allclose(method.teacher.features(images), method.net.features(images), atol=1e-4)


def test_images_that_are_not_square_are_refused() -> None:
    data = small_data()
    parts = {name: getattr(data, name) for name in ("train", "test")}
    cut = {name: Samples(part.inputs[..., :4], part.labels) for name, part in parts.items()}
    wide = type(data)(**{**vars(data), **cut})
    with pytest.raises(UserError, match=r"PASS rotates images, which must be square, but these are .* x 4 pixels"):
        built(PASS, wide)


@pytest.mark.filterwarnings("error")
def test_rotations_are_learned() -> None:
    data = small_data(num_classes=2, train=16)
    method = built(PASS, data, epochs=8)
    (task,) = split_tasks(data, [2])
    for stage in method.learn(task):
        fit(method.net, stage, transform=method.setting.transform, device=CPU, seed_path=(0,))
    images, labels = rotate(method.setting.transform.test(data.train.inputs), data.train.labels)
    scores = method.net.head.rotation_scores(method.net.features(images))
    assert F.cross_entropy(scores / method.temperature, labels) < math.log(8)


def test_gradient_with_samples_around_prototypes() -> None:
    method, moved = fixture(scale=0.5), torch.full((16,), 0.1, dtype=torch.float64, requires_grad=True)
    head, images, labels = method.net.head.double(), IMAGES.double(), torch.tensor([2, 3])
    head.radius.fill_(0.3)
    method.net.features = lambda rotated: rotated.flatten(1) * (1 + moved)
    torch.manual_seed(1)
    loss = total(method.losses(batch_at(images, labels)))

    torch.manual_seed(1)
    classes, noise = torch.randint(2, (2,)), torch.randn(2, 16)
    turned = [torch.rot90(image[0], k).flatten() for image in images for k in range(4)]
    features = torch.stack([row * (1 + moved) for row in turned])
    targets = [4 * label + k for label in labels.tolist() for k in range(4)]
    distance = sum(((f - row) ** 2).sum() for f, row in zip(features, turned, strict=True)) ** 0.5
    samples = torch.stack([head.prototypes[k] + 0.3 * e for k, e in zip(classes, noise.double(), strict=True)])
    formula = by_loop(linear(features, head) / 0.1, targets) + 10 * distance
    formula = formula + 10 * by_loop(linear(samples, head) / 0.1, 4 * classes)
    check_gradients(loss, 0.5 * formula, [moved, head.weight, head.bias], rtol=1e-6)  # the radius is in float32
