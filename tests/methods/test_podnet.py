"""PODNet."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.gradients import check_gradients, mean
from tests.methods.scenarios import (
    WithoutStages,
    batch_at,
    begun,
    built,
    make_setting,
    second_task,
    small_data,
    split_tasks,
    total,
)
from upcl.core.errors import UserError
from upcl.methods.podnet import PODNet
from upcl.nets import Execution
from upcl.nets.extractors import StagedExtractor, pool_map
from upcl.nets.proxy_head import ProxyHead
from upcl.training.sharding import Sharding


def images() -> Tensor:
    return torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))


LABELS = torch.tensor([0, 1, 2, 3, 2, 3])


def test_terms_by_hand() -> None:
    method = begun(PODNet, {"spatial": 2.0, "flat": 5.0})
    with torch.no_grad():
        for parameter in method.net.backbone.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    method.net.train()
    losses = method.losses(batch_at(images(), LABELS))
    new, old = method.net.backbone.stage_maps(images()), method.teacher.backbone.stage_maps(images())
    ratio = (4 / 2) ** 0.5
    distance = torch.stack([(pool_map(p) - pool_map(q)).norm(dim=1).mean() for p, q in zip(new, old, strict=True)])
    assert torch.allclose(losses["spatial"], 2 * ratio * distance.sum() / 3, rtol=1e-3)
    features, before = new[-1].mean((2, 3)), old[-1].mean((2, 3))
    forget = F.cosine_embedding_loss(features, before, torch.ones(6))
    assert torch.allclose(losses["flat"], 5 * ratio * forget, rtol=1e-3)
    assert torch.allclose(losses["nca"], method.classification(features, LABELS), rtol=1e-3)
    assert list(losses) == ["nca", "spatial", "flat"]


def test_an_unchanged_network_loses_nothing_and_its_gradient_is_finite() -> None:
    method = begun(PODNet)
    method.teacher = method.net.eval()
    losses = method.losses(batch_at(images(), LABELS))
    assert float(losses["spatial"].detach()) == 0 and abs(float(losses["flat"].detach())) < 1e-6
    grads = torch.autograd.grad(losses["spatial"], list(method.net.backbone.parameters()))
    assert all(bool(torch.isfinite(grad).all()) for grad in grads), "the norm of zero"


def test_the_first_task_is_classification_alone() -> None:
    data = small_data()
    method = built(PODNet, data)
    method.begin(split_tasks(data, [2, 2])[0])
    assert list(method.losses(batch_at(images(), LABELS.clamp(max=1)))) == ["nca"]


def test_new_proxies_are_clusters_of_the_features_of_their_class() -> None:
    method = begun(PODNet, {"proxies": 2})
    head, train = method.net.head, method.task.train
    features = F.normalize(method.extract(train))
    norm = head.old.detach().norm(dim=2).mean()
    for k in range(2):
        own, centres = features[train.labels == k + 2], head.new.detach()[k] / norm
        nearest = torch.cdist(own, centres).argmin(1)
        for j in range(2):
            assert torch.allclose(own[nearest == j].mean(0), centres[j], atol=1e-4)


def test_old_proxies_are_trained_in_the_second_stage_alone() -> None:
    data = small_data()
    method = built(PODNet, data, {"tuning_share": 0.5, "tuning_rate": 0.1}, epochs=8)
    first, second = split_tasks(data, [2, 2])
    assert [stage.name for stage in method.learn(first)] == ["train"]
    main, tuning = method.learn(second)
    head = method.net.head
    assert not any(p is head.old for p in main.params) and any(p is head.new for p in main.params)
    assert [id(p) for p in tuning.params] == [id(head.old), id(head.new)]
    assert tuning.recipe.epochs == 4 and tuning.recipe.learning_rate(3, 0, 1) == pytest.approx(0.01)
    assert tuning.data.counts(4).tolist() == [2, 2, 2, 2], "balanced"
    assert tuning.frozen == [method.net.backbone]


@pytest.mark.parametrize(
    "execution", [Execution(sharding=Sharding(2)), Execution("bfloat16")], ids=["shards", "bfloat16"]
)
def test_other_ways_of_executing_give_the_same_losses(execution: Execution) -> None:
    method = begun(PODNet)
    with torch.no_grad():
        for parameter in method.net.backbone.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    method.net.eval()
    expected = method.losses(batch_at(images(), LABELS))
    for net in (method.net, method.teacher):
        net.set_execution(execution)
    losses = method.losses(batch_at(images(), LABELS))
    for name, value in expected.items():
        assert losses[name].dtype == torch.float32
        assert torch.allclose(losses[name], value, rtol=0.05 if execution.sharding is None else 1e-4)


def test_a_backbone_without_stages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.methods.base.make_backbone", lambda *_: WithoutStages())
    method = PODNet()
    method.setting = dataclasses.replace(make_setting(small_data(), PODNet), backbone="timm:vit")
    with pytest.raises(
        UserError, match="the maps after each stage, which backbone 'timm:vit' does not show: use one of"
    ):
        method.make_net()


class Powers(StagedExtractor):
    """Two stages: the image itself, and a power of it."""

    dim = 3

    def __init__(self, power: int) -> None:
        super().__init__()
        self.power = power

    def layers_by_stage(self) -> list[nn.Sequential]:
        raise NotImplementedError

    def maps(self, images: Tensor) -> Tensor:
        return self.stage_maps(images)[-1]

    def stage_maps(self, images: Tensor) -> list[Tensor]:
        return [images, images**self.power] if self.power == 3 else [images.detach() + 0.2, images.detach() ** 2]


def pooled_by_loops(of_image: Tensor) -> Tensor:
    sums = [(row**2).sum() for channel in of_image for row in channel]
    sums += [(column**2).sum() for channel in of_image for column in channel.T]
    pooled: Tensor = torch.stack(sums) / sum(s**2 for s in sums) ** 0.5
    return pooled


def test_gradient() -> None:
    torch.manual_seed(0)
    method, maps = second_task(PODNet(spatial=2.0, flat=5.0), ProxyHead(3, num_proxies=2)), torch.rand(3, 3, 2, 2)
    head, images, labels = method.net.head.double(), maps.double().requires_grad_(), torch.tensor([0, 3, 2])
    method.net.backbone, method.teacher = Powers(3), type(method.net)(Powers(2), head)
    loss = total(method.losses(batch_at(images, labels)))

    new, old = Powers(3).stage_maps(images), Powers(2).stage_maps(images)
    pairs = [(pooled_by_loops(p[i]), pooled_by_loops(q[i])) for p, q in zip(new, old, strict=True) for i in range(3)]
    spatial = mean([((p - q) ** 2).sum() ** 0.5 for p, q in pairs])
    features, before = ([torch.stack([c.mean() for c in image]) for image in part[-1]] for part in (new, old))
    flat = mean([1 - (f @ g) / (f.norm() * g.norm()) for f, g in zip(features, before, strict=True)])
    terms = []
    for f, label in zip(features, labels.tolist(), strict=True):
        cosines = [[(f @ v) / (f.norm() * v.norm()) for v in proxies] for proxies in torch.cat([head.old, head.new])]
        shares = [[c.exp() / sum(other.exp() for other in of_class) for c in of_class] for of_class in cosines]
        scores = [sum(s * c for s, c in zip(*pair, strict=True)) for pair in zip(shares, cosines, strict=True)]
        scaled = [head.sigma * score for score in scores]
        rest = sum(s.exp() for k, s in enumerate(scaled) if k != label)
        terms.append(-(scaled[label].exp() / (max(scaled).exp() + rest)).log())
    formula = mean(terms) + 2**0.5 * (2 * spatial + 5 * flat)
    check_gradients(loss, formula, [images, head.old, head.new, head.sigma], rtol=1e-5)  # features are in float32
