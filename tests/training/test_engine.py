from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.errors import TrainingError
from upcl.core.recipes import Recipe
from upcl.core.seeding import seed_all
from upcl.core.types import Batch, Losses, Samples, Stage
from upcl.data import Transform
from upcl.training.engine import EpochResult, EpochSelector, FitState, fit

CPU = torch.device("cpu")
PLAIN = Transform((0.0,), (1.0,))


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -1.0]]))
        self.bias = nn.Parameter(torch.zeros(1))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, rows: Tensor) -> Tensor:
        return F.linear(self.norm(rows), self.weight, self.bias)[:, 0]


def stage(net: Line, num: int = 20, **recipe: object) -> Stage:
    draw = torch.Generator().manual_seed(0)
    data = Samples(torch.randn(num, 2, generator=draw), torch.randint(0, 2, (num,), generator=draw))

    def losses(batch: Batch) -> Losses:
        return {"fit": F.mse_loss(net(batch.inputs), batch.labels.float()), "size": 0.01 * net.weight.square().sum()}

    made = Recipe(**{"epochs": 6, "batch_size": 8, "lr": 0.1, **recipe})  # type: ignore[arg-type]
    return Stage("line", data, losses, list(net.parameters()), made)


def train(net: Line, given: Stage, **kwargs: object) -> None:
    fit(net, given, transform=PLAIN, device=CPU, seed_path=(0,), **kwargs)  # type: ignore[arg-type]


def test_fit_equals_a_plain_loop_with_torch_sgd() -> None:
    ours, plain = Line(), Line()
    train(ours, stage(ours, milestones=(3,)))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3], 0.1)
    wanted = stage(plain)
    for epoch in range(6):
        seed_all(0, "epoch", epoch)
        for index in torch.randperm(20).split(8):
            losses = wanted.losses(Batch(wanted.data.inputs[index], wanted.data.labels[index], epoch, 6, 0, 1))
            optimizer.zero_grad()
            sum(losses.values(), torch.zeros(())).backward()
            optimizer.step()
        scheduler.step()
    assert torch.allclose(ours.weight, plain.weight, atol=1e-6)
    assert torch.allclose(ours.norm.running_mean, plain.norm.running_mean)  # type: ignore[arg-type]


def test_losses_are_reported_by_name_as_means_over_images() -> None:
    net, ends = Line(), list[EpochResult]()
    train(net, stage(net, lr=1e-12, weight_decay=0.0), on_epoch=ends.append)
    assert [end.epoch for end in ends] == list(range(6))
    assert set(ends[0].losses) == {"fit", "size"}
    assert ends[0].losses["size"] == pytest.approx(0.02)


def test_continuing_from_any_epoch_gives_the_same_weights() -> None:
    whole = Line()
    states: list[FitState] = []

    def keep(end: EpochResult) -> None:
        states.append(copy.deepcopy(end.state()))

    train(whole, stage(whole), on_epoch=keep)
    for state in states:
        resumed = Line()
        train(resumed, stage(resumed), start=state)
        assert torch.equal(resumed.weight, whole.weight)
        assert torch.equal(resumed.norm.running_var, whole.norm.running_var)  # type: ignore[arg-type]


def test_only_the_given_parameters_change_and_frozen_statistics_are_kept() -> None:
    net = Line()
    full = stage(net)
    half = Stage("bias", full.data, full.losses, [net.bias], full.recipe, frozen=[net.norm])
    before = {name: value.clone() for name, value in net.state_dict().items()}
    train(net, half)
    moved = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"bias"}
    assert all(p.requires_grad for p in net.parameters()), "requires_grad is restored"


def test_selector_restores_the_best_epoch() -> None:
    net, scores, weights = Line(), iter([0.1, 0.5, 0.5, 0.4]), list[Tensor]()

    def score() -> float:
        weights.append(net.weight.detach().clone())
        return next(scores)

    train(net, stage(net), selector=EpochSelector(score, every=2))
    assert len(weights) == 4, "epochs 0, 2, 4 and the last"
    assert torch.equal(net.weight, weights[1]), "the earliest of equals"
    assert [e for e in range(10) if EpochSelector(score, 5, include_last=False).is_due(e, 10)] == [0, 5]


def test_views_show_each_image_of_a_batch_again_with_another_augmentation() -> None:
    class Shift:
        def __call__(self, images: Tensor) -> Tensor:
            return images + torch.rand(len(images), 1, 1, 1) / 2

        def to_json(self) -> dict[str, object]:
            return {"name": "shift"}

    net, batches, ends = Line(), list[Batch](), list[EpochResult]()
    images = torch.arange(11, dtype=torch.uint8).view(11, 1, 1, 1)
    data = Samples(images, torch.arange(11))

    def losses(batch: Batch) -> Losses:
        batches.append(batch)
        return {"fit": net.bias.sum() ** 2, "number": batch.labels.float().mean() + 0 * net.bias.sum()}

    given = Stage("views", data, losses, [net.bias], Recipe(epochs=1, batch_size=4), views=2)
    transform = Transform((0.0,), (1 / 255,), (Shift(),))
    fit(net, given, transform=transform, device=CPU, seed_path=(0,), on_epoch=ends.append)
    assert [len(batch.labels) for batch in batches] == [8, 8, 6] and batches[0].steps == 3
    assert sorted(label for batch in batches for label in batch.labels.tolist()) == sorted([*range(11), *range(11)])
    for batch in batches:
        (first, second), (labels, same) = batch.inputs.flatten().chunk(2), batch.labels.chunk(2)
        assert torch.equal(labels, same) and not torch.equal(first, second)
        assert torch.allclose(first, second, atol=0.5 * 255 + 1)
    assert ends[0].losses["number"] == pytest.approx(5.0), "the mean over all images"


def test_single_remaining_image_joins_the_previous_batch() -> None:
    net, sizes = Line(), list[int]()
    given = stage(net, num=17, epochs=1)

    def losses(batch: Batch) -> Losses:
        sizes.append(len(batch.labels))
        return given.losses(batch)

    train(net, Stage("line", given.data, losses, given.params, given.recipe))
    assert sizes == [8, 9]


def test_lone_image_counts_twice_and_its_loss_once() -> None:
    net, reported = Line(), list[EpochResult]()
    given = stage(net, num=1, epochs=1, lr=1e-9)
    train(net, given, on_epoch=reported.append)
    assert reported[0].losses["size"] == pytest.approx(0.02), "a mean over images"


def test_divergence_is_an_error_that_names_the_loss() -> None:
    net = Line()
    with pytest.raises(TrainingError, match=r"loss 'fit' became .* lower learning rate"):
        train(net, stage(net, lr=1e30))


def test_after_step_sees_new_parameters_and_the_gradient_of_the_step() -> None:
    net, plain, seen = Line(), Line(), list[tuple[Tensor, Tensor]]()

    def after_step() -> None:
        assert net.weight.grad is not None
        seen.append((net.weight.detach().clone(), net.weight.grad.clone()))

    recipe: dict[str, Any] = {"momentum": 0.0, "weight_decay": 0.0, "epochs": 2}
    train(net, dataclasses.replace(stage(net, **recipe), after_step=after_step))
    train(plain, stage(plain, **recipe))
    assert torch.equal(net.weight, plain.weight) and len(seen) == 6, "three batches, twice"
    before = Line().weight.detach()
    for weight, gradient in seen:
        assert torch.allclose(weight, before - 0.1 * gradient, atol=1e-7)
        before = weight


def test_what_after_step_changes_is_what_the_next_step_and_the_average_see() -> None:
    net = Line()

    def clip() -> None:
        with torch.no_grad():
            net.weight.clamp_(min=0.5)

    train(net, dataclasses.replace(stage(net, ema=0.9), after_step=clip))
    assert float(net.weight.detach().min()) >= 0.5
