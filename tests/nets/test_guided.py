"""Backbones guided by a task-agnostic network."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.nets import Execution, FeatureExtractor, frozen_copy, make_backbone
from upcl.nets.guided import GuidedNetwork, MergeAttention
from upcl.training.sharding import Sharding

IMAGES = torch.rand(6, 3, 16, 16)


def network(sizes: tuple[int, ...] = (3, 2), **options: Any) -> GuidedNetwork:
    torch.manual_seed(0)
    chosen = {"num_heads": 4, "hidden": 16, "projected": 8, "agnostic_share": 0.25, **options}
    net = GuidedNetwork(lambda: make_backbone("small"), **chosen)
    for size in sizes:
        net.grow(size)
    return net


def naive_attention(merge: MergeAttention, own: Tensor, other: Tensor) -> Tensor:
    """One image, one head and one place at a time."""
    own, other, width = merge.own_norm(own), merge.other_norm(other), own.shape[2] // merge.num_heads
    out = torch.zeros_like(own)
    for b in range(len(own)):
        both = [(merge.other.weight @ place).chunk(2) for place in other[b]]
        both += [(merge.own.weight @ place).chunk(2) for place in own[b]]
        for h in range(merge.num_heads):
            part = slice(h * width, (h + 1) * width)
            for n in range(own.shape[1]):
                query = (merge.query.weight @ own[b, n])[part]
                weights = torch.stack([query @ key[part] / math.sqrt(width) for key, _ in both]).softmax(0)
                out[b, n, part] = sum(w * value[part] for w, (_, value) in zip(weights, both, strict=True))
    return out


def test_attention_equals_a_naive_loop() -> None:
    torch.manual_seed(0)
    merge = MergeAttention(12, num_heads=3)
    for norm in (merge.own_norm, merge.other_norm):
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    own, other = torch.randn(2, 4, 12), torch.randn(2, 4, 12)
    assert torch.allclose(merge(own, other), naive_attention(merge, own, other), atol=1e-5)


def test_projections_start_with_the_variance_of_xavier() -> None:
    merge = MergeAttention(256, num_heads=8)
    for matrix in (merge.query.weight, *merge.own.weight.chunk(2), *merge.other.weight.chunk(2)):
        assert matrix.var().item() == pytest.approx(2 / 512, rel=0.05)


def test_the_first_task_has_nothing_to_merge() -> None:
    names = {name.partition(".")[0] for name in network((3,)).state_dict()}
    assert names == {"backbone", "head", "agnostic"}
    assert {"auxiliary", "predictor", "merge", "transfer"} < {name.partition(".")[0] for name in network().state_dict()}


def test_growth_gives_equal_shapes_and_begins_merging_afresh() -> None:
    net = network((3, 2))
    predictor, merge = net.predictor, net.merge
    net.grow(4)
    assert net.predictor is predictor and net.merge is not merge
    assert net(IMAGES).shape == (6, 9) and net.transfer_scores(net.view(IMAGES)).shape == (6, 4)
    net.end_task()
    shapes = {name: value.shape for name, value in net.state_dict().items()}
    other = network(())
    other.regrow([3, 2, 4])
    assert shapes == {name: value.shape for name, value in other.state_dict().items()}
    assert net.agnostic.head.weight.shape == (0, 128), "a network without classes"


def test_a_branch_begins_between_the_last_one_and_the_task_agnostic_network() -> None:
    net = network()
    older, newest = net.backbone.branches
    for before, agnostic, now in zip(
        older.parameters(), net.agnostic.backbone.parameters(), newest.parameters(), strict=True
    ):
        assert torch.allclose(now, 0.75 * before + 0.25 * agnostic, atol=1e-6)


def test_old_classes_ignore_the_new_features_at_first() -> None:
    net = network((3,)).eval()
    before, old = net(IMAGES), net.head.weight.detach().clone()
    net.grow(2)
    assert torch.equal(net.head.weight[:3, :128], old) and not net.head.weight[:3, 128:].any()
    assert bool(net.head.weight[3:].all())
    assert torch.allclose(net.eval()(IMAGES)[:, :3], before, atol=1e-5)


def test_views_are_the_features_of_a_prediction_and_both_maps() -> None:
    net = network().eval()
    views = net.view(IMAGES)
    assert torch.allclose(views.features, net.features(IMAGES), atol=1e-5)
    newest, agnostic = net.backbone.newest, net.agnostic.backbone
    assert views.newest.shape == views.agnostic.shape == (6, 16, 128)
    for places, backbone in ((views.newest, newest), (views.agnostic, agnostic)):
        assert torch.allclose(places, backbone.maps(IMAGES).flatten(2).mT, atol=1e-5)  # type: ignore[operator]
    assert torch.allclose(net.project(views), net.agnostic.embed(IMAGES), atol=1e-5)
    assert torch.allclose(net.predict(views), net.predictor(agnostic(IMAGES)), atol=1e-5)


def test_transfer_does_not_train_the_task_agnostic_network() -> None:
    net = network()
    net.transfer_scores(net.view(IMAGES)).square().sum().backward()
    assert all(p.grad is None for p in net.agnostic.parameters())
    assert all(p.grad is not None for p in (*net.backbone.newest.parameters(), *net.merge.parameters()))


@pytest.mark.parametrize(
    ("execution", "tolerance"), [(Execution("bfloat16"), 0.05), (Execution(sharding=Sharding(2)), 1e-4)], ids=str
)
def test_views_are_computed_in_every_execution(execution: Execution, tolerance: float) -> None:
    def views_and_gradients(net: GuidedNetwork) -> list[Tensor]:
        views = net.eval().view(IMAGES)  # shards have batch-norm statistics of their own in training
        total = net.transfer_scores(views).square().sum() + net.project(views).square().sum()
        inputs = [*net.backbone.newest.parameters(), *net.agnostic.backbone.parameters()]
        return [*views, *torch.autograd.grad(total, inputs)]

    expected, other = network(), network()
    other.set_execution(execution)
    assert other.agnostic.execution == execution
    for value, wanted in zip(views_and_gradients(other), views_and_gradients(expected), strict=True):
        assert value.dtype == torch.float32
        assert (value - wanted).norm() <= 2 * tolerance * wanted.norm() + 1e-6


def test_a_teacher_is_the_task_agnostic_network_alone() -> None:
    net = network().eval()
    teacher = frozen_copy(net.agnostic)
    sizes = [sum(p.numel() for p in module.parameters()) for module in (teacher, net.agnostic)]
    assert sizes[0] <= sizes[1] + 10_000, "folded norms have a bias"
    assert torch.allclose(teacher.embed(IMAGES), net.agnostic.embed(IMAGES), atol=1e-4)


class NoMap(FeatureExtractor):
    dim = 4

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3))[:, :1].expand(-1, 4)


def test_unsuitable_backbones_are_refused_when_the_network_is_made() -> None:
    with pytest.raises(
        UserError, match="3 attention heads do not divide the 128 features of the backbone: use 1, 2, 4"
    ):
        network(num_heads=3)
    with pytest.raises(UserError, match="attention needs the places of a map"):
        GuidedNetwork(NoMap, num_heads=1, hidden=4, projected=4, agnostic_share=0.0)
