"""TagFex."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.gradients import check_gradients, distance_of_distributions
from tests.methods.gradients import cross_entropy as by_loop
from tests.methods.gradients import mean as mean_of
from tests.methods.scenarios import batch_at, begun, built, small_data, split_tasks, total, train
from upcl.core.losses import view_contrast
from upcl.core.types import Losses, Task
from upcl.methods.tagfex import TagFex
from upcl.nets.guided import Views

SMALL = {"hidden": 16, "projected": 8}
LABELS = torch.tensor([0, 2, 3, 2]).repeat(2)
WEIGHTS = {"auxiliary": 2.0, "transfer": 1.0, "transfer_kd": 1.0, "contrast": 0.5, "contrast_kd": 1.0}


def method(**options: Any) -> Any:
    """The second task: two old and two new classes."""
    return begun(TagFex, {**SMALL, **options})


def on_batch(learner: Any, labels: Tensor = LABELS) -> tuple[Losses, Any]:
    """The losses of a batch, and the outputs of the networks that they are made of."""
    torch.manual_seed(3)
    inputs, net = torch.randn(len(labels), 3, 8, 8), learner.net.eval()
    views = net.view(inputs)
    outputs = {
        "scores": net.classify(views.features),
        "auxiliary": net.auxiliary_scores(views.features),
        "merged": net.transfer_scores(views),
        "projected": net.project(views),
        "predicted": learner.teacher.projector(net.predict(views)),
        "old": learner.teacher.projector(learner.teacher.backbone(inputs)),
    }
    return learner.losses(batch_at(inputs, labels)), outputs


def test_terms_equal_naive_loops() -> None:
    losses, out = on_batch(method())
    rows = {name: values.detach().double() for name, values in out.items()}

    def cross_entropy(scores: Tensor, target: int) -> float:
        return float(scores.logsumexp(0) - scores[target])

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    labels = LABELS.tolist()
    ce = mean([cross_entropy(rows["scores"][i], y) for i, y in enumerate(labels)])
    auxiliary = mean([cross_entropy(rows["auxiliary"][i], max(y - 1, 0)) for i, y in enumerate(labels)])
    new = [i for i, y in enumerate(labels) if y >= 2]
    transfer = mean([cross_entropy(rows["merged"][i], labels[i] - 2) for i in new])
    distances = []
    for i in new:
        p, q = (rows["merged"][i] / 2).softmax(0), (rows["scores"][i, 2:] / 2).softmax(0)
        distances.append(sum(float(p[k]) * math.log(float(p[k]) / float(q[k])) for k in range(2)))
    terms = {"ce": ce, "auxiliary": auxiliary, "transfer": transfer, "transfer_kd": mean(distances) * (transfer < ce)}
    terms["contrast"] = float(view_contrast(rows["projected"], rows["projected"], 0.2))
    terms["contrast_kd"] = float(view_contrast(rows["predicted"], rows["old"], 0.2))
    assert set(losses) == set(terms)
    for name, value in terms.items():
        assert losses[name].item() == pytest.approx(WEIGHTS.get(name, 1.0) * value, rel=1e-3, abs=1e-6), name


@pytest.mark.parametrize("is_better", [True, False])
def test_merged_scores_are_distilled_only_where_they_classify_better(is_better: bool) -> None:
    learner = method()
    merged = 9 * F.one_hot((LABELS - 2).clamp(min=0), 2).float() * (1 if is_better else -1)
    merged.requires_grad_()
    learner.net.transfer_scores = lambda _: merged
    scores = torch.zeros(8, 4, requires_grad=True)
    views = Views(torch.zeros(8, 256), torch.zeros(8, 4, 128), torch.zeros(8, 4, 128))
    losses = learner.transfer_losses(views, scores, LABELS, F.cross_entropy(scores, LABELS))
    assert (losses["transfer_kd"] > 0) == is_better
    to_scores, to_merged = torch.autograd.grad(losses["transfer_kd"], [scores, merged], allow_unused=True)
    assert to_merged is None, "merged scores are the teacher"
    assert bool(to_scores.any()) == is_better
    old = (LABELS < 2).nonzero()[:, 0]
    assert not to_scores[old].any() and not to_scores[:, :2].any(), "images and scores of new classes alone"


def test_a_batch_without_new_classes_has_finite_losses() -> None:
    losses, _ = on_batch(method(), torch.tensor([0, 1, 0, 1]))
    assert all(bool(torch.isfinite(value)) for value in losses.values())
    assert losses["transfer"] == 0 and losses["transfer_kd"] == 0


def test_self_supervision_gives_way_to_distillation_as_classes_are_added() -> None:
    learner = method(contrast=3.0, contrast_kd=5.0)
    _, out = on_batch(learner)
    learner.task = type(learner.task)(1, 6, 2, learner.task.train)
    learner.net.head.grow(4)  # so that there are scores of eight classes
    losses, _ = on_batch(learner, torch.tensor([0, 6, 7, 6]).repeat(2))
    contrast = view_contrast(out["projected"], out["projected"], 0.2)
    distilled = view_contrast(out["predicted"], out["old"], 0.2)
    assert losses["contrast"].item() == pytest.approx(3 * 0.25 * contrast.item(), rel=1e-4)
    assert losses["contrast_kd"].item() == pytest.approx(3 * 5 * 0.75 * distilled.item(), rel=1e-4)


def test_the_first_task_classifies_and_contrasts() -> None:
    learner = built(TagFex, small_data(), SMALL)
    first, _ = split_tasks(small_data(), [2, 2])
    stage = next(learner.learn(first))
    assert stage.views == 2 and learner.teacher is None
    losses = learner.losses(batch_at(torch.randn(6, 3, 8, 8), torch.tensor([0, 1, 1]).repeat(2)))
    assert set(losses) == {"ce", "contrast"}
    trained = {id(p) for p in stage.params}
    assert all(id(p) in trained for p in learner.net.parameters() if p.numel())


def test_only_older_backbones_stay_as_they_are() -> None:
    learner = method()
    stage = learner.stage()
    older = {id(p) for p in learner.net.backbone.branches[0].parameters()}
    trained = {id(p) for p in stage.params}
    assert not older & trained and list(stage.frozen) == [learner.net.backbone.branches[0]]
    rest = [p for p in learner.net.parameters() if p.numel() and id(p) not in older]
    assert all(id(p) in trained for p in rest)


def test_the_teacher_is_the_task_agnostic_network_of_the_last_task() -> None:
    learner = method()
    teacher, agnostic = learner.teacher, learner.net.agnostic
    images = torch.rand(3, 3, 8, 8)
    learner.net.eval()
    assert torch.allclose(teacher.embed(images), agnostic.embed(images), atol=1e-4)
    assert not any(p.requires_grad for p in teacher.parameters())
    assert not any(isinstance(module, nn.BatchNorm2d) for module in teacher.modules()), "folded"
    assert not any("branches" in name for name, _ in teacher.named_parameters())


def test_new_rows_are_aligned_at_the_end_of_a_task() -> None:
    data = small_data()
    learner = built(TagFex, data, SMALL)
    for task in split_tasks(data, [2, 2]):
        train(learner, task)
    norms = learner.net.head.weight.detach().norm(dim=1)
    assert norms[:2].mean().item() == pytest.approx(norms[2:].mean().item(), rel=1e-4)


def test_recipes_are_those_of_the_official_code() -> None:
    first, later = TagFex.recipes.first, TagFex.recipes.later
    assert (first.epochs, first.milestones, first.weight_decay) == (200, (60, 120, 170), 5e-4)
    assert (later.epochs, later.milestones, later.weight_decay) == (170, (80, 120, 150), 2e-4)
    for recipe in (first, later):
        assert (recipe.lr, recipe.batch_size, recipe.momentum, recipe.augment) == (0.1, 128, 0.9, "trivial")


def contrast_by_loops(rows: Tensor, targets: Tensor, tau: float) -> Tensor:
    """-log of the share of an image's other view among all other rows."""
    terms, num = [], len(rows)
    for i in range(num):
        alike = [(rows[i] @ t / (rows[i].norm() * t.norm()) / tau).exp() for t in targets]
        terms.append(-(alike[(i + num // 2) % num] / (sum(alike) - alike[i])).log())
    return mean_of(terms)


def test_gradient() -> None:
    torch.manual_seed(0)
    sizes = {"scores": 4, "auxiliary": 3, "merged": 2, "projected": 5, "predicted": 5}
    out = {name: torch.randn(8, size).double().requires_grad_() for name, size in sizes.items()}
    old = torch.randn(8, 5).double()
    with torch.no_grad():
        out["merged"] += 4 * F.one_hot((LABELS - 2).clamp(min=0), 2)  # merged scores classify better
    learner: Any = TagFex(contrast=0.5, contrast_kd=3.0, transfer=2.0, transfer_kd=4.0)
    learner.task = Task(1, 2, 2, small_data().train)
    learner.net = SimpleNamespace(
        view=lambda _: Views(out["scores"], out["scores"], out["scores"]),
        project=lambda _: out["projected"],
        predict=lambda _: out["predicted"],
        classify=lambda _: out["scores"],
        auxiliary_scores=lambda _: out["auxiliary"],
        transfer_scores=lambda _: out["merged"],
    )
    learner.teacher = SimpleNamespace(embed=lambda _: old, projector=lambda rows: rows)
    loss = total(learner.losses(batch_at(torch.zeros(8, 1), LABELS)))

    new = (LABELS >= 2).nonzero()[:, 0]
    ones, scores, merged = torch.ones(2).double(), out["scores"], out["merged"]
    formula = by_loop(scores, LABELS) + 2 * by_loop(out["auxiliary"], [max(y - 1, 0) for y in LABELS.tolist()])
    formula = formula + 0.5 * 0.5 * contrast_by_loops(out["projected"], out["projected"], 0.2)
    formula = formula + 0.5 * 3 * 0.5 * contrast_by_loops(out["predicted"], old, 0.2)
    formula = formula + 2 * by_loop(merged[new], LABELS[new] - 2)
    teacher = merged[new].detach()
    entropy = distance_of_distributions(teacher, teacher, 2.0, ones)  # KL is the cross-entropy less this
    distilled = distance_of_distributions(scores[new, 2:], teacher, 2.0, ones) - entropy
    check_gradients(loss, formula + 4 * distilled, out.values())
