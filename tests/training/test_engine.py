from __future__ import annotations

import copy

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
