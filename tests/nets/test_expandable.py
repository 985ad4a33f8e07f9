"""Networks that get branches."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from upcl.nets import frozen_copy, make_backbone
from upcl.nets.expandable import CompressibleNetwork, ExpandableNetwork, ParallelBackbone
from upcl.nets.extractors import StagedExtractor


def expandable(kind: type[ExpandableNetwork] = ExpandableNetwork) -> ExpandableNetwork:
    torch.manual_seed(0)
    return kind(ParallelBackbone(make_backbone("small")))


def images(num: int = 4) -> torch.Tensor:
    return torch.randn(num, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def test_features_are_those_of_each_branch_in_the_order_of_the_tasks() -> None:
    backbone = ParallelBackbone(make_backbone("small")).eval()
    backbone.add_branch()
    with torch.no_grad():
        for parameter in backbone.newest.parameters():
            parameter.mul_(1.1)
    one, other = (branch(images()) for branch in backbone.branches)
    assert not torch.equal(one, other)
    assert torch.equal(backbone(images()), torch.cat([one, other], 1))
    assert (backbone.dim, backbone.branch_dim) == (256, 128)


def test_a_new_branch_is_a_copy_of_the_newest_with_tensors_of_its_own() -> None:
    backbone = ParallelBackbone(make_backbone("small"))
    backbone.train()(images())  # moves the statistics
    backbone.add_branch()
    old, new = backbone.branches
    assert all(torch.equal(a, b) for a, b in zip(old.state_dict().values(), new.state_dict().values(), strict=True))
    assert not {id(p) for p in old.parameters()} & {id(p) for p in new.parameters()}
    assert not {b.data_ptr() for b in old.buffers()} & {b.data_ptr() for b in new.buffers()}
    assert new.training


def test_a_branch_in_evaluation_mode_keeps_its_statistics() -> None:
    net = expandable()
    net.grow(2)
    net.grow(2)
    old, new = net.train().backbone.branches
    old.eval()
    before = [[b.clone() for b in branch.buffers()] for branch in (old, new)]
    net(images())
    assert all(torch.equal(a, b) for a, b in zip(before[0], old.buffers(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(before[1], new.buffers(), strict=True))


def test_growing_keeps_what_the_head_knew_of_old_features() -> None:
    net = expandable()
    net.grow(3)
    weight, bias = net.head.weight.detach().clone(), net.head.bias.detach().clone()
    net.grow(2)
    assert net.head.weight.shape == (5, 256) and net.head.dim == net.backbone.dim == 256
    assert torch.equal(net.head.weight[:3, :128], weight) and torch.equal(net.head.bias[:3], bias)
    assert float(net.head.weight.detach().abs().max()) <= max(float(weight.abs().max()), (3 / 256) ** 0.5)


def test_outputs_of_the_second_head() -> None:
    net, compressible = expandable(), expandable(CompressibleNetwork)
    for other in (net, compressible):
        other.grow(3)
        assert not list(other.auxiliary.parameters()), "the first task needs none"
        other.grow(2)
    features = torch.randn(4, 256)
    assert net.auxiliary_scores(features).shape == (4, 1 + 2)
    assert compressible.auxiliary_scores(features).shape == (4, 3 + 2)
    changed = features.clone()
    changed[:, :128] += 1
    assert torch.equal(net.auxiliary_scores(changed), net.auxiliary_scores(features)), "old features do not count"
    net.end_task()
    assert not [name for name in net.state_dict() if name.startswith("auxiliary")], "it does not outlive the task"


def test_shared_layers_are_seen_by_all_branches() -> None:
    whole = make_backbone("small")
    assert isinstance(whole, StagedExtractor)
    shared, last = whole.divide()
    backbone = ParallelBackbone(last, shared).eval()
    assert torch.equal(backbone(images()), whole.eval()(images()))
    backbone.add_branch()
    assert backbone(images()).shape == (4, 256)
    assert len(list(backbone.parameters())) == len(list(shared.parameters())) + 2 * len(list(last.parameters()))


@pytest.mark.parametrize("kind", [ExpandableNetwork, CompressibleNetwork])
def test_a_regrown_network_loads_the_weights_of_another(kind: type[ExpandableNetwork]) -> None:
    net, other = expandable(kind), expandable(kind)
    for num_new in (2, 3, 1):
        net.grow(num_new)
        net.end_task()
    other.regrow(net.growth)
    assert other.growth == [2, 3, 1]
    other.load_state_dict(net.state_dict())
    assert torch.equal(net.eval()(images()), other.eval()(images()))
    assert len(net.backbone.branches) == (1 if kind is CompressibleNetwork else 3)


def test_compression_leaves_the_first_branch_and_a_row_per_class() -> None:
    net = expandable(CompressibleNetwork)
    assert isinstance(net, CompressibleNetwork)
    net.grow(2)
    net.compress()  # nothing to do
    head, first = net.head, net.backbone.branches[0]
    net.grow(3)
    assert len(net.backbone.branches) == 2
    net.compress()
    assert list(net.backbone.branches) == [first] and net.head is not head
    assert net.head.weight.shape == (5, 128) and net.head.num_classes == 5
    assert not bool(net.head.bias.any()) and net.growth == [2, 3]
    net.grow(1)
    assert net(images()).shape == (4, 6)


def test_a_frozen_copy_has_all_branches() -> None:
    net = expandable()
    net.grow(2)
    net.train()(images(8))
    net.grow(2)
    teacher = frozen_copy(net)
    assert torch.allclose(teacher(images()), net.eval()(images()), atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in teacher.modules())
