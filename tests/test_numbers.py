"""The values of the specification, through the methods themselves, and the absence of other libraries' defects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl import METHODS, load_dataset, run
from upcl.core.losses import cosine_distillation
from upcl.core.memory import class_means
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.methods.bic import BiC
from upcl.methods.coil import Coil, transport
from upcl.methods.cosine import Cosine
from upcl.methods.cwd import CwD
from upcl.methods.fetril import FeTrIL, nearest_new
from upcl.methods.ldam import LDAM
from upcl.methods.lucir import LUCIR
from upcl.methods.nccil import NCCIL, flying_target
from upcl.methods.registry import VARIANTS
from upcl.methods.scrollnet import ScrollNet
from upcl.methods.upcl import LAMBDA_ONE, UPCL
from upcl.nets import BACKBONES, CorrectedHead, CosineHead, Head, LinearHead, Network, PrototypeHead, SlimmableBackbone
from upcl.nets.network import Network as AnyNetwork
from upcl.nets.slimmable import Roll
from upcl.research.config import make_request, resolve
from upcl.research.run import make_setting
from upcl.training.engine import fit

from .fixtures import COUNTS, LABELS, OLD, RAW, RAW_TEACHER, X, Y, close

CPU = torch.device("cpu")


class Given(nn.Module):
    """A backbone that returns its input: features are given."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, rows: Tensor) -> Tensor:
        return rows


class Scores(LinearHead):
    """Passes given scores on."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings


def teaches(outputs: Tensor, head: Head | None = None) -> Any:
    """A teacher that says the same of every batch."""

    class Fixed(nn.Module):
        def forward(self, _: Tensor) -> Tensor:
            return outputs if head is None else head(outputs)

        def features(self, _: Tensor) -> Tensor:
            return outputs

        embed = features

    return Fixed()


def second_task(method: Any, head: Head, counts: Tensor = COUNTS, sizes: tuple[int, int] = (2, 2)) -> Any:
    """A method in the second task, its features or scores given instead of computed."""
    total = sum(sizes)
    data = load_dataset(f"synthetic:classes={total},train=2,test=2")
    config = resolve(make_request({"data": data.name, "tasks": list(sizes)}), data, type(method))
    method.setting = make_setting(config, data, CPU)
    head.grow(sizes[0])
    head.grow(sizes[1])
    network: Any = AnyNetwork(Given(head.dim), head)  # type: ignore[arg-type]
    network.features = lambda rows: rows  # keeps float64
    network.growth = list(sizes)
    method.net = network
    labels = torch.arange(total).repeat_interleave(counts)
    method.task = Task(1, sizes[0], sizes[1], Samples(torch.zeros(len(labels), 1), labels))
    method.data, method.counts = method.task.train, counts
    method.memory = type("Stored", (), {"samples": method.task.train})()
    method.teacher = None
    return method


def first_task(method: Any) -> Any:
    method.task = Task(0, 0, method.task.num_seen, method.task.train)
    method.teacher = None
    return method


def late(inputs: Tensor, labels: Tensor, epoch: int = 160, epochs: int = 170) -> Batch:
    return Batch(inputs, labels, epoch, epochs, 0, 1)


def total(losses: Losses) -> float:
    return float(total_tensor(losses).detach())


def on_fixture_a(name: str, **options: Any) -> Losses:
    method = second_task(METHODS[name](**options), Scores(4))
    method.teacher = teaches(OLD)
    losses: Losses = method.losses(late(X, Y))
    return losses


# --- 7.1 - 7.9


def test_joint_is_cross_entropy() -> None:
    assert close(total(on_fixture_a("joint")), 0.690731)


def test_finetune_trains_on_the_new_slice_only() -> None:
    method = second_task(METHODS["finetune"](), Scores(4))
    assert close(total(method.losses(late(X[1:], Y[1:]))), 0.300299)
    assert close(total(on_fixture_a("finetune", full_ce=True)), 0.690731)


def test_icarl() -> None:
    losses = on_fixture_a("icarl")
    assert close(losses["kd"], 0.655644)
    assert close(total(losses), 1.346375)


def test_focal() -> None:
    losses = on_fixture_a("focal")
    assert close(losses["ce"], 0.209237)
    assert close(total(losses), 0.864881)
    assert close(on_fixture_a("focal", gamma=1)["ce"], 0.369468)


def test_la() -> None:
    losses = on_fixture_a("la")
    assert close(losses["ce"], 0.870437)
    assert close(total(losses), 1.526080)
    weighted = X.exp() * COUNTS
    assert close(losses["ce"], float(-(weighted[range(3), Y] / weighted.sum(1)).log().mean()))


COSINES = torch.tensor([[0.6, 0.1, -0.2, 0.3], [0.0, 0.2, 0.1, 0.7], [-0.3, 0.4, 0.5, 0.1]], dtype=torch.float64)


@pytest.mark.parametrize(("options", "scale", "value"), [({}, 30, 3.245920), ({"linear": True}, 1, 1.252979)])
def test_ldam(options: dict[str, Any], scale: float, value: float) -> None:
    method = second_task(LDAM(**options), Scores(4))
    method.teacher = teaches(30 * torch.tensor([[0.5, 0.2], [0.1, 0.2], [-0.2, 0.5]], dtype=torch.float64))
    losses = method.losses(late(scale * COSINES, Y))
    assert close(losses["ce"], value)
    if scale == 30:
        assert close(losses["kd"], 0.226379)
        method.plain_kd = True
        plain = method.losses(late(scale * COSINES, Y))
        assert not close(plain["kd"], 0.226379)
        assert close(plain["ce"], value)


def test_ldam_reweights_late_and_only_where_asked() -> None:
    method = second_task(LDAM(deferred=True), Scores(4))
    assert close(method.losses(late(30 * COSINES, Y, epoch=100))["ce"], 3.245920), "before 80 % of the epochs"
    weighted = method.losses(late(30 * COSINES, Y, epoch=140))["ce"]
    weights = (1 - 0.9999) / (1 - 0.9999 ** COUNTS.double())
    weights = weights / weights.sum() * 4
    margins = torch.tensor([0.5, 0.5, 0.223607, 0.223607], dtype=torch.float64)
    logits = 30 * (COSINES - margins[Y][:, None] * F.one_hot(Y, 4))
    assert close(weighted, float(F.cross_entropy(logits, Y, weight=weights)))


def test_lwf() -> None:
    method = second_task(METHODS["lwf"](), Scores(4))
    method.teacher = teaches(OLD[1:])
    losses = method.losses(late(X[1:], Y[1:]))
    assert close(losses["ce"], 0.300299)
    assert close(total(losses), 2.284526)
    assert not METHODS["lwf"].uses_memory


def test_wa_weighs_by_the_share_of_old_classes() -> None:
    assert close(total(on_fixture_a("wa")), 0.673188)


def test_wa_aligns_new_rows_and_leaves_the_bias() -> None:
    method = second_task(METHODS["wa"](), LinearHead(2))
    head = method.net.head
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 5.0], [6.0, 8.0], [0.0, 20.0]]))
        head.bias.fill_(7.0)
    method.align()
    wanted = torch.tensor([[3.0, 4.0], [0.0, 5.0], [2.0, 2.666667], [0.0, 6.666667]])
    assert torch.allclose(head.weight, wanted, atol=1e-5)
    assert head.bias.tolist() == [7.0] * 4
    method.align()
    assert torch.allclose(head.weight, wanted, atol=1e-5), "aligning twice changes nothing"


def corrected(alpha: float, beta: float) -> Any:
    method = second_task(METHODS["bic"](), CorrectedHead(4, all_pairs=False))
    head = method.net.head
    with torch.no_grad():
        head.weight.copy_(torch.eye(4))
        for value, number in zip(head.newest_pair, (alpha, beta), strict=True):
            value.fill_(number)
    method.net.double()
    return method


def test_bic_second_stage_has_one_softmax() -> None:
    method = corrected(0.8, -0.1)
    losses = method.bias_losses(late(X, Y))
    assert close(losses["ce"], 0.797612), "1.175662 would be PyCIL's double softmax"
    assert close(total(losses), 0.798112)


def test_bic_gradient_of_the_pair() -> None:
    method = corrected(1.0, 0.0)
    method.penalty = 0.0
    loss = total_tensor(method.bias_losses(late(X, Y)))
    gradients = torch.autograd.grad(loss, method.net.head.newest_pair)
    assert close(gradients[0], -0.385350)
    assert close(gradients[1], -0.221077)


def total_tensor(losses: Losses) -> Tensor:
    return torch.stack(list(losses.values())).sum()


def test_bic_distils_the_corrected_teacher() -> None:
    method = second_task(METHODS["bic"](), Scores(4))
    head = CorrectedHead(2, all_pairs=False)
    head.grow(1)
    head.grow(1)
    with torch.no_grad():
        head.weight.copy_(torch.eye(2))
        for value, number in zip(head.newest_pair, (0.9, 0.05), strict=True):
            value.fill_(number)
    method.teacher = teaches(OLD, head.double())
    losses = method.losses(late(X, Y))
    assert close(losses["kd"] / 0.5, 0.658326)
    assert close(total(losses), 0.674529)


def test_bic_can_keep_every_pair() -> None:
    rows = torch.ones(1, 2)
    for all_pairs, wanted in ((False, [1.0, 5.0]), (True, [3.0, 5.0])):
        head = CorrectedHead(2, all_pairs=all_pairs)
        head.grow(1)
        with torch.no_grad():
            head.betas[0].fill_(2.0)
        head.grow(1)
        with torch.no_grad():
            head.weight.copy_(torch.eye(2))
            head.betas[1].fill_(4.0)
        assert head(rows).tolist() == [wanted]


@pytest.mark.parametrize(
    ("memory", "num_old", "each"),
    [(2000, 10, 20), (2000, 20, 10), (2000, 30, 6), (2000, 70, 2), (2000, 90, 2), (500, 90, 1)],
)
def test_bic_holds_the_specified_number_back(memory: int, num_old: int, each: int) -> None:
    method = BiC()
    counts = torch.tensor([memory // num_old] * num_old + [50] * 10)
    labels = torch.arange(num_old + 10).repeat_interleave(counts)
    method.task = Task(1, num_old, 10, Samples(torch.zeros(0, 1), torch.zeros(0)))
    method.data = Samples(torch.arange(len(labels))[:, None], labels)
    train, back = method.split()
    assert back.counts(num_old + 10).tolist() == [each] * (num_old + 10)
    assert len(train) + len(back) == len(labels)
    assert not set(train.inputs.flatten().tolist()) & set(back.inputs.flatten().tolist())


def test_bic_second_stage_moves_two_numbers_in_evaluation_mode() -> None:
    stages: list[Stage] = []

    class Spy(BiC):
        def learn(self, task: Task) -> Iterator[Stage]:
            for stage in super().learn(task):
                stages.append(stage)
                yield stage

    run(Spy, "synthetic:classes=4,train=20,test=2", tasks=2, memory="20", epochs=1)
    assert [stage.name for stage in stages] == ["train", "train", "bias"]
    assert sum(p.numel() for p in stages[2].params) == 2
    assert not stages[2].augment
    assert isinstance(stages[2].frozen[0], Network)


# --- 7.10, 7.11: LUCIR, CwD


def lucir_fixture(**options: Any) -> Losses:
    method = second_task(LUCIR(**options), CosineHead(2))
    head = method.net.head
    with torch.no_grad():
        head.old.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        head.new.copy_(torch.tensor([[-1.0, 1.0], [1.0, 1.0]]))
        head.sigma.fill_(4.0)
    method.teacher = teaches(torch.tensor([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]]))
    features, labels = torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]]), torch.tensor([0, 1, 3])
    losses: Losses = method.losses(late(features, labels))
    return losses


def test_lucir_terms() -> None:
    losses = lucir_fixture()
    assert close(losses["ce"], 3.296963)
    assert close(losses["forget"] / 5, 0.056462)
    assert close(losses["rank"], 0.548703)
    assert close(total(losses), 4.127976)
    assert close(lucir_fixture(ranking="sum")["rank"], 1.097406)


@pytest.mark.parametrize(("old", "new", "value"), [(10, 10, 5.0), (90, 10, 15.0), (50, 10, 11.180340)])
def test_lucir_weight_is_never_zero_in_the_second_task(old: int, new: int, value: float) -> None:
    method = LUCIR()
    method.task = Task(1, old, new, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert close(method.feature_weight, value)


def test_lucir_imprints_unit_means_with_the_old_norm() -> None:
    method = second_task(LUCIR(), CosineHead(2), torch.tensor([1, 1, 2]), (2, 1))
    with torch.no_grad():
        method.net.head.old.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    method.task = Task(1, 2, 1, Samples(torch.zeros(2, 1), torch.tensor([2, 2])))
    method.extract = lambda _: torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    method.imprint()
    assert torch.allclose(method.net.head.new, torch.tensor([[1.341641, 0.670820]]), atol=1e-5)


def test_lucir_features_are_signed_and_old_rows_are_not_trained() -> None:
    method = second_task(LUCIR(), CosineHead(2))
    method.setting = make_setting(
        resolve(make_request({"data": "digits"}), load_dataset("digits"), LUCIR), load_dataset("digits"), CPU
    )
    assert not any(p is method.net.head.old for p in method.stage().params)
    net = method.make_net()
    assert not net.backbone.blocks[-1].relu


def test_lucir_ranks_against_no_more_rivals_than_there_are() -> None:
    method = second_task(LUCIR(rivals=5), CosineHead(2))
    assert torch.isfinite(method.ranking_loss(torch.rand(3, 4), torch.tensor([0, 1, 3])))
    assert float(method.ranking_loss(torch.rand(3, 4), torch.tensor([2, 2, 3]))) == 0, "no old image, no ranking"


def test_nearest_means_use_plain_images_only() -> None:
    """LUCIR's code averages in copies whose colour channels are swapped where it means to mirror them."""
    data = load_dataset("synthetic:classes=2,train=4,test=2")
    method = METHODS["lucir"]()
    method.start(make_setting(resolve(make_request({"data": data.name, "tasks": 1}), data, LUCIR), data, CPU))
    seen: list[Tensor] = []

    def features(images: Tensor) -> Tensor:
        seen.append(images)
        return torch.zeros(len(images), 128)

    method.net.features = features  # type: ignore[method-assign]
    method.extract(data.train)
    assert torch.equal(torch.cat(seen), data.transform.test(data.train.inputs))


CWD_ROWS = [[1.0, 2.0, 0.5], [0.5, 1.0, 1.5], [2.0, 0.1, 0.3], [0.2, 0.9, 0.4], [0.7, 0.3, 1.1]]


@pytest.mark.parametrize(("form", "value"), [("code", 0.530136), ("paper", 0.804223)])
def test_cwd_decorrelates_in_the_first_task_only(form: Any, value: float) -> None:
    method = first_task(second_task(CwD(form=form), CosineHead(3)))
    rows, labels = torch.tensor(CWD_ROWS), torch.tensor([0, 0, 0, 1, 1])
    losses = method.losses(late(rows, labels))
    assert close(losses["cwd"] / 0.5, value)
    later = second_task(CwD(), CosineHead(3))
    later.teacher = teaches(rows)
    assert set(later.losses(late(rows, labels))) == {"ce", "forget", "rank"}


# --- 7.12 Coil


def test_coil_transports_rows() -> None:
    old, new = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.8, 0.6], [0.6, 0.8], [-0.6, 0.8]])
    cost = torch.cdist(old, new, p=3)
    wanted = torch.tensor([[0.607318, 0.832034, 1.664067], [0.832034, 0.607318, 0.607318]])
    assert torch.allclose(cost, wanted, atol=1e-5)
    rows = transport(old, new, torch.tensor([[2.0, 0.0], [0.0, 1.0]]), 0.464)
    wanted = torch.tensor([[1.466291, 0.441257], [1.064041, 0.843506], [0.330989, 1.576559]])
    assert torch.allclose(rows, wanted, atol=1e-5)


def coil_fixture(epoch: int, epochs: int = 160) -> Losses:
    method = second_task(Coil(), CosineHead(2))
    method.teacher = teaches(OLD.float())
    method.ahead = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    method.transport_back = lambda: setattr(method, "back", torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    features = torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]])
    losses: Losses = method.losses(Batch(features, Y, epoch, epochs, 0, 1))
    return losses


def test_coil_advice_comes_ahead_first_and_back_later() -> None:
    assert set(coil_fixture(0)) == {"ce", "kd", "ahead"}
    assert set(coil_fixture(1)) == {"ce", "kd", "back"}
    assert close(coil_fixture(80)["back"] / coil_fixture(40)["back"], 4.0)
    assert close(coil_fixture(8, 16)["back"], float(coil_fixture(80)["back"])), "the weight scales with the epochs"
    features = F.normalize(torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]]))
    back = features @ torch.tensor([[0.0, 1.0], [1.0, 0.0]]).T
    plain = -((OLD.float() / 2).softmax(1) * (back / 2).log_softmax(1)).sum(1).mean()
    assert close(coil_fixture(80)["back"], 1e-3 * 0.25 * float(plain))


def test_coil_reads_exemplars_and_the_present_task_only() -> None:
    method = second_task(Coil(), CosineHead(2))
    asked: list[Samples] = []

    def extract(samples: Samples) -> Tensor:
        asked.append(samples)
        return torch.rand(len(samples), 2)

    method.extract = extract
    method.memory = type("Stored", (), {"samples": Samples(torch.zeros(2, 1), torch.tensor([0, 1]))})()
    method.task = Task(1, 2, 2, Samples(torch.zeros(4, 1), torch.tensor([2, 2, 3, 3])))
    method.means()
    assert asked == [method.memory.samples, method.task.train]


def test_coil_refreshes_once_an_epoch_or_as_asked() -> None:
    for refresh, wanted in ((0, [0]), (2, [0, 2, 4])):
        method = second_task(Coil(refresh=refresh), CosineHead(2))
        method.teacher = teaches(OLD.float())
        calls: list[int] = []
        method.ahead = method.back = torch.eye(2)
        for step in range(5):
            method.transport_back = lambda step=step, calls=calls: calls.append(step)
            method.losses(Batch(torch.rand(3, 2), Y, 1, 10, step, 5))
        assert calls == wanted


# --- 7.13 FeTrIL


def test_fetril_finds_the_nearest_new_class() -> None:
    old, new = torch.tensor([[2.0, 0.2], [0.1, 1.0]]), torch.tensor([[5.0, 1.0], [0.5, 0.6]])
    assert nearest_new(old, new, "cosine").tolist() == [0, 1]
    assert nearest_new(old, new, "euclid").tolist() == [1, 1]


def test_fetril_moves_new_features_onto_old_means() -> None:
    method = FeTrIL()
    data = load_dataset("synthetic:classes=4,train=2,test=2")
    method.start(make_setting(resolve(make_request({"data": data.name, "tasks": 2}), data, FeTrIL), data, CPU))
    method.net.regrow([2, 2])
    means = torch.zeros(4, 128)
    means[:, :2] = torch.tensor([[2.0, 0.2], [0.1, 1.0], [5.0, 1.0], [0.5, 0.6]])
    method.net.head.means = means
    method.features = torch.zeros(4, 128)
    method.features[:, :2] = torch.tensor([[5.2, 0.8], [4.8, 1.2], [0.5, 0.6], [0.5, 0.6]])
    method.task = Task(1, 2, 2, Samples(torch.zeros(4, 1), torch.tensor([2, 2, 3, 3])))
    rows = method.translate_features()
    assert rows.labels.tolist() == [2, 2, 3, 3, 0, 0, 1, 1]
    moved = rows.inputs[rows.labels == 0][:, :2]
    assert torch.allclose(moved, torch.tensor([[2.2, 0.0], [1.8, 0.4]]), atol=1e-5)


@pytest.mark.parametrize("tasks", [2, 4])
def test_fetril_svm_runs(tasks: int) -> None:
    options = {"classifier": "svm", "nearest": "euclid"}
    record = run("fetril", "synthetic:classes=4,train=20,test=5", tasks=tasks, epochs=5, options=options)
    assert record["a_last"]["head"] > 40


# --- 7.14 NCCIL


def test_nccil_terms() -> None:
    method = second_task(NCCIL(flight="off"), PrototypeHead(2, frame=torch.eye(2)), torch.tensor([5, 5]), (1, 1))
    method.targets = torch.eye(2)
    method.teacher = teaches(torch.tensor([[1.0, 0.0], [0.5, 0.9]]))
    losses = method.losses(late(torch.tensor([[1.0, 0.2], [0.3, 0.9]]), torch.tensor([0, 1])))
    assert close(losses["align"], 0.000753)
    assert close(losses["hold"], 0.000838)
    assert close(total(losses), 0.001591)


def test_nccil_targets_fly() -> None:
    target = flying_target(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8]]), 0.25)
    assert torch.allclose(target, torch.tensor([[0.759257, 0.650791]]), atol=1e-5)
    method = second_task(NCCIL(), PrototypeHead(4, frame=torch.eye(4)))
    method.targets = torch.eye(4)
    method.centroids = F.normalize(torch.ones(2, 4))
    batch = late(torch.zeros(1, 4), Y[:1], epoch=5, epochs=10)
    assert torch.equal(method.targets_at(batch)[:2], torch.eye(4)[:2]), "old classes stay at their corners"
    half = F.normalize(0.5 * torch.eye(4)[2:] + 0.5 * method.centroids)
    assert torch.allclose(method.targets_at(batch)[2:], half)
    method.flight = "half"
    assert torch.allclose(method.targets_at(batch)[2:], torch.eye(4)[2:]), "half-rate: there at half of the epochs"


def test_nccil_gives_every_new_class_a_centroid() -> None:
    """The UPCL repository leaves the first new class of each task at zero."""
    data = load_dataset("synthetic:classes=4,train=4,test=2")
    method = NCCIL()
    method.start(make_setting(resolve(make_request({"data": data.name, "tasks": 2}), data, NCCIL), data, CPU))
    for index, first in enumerate((0, 2)):
        inside = (data.train.labels >= first) & (data.train.labels < first + 2)
        method.begin(Task(index, first, 2, data.train[inside]))
        assert torch.allclose(method.centroids.norm(dim=1), torch.ones(2), atol=1e-5)
        start = method.targets_at(Batch(torch.zeros(1), torch.zeros(1), 0, 10, 0, 1))[first:]
        assert torch.allclose(start, method.centroids, atol=1e-6)


def test_nccil_official_form() -> None:
    record = run("nccil", "synthetic:classes=4,train=8,test=4", tasks=2, epochs=1, options={"form": "official"})
    assert record["finished"]
    method = second_task(NCCIL(form="official"), PrototypeHead(4, frame=torch.eye(4)))
    assert method.weights() == (5.0, 50.0)
    assert first_task(method).weights()[0] == 10.0


# --- 7.15 ScrollNet


@pytest.mark.parametrize("scroll", [1, 5])
def test_scrollnet_rolls_channels(scroll: int) -> None:
    roll = Roll(4)
    roll.scroll = scroll % 4
    assert roll.take(torch.arange(8)).tolist() == [2, 3, 4, 5, 6, 7, 0, 1]
    roll.width = 2
    assert roll.take(torch.arange(8)).tolist() == [2, 3, 4, 5]
    assert roll.put(torch.tensor([-1, -2, -3, -4]), torch.arange(8)).tolist() == [0, 1, -1, -2, -3, -4, 6, 7]


def test_scrollnet_sums_over_widths() -> None:
    method = second_task(ScrollNet(num_subnets=2), Scores(4))
    backbone = type("Widths", (nn.Module,), {"at_width": lambda _, rows, width: rows if width == 2 else rows / 2})()
    method.net.backbone = backbone
    method.__class__ = type("Loose", (ScrollNet,), {"backbone": property(lambda self: self.net.backbone)})
    assert close(total(method.losses(late(X, Y))), 1.657452)
    method.teacher = teaches(OLD)
    assert close(total(method.losses(late(X, Y))), 2.313096)
    method.over = "finetune"
    assert close(total(method.losses(late(X, Y))), 1.657452)
    method.memory = type("Stored", (), {"samples": ()})()
    alone = method.losses(late(X[1:], Y[1:]))["ce_2"]
    assert close(alone, 0.300299), "without exemplars only the new classes are told apart"


# --- 8, 9: UPCL and the ablation


def upcl_fixture(**options: Any) -> Any:
    head = PrototypeHead(4, frame=torch.eye(4))
    method = second_task(UPCL(**options), head)
    method.teacher = teaches(torch.tensor(RAW_TEACHER))
    return method


@pytest.mark.parametrize(
    ("tau", "whole", "early", "first"), [(0.07, 0.146211, 0.145211, 0.562134), (0.5, 0.634404, 0.212754, 1.673607)]
)
def test_upcl_totals(tau: float, whole: float, early: float, first: float) -> None:
    features = torch.tensor(RAW)
    assert close(total(upcl_fixture(tau=tau).losses(late(features, LABELS))), whole)
    assert close(total(upcl_fixture(tau=tau).losses(late(features, LABELS, epoch=50))), early)
    assert "proto" in upcl_fixture(tau=tau).losses(late(features, LABELS, epoch=51)), "L_proto starts after epoch 50"
    started = first_task(upcl_fixture(tau=tau))
    assert close(total(started.losses(Batch(features, LABELS, 51, 200, 0, 1))), first)
    assert "proto" not in started.losses(Batch(features, LABELS, 50, 200, 0, 1))


@pytest.mark.parametrize(
    ("margin", "value"),
    [("prior", 0.002001), ("paper_literal", 9.346455), ("none", 0.001667), ("fixed", 0.006901), ("columns", 0.001206)],
)
def test_upcl_margins(margin: Any, value: float) -> None:
    losses = upcl_fixture(margin=margin).losses(late(torch.tensor(RAW), LABELS))
    assert close(losses["proto"] / 0.5, value)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("1/2^t", [1, 0.5, 0.25, 0.125, 0.0625]),
        ("1/10^t", [1, 0.1, 0.01, 0.001, 0.0001]),
        ("2^t", [1, 2, 4, 8, 16]),
        ("0.1", [0.1] * 5),
        ("1", [1.0] * 5),
        ("2", [2.0] * 5),
    ],
)
def test_lambda_1_schedules_change_the_feature_term_alone(name: Any, weights: list[float]) -> None:
    assert name in LAMBDA_ONE
    for t, weight in enumerate(weights):
        method = upcl_fixture(lambda_1=name)
        method.task = Task(t, 2, 2, method.task.train)
        losses = method.losses(late(torch.tensor(RAW), LABELS))
        assert float(losses["feat"]) == pytest.approx(0.5 * weight * 0.560132, rel=1e-5)
        assert close(losses["fkd"], 0.5 * 0.010355)


@pytest.mark.parametrize(("warmup", "epochs", "first"), [(51, 17, 6), (0, 17, 0), (57, 170, 57), (51, 170, 51)])
def test_upcl_warm_up_scales_with_the_epochs(warmup: int, epochs: int, first: int) -> None:
    method = upcl_fixture(proto_warmup=warmup)
    started = ["proto" in method.losses(late(torch.tensor(RAW), LABELS, e, epochs)) for e in range(epochs)]
    assert started == [False] * first + [True] * (epochs - first)


@pytest.mark.parametrize("every", ["batch", "epoch"])
def test_upcl_matches_every_batch_or_every_epoch(every: Any) -> None:
    method = upcl_fixture(assign_every=every)
    calls: list[int] = []
    method.net.head.match = lambda *_, **__: calls.append(1)
    for step in range(3):
        method.losses(Batch(torch.tensor(RAW), LABELS, 0, 10, step, 3))
    assert len(calls) == (3 if every == "batch" else 1)


def test_the_official_loss_of_the_first_matching_can_be_emulated() -> None:
    for lose, wanted in ((False, [1, 0, 2, 3]), (True, [0, 1, 2, 3])):
        data = load_dataset("synthetic:classes=4,train=2,test=2")
        method = UPCL(lose_task0_assignment=lose)
        method.start(make_setting(resolve(make_request({"data": data.name, "tasks": 2}), data, UPCL), data, CPU))
        method.begin(Task(0, 0, 2, data.train[data.train.labels < 2]))
        method.net.head.assignment = torch.tensor([1, 0])
        method.begin(Task(1, 2, 2, data.train[data.train.labels >= 2]))
        assert method.net.head.assignment.tolist() == wanted


ROWS = torch.tensor([[1.0, 0.2, 0.0, 0.0], [0.0, 1.0, 0.3, 0.0], [0.1, 0.0, 1.0, 0.0], [0.0, 0.0, 0.2, 1.0]])


@pytest.mark.parametrize(("margin", "value"), [("none", 0.318017), ("fixed", 0.436928), ("prior", 0.505593)])
def test_cosine_rows_of_the_ablation(margin: Any, value: float) -> None:
    method = second_task(Cosine(margin=margin), CosineHead(4))
    head = method.net.head
    with torch.no_grad():
        head.old.copy_(ROWS[:2])
        head.new.copy_(ROWS[2:])
        head.sigma.fill_(4.0)
    method.teacher = teaches(torch.tensor(RAW_TEACHER))
    losses = method.losses(late(torch.tensor(RAW), LABELS))
    assert close(losses["ce"] / 0.5, value)
    assert close(losses["fkd"] / 0.5, 0.010355), "-1.893856 would be a teacher that is not normalised"
    if margin == "none":
        assert close(total(losses), 0.164186)
    assert close(cosine_distillation(F.normalize(torch.tensor(RAW)), torch.tensor(RAW_TEACHER)), -1.893856)


def test_the_seven_rows_are_built_from_the_same_parts() -> None:
    assert list(VARIANTS) == ["baseline", "cos", "cos+fm", "cos+dm", "up", "up+fm", "up+dm"]
    assert VARIANTS["up+dm"].method is METHODS["upcl"]
    assert VARIANTS["baseline"].method is METHODS["icarl"]
    quick: dict[str, Any] = {"tasks": 2, "memory": "6", "epochs": 4}
    data = "synthetic:classes=4,train=6,test=2"
    weights = {name: run(name, data, **quick)["weights_sha256"] for name in VARIANTS}
    assert weights["up+dm"] == run("upcl", data, **quick)["weights_sha256"]
    assert weights["baseline"] == run("icarl", data, **quick)["weights_sha256"]
    assert len(set(weights.values())) == 7


@pytest.mark.parametrize("prototypes", ["uniform", "orthonormal", "gaussian", "simplex", "energy"])
def test_upcl_takes_any_generator(prototypes: str) -> None:
    record = run("upcl", "synthetic:classes=6,train=6,test=2", tasks=3, epochs=1, options={"prototypes": prototypes})
    assert record["finished"]


def test_upcl_goes_on_beyond_the_feature_dimensions() -> None:
    data = "synthetic:classes=30,train=4,test=1"
    record = run("upcl", data, tasks=3, epochs=1, options={"projector": 8})
    assert record["finished"]
    for prototypes in ("orthonormal", "simplex"):
        with pytest.raises(Exception, match=r"do(es)? not fit in 8"):
            run("upcl", data, tasks=3, epochs=1, options={"projector": 8, "prototypes": prototypes})


# --- what equal numbers of old and new classes would hide


@pytest.mark.parametrize("name", ["wa", "bic", "coil"])
def test_the_past_weighs_as_its_share_of_the_classes(name: str) -> None:
    method: Any = METHODS[name]()
    method.task = Task(1, 4, 2, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert method.weights() == pytest.approx((1 / 3, 2 / 3))


def test_upcl_weighs_the_past_by_its_share() -> None:
    head = PrototypeHead(4, frame=torch.eye(4))
    method = second_task(UPCL(), head, COUNTS, (3, 1))
    method.teacher = teaches(torch.tensor(RAW_TEACHER))
    losses = method.losses(late(torch.tensor(RAW), LABELS))
    assert close(losses["fkd"], 0.75 * 0.010355)
    assert close(losses["feat"], 0.25 * 0.5 * 0.560132)
    assert close(losses["proto"], 0.25 * 0.002001)


Numbers = tuple[int, float, tuple[int, ...], float, int]
RECIPES_OF_THE_SPECIFICATION: dict[str, list[Numbers]] = {
    "joint": [(200, 0.1, (60, 120, 170), 5e-4, 128), (200, 0.1, (60, 120, 170), 5e-4, 128)],
    "finetune": [(200, 0.1, (60, 120, 170), 5e-4, 128), (80, 0.1, (40, 70), 2e-4, 128)],
    "icarl": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (80, 120), 2e-4, 128)],
    "wa": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (60, 100, 140), 2e-4, 128)],
    "lwf": [(200, 0.1, (60, 120, 160), 5e-4, 128), (250, 0.1, (60, 120, 180, 220), 2e-4, 128)],
    "bic": [(170, 0.1, (60, 100, 140), 2e-4, 128), (170, 0.1, (60, 100, 140), 2e-4, 128)],
    "coil": [(160, 0.1, (80, 120), 5e-4, 128), (160, 0.1, (80, 120), 5e-4, 128)],
    "fetril": [(200, 0.1, (), 5e-4, 128), (50, 0.05, (), 5e-4, 128)],
    "lucir": [(160, 0.1, (80, 120), 5e-4, 128), (160, 0.1, (80, 120), 5e-4, 128)],
    "nccil": [(200, 0.1, (60, 120, 170), 5e-4, 128), (170, 0.1, (80, 120, 150), 2e-4, 128)],
    "scrollnet": [(200, 0.1, (80, 120), 0.0, 64), (200, 0.1, (80, 120), 0.0, 64)],
    "upcl": [(200, 0.1, (60, 120, 170), 5e-4, 256), (170, 0.1, (80, 120, 150), 2e-4, 256)],
}
SAME_AS = {"focal": "icarl", "ldam": "icarl", "la": "icarl", "cwd": "lucir"}


@pytest.mark.parametrize("name", METHODS)
def test_own_recipes(name: str) -> None:
    recipes = METHODS[name].recipes
    wanted = RECIPES_OF_THE_SPECIFICATION[SAME_AS.get(name, name)]
    for recipe, (epochs, lr, milestones, decay, batch) in zip((recipes.first, recipes.later), wanted, strict=True):
        assert (recipe.epochs, recipe.lr, recipe.milestones) == (epochs, lr, milestones)
        assert (recipe.weight_decay, recipe.batch_size, recipe.gamma) == (decay, batch, 0.1)
        assert recipe.momentum == (0.0 if name == "scrollnet" else 0.9)
        assert recipe.schedule == ("cosine" if name == "fetril" else "step")
        assert recipe.clip == (1e4 if name == "scrollnet" else 0)


def begun(method: Any, counts: tuple[int, int] = (2, 2), **request: Any) -> Any:
    """A method that has learned a first task and begun the second, on a small stream."""
    data = load_dataset("synthetic:classes=4,train=6,test=2")
    asked = make_request({"data": data.name, "tasks": list(counts), "epochs": 1, "memory": "8", **request})
    config = resolve(asked, data, type(method))
    torch.manual_seed(0)
    method.start(make_setting(config, data, CPU))
    for index, (first, num) in enumerate([(0, counts[0]), counts]):
        inside = (data.train.labels >= first) & (data.train.labels < first + num)
        task = Task(index, first, num, data.train[inside])
        if index == 1:
            method.begin(task)
            return method
        for stage in method.learn(task):
            fit(method.net, stage, transform=data.transform, device=CPU, seed_path=(0,))
    return method


def test_coil_starts_new_rows_at_the_transported_ones_and_its_advice_has_no_gradient() -> None:
    method = begun(Coil())
    old, new = method.means()
    rows = transport(old, new, method.net.head.old, method.regularisation)
    assert torch.allclose(method.net.head.new, rows, atol=1e-5)
    features = torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]])
    fixture = second_task(Coil(), CosineHead(2))
    fixture.teacher = teaches(OLD.float())
    fixture.ahead = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    losses = fixture.losses(Batch(features, Y, 0, 160, 0, 1))
    advice = F.normalize(features) @ fixture.ahead.T
    scores = fixture.net.head(features)[:, 2:]
    plain = -((advice / 2).softmax(1) * (scores / 2).log_softmax(1)).sum(1).mean()
    assert float(losses["ahead"].detach()) == pytest.approx(1e-3 * float(plain.detach()), rel=1e-5)
    with torch.no_grad():
        fixture.net.head.new.zero_()
    rows = features.requires_grad_()
    again = fixture.losses(Batch(rows, Y, 0, 160, 0, 1))["ahead"]
    (gradient,) = torch.autograd.grad(again, rows, allow_unused=True)
    assert gradient is None or not bool(gradient.any()), "with zero rows only the advice could carry one"


def test_coil_calibrates_by_the_mean_norm() -> None:
    old, new = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.8, 0.6], [0.6, 0.8], [-0.6, 0.8]])
    plan = torch.tensor([[0.256226, 0.185935, 0.057839], [0.077107, 0.147398, 0.275495]])
    rows = transport(old, new, torch.tensor([[2.0, 0.0], [0.0, 1.0]]), 0.464)
    gamma = rows[0, 0] / (2 * plan[0, 0])
    assert float(gamma) == pytest.approx(2.861322, abs=1e-4)


@pytest.mark.parametrize("method", [Cosine(), Coil(), LDAM()], ids=lambda m: m.name)
def test_new_cosine_rows_are_never_zero(method: Any) -> None:
    assert float(begun(method).net.head.vectors.detach().norm(dim=1).min()) > 0.1


def test_lucir_imprints_when_a_task_begins() -> None:
    method = begun(LUCIR())
    task = method.task
    means = class_means(method.extract(task.train), task.train.labels - task.num_old, task.num_new)
    assert torch.allclose(F.normalize(method.net.head.new), means, atol=1e-5)


def test_scrollnet_advances_and_its_teacher_stays_behind() -> None:
    method = begun(ScrollNet())
    assert method.backbone.roll.scroll == 1
    assert method.teacher.backbone.roll.scroll == 0
    state = method.net.state_dict()
    method.backbone.roll.scroll = 3
    method.net.load_state_dict(state)
    assert method.backbone.roll.scroll == 1, "the scroll is saved with the weights"


def test_scrollnet_norms_roll_with_their_channels() -> None:
    torch.manual_seed(0)
    backbone = SlimmableBackbone(BACKBONES["small"], 3, 4).eval()
    for name, value in backbone.named_parameters():
        if "norms" in name:
            nn.init.uniform_(value, 0.5, 1.5)
    for buffer in backbone.buffers():
        nn.init.uniform_(buffer, 0.5, 1.5)
    images, outputs = torch.randn(2, 3, 8, 8), []
    for scroll in range(4):
        backbone.roll.scroll = scroll
        outputs.append(backbone(images))
    assert all(torch.allclose(outputs[0], other, atol=1e-4) for other in outputs), "at full width nothing is left out"
    narrow = backbone.at_width(images, 1)
    used = narrow.abs().sum(0) > 0
    assert used.nonzero().min() >= 96, "the fourth group of 128 features"


def test_wa_aligns_at_the_end_of_a_task_and_clips_where_asked() -> None:
    method = begun(METHODS["wa"](clip_weights=True))  # type: ignore[call-arg]
    norms = method.net.head.weight.detach().norm(dim=1)
    assert not torch.isclose(norms[:2].mean(), norms[2:].mean(), rtol=1e-3)
    for stage in method.learn(Task(2, 4, 1, Samples(method.task.train.inputs[:3], torch.full((3,), 4)))):
        fit(method.net, stage, transform=method.setting.transform, device=CPU, seed_path=(0,))
    weight = method.net.head.weight.detach()
    assert float(weight.min()) >= 0
    assert torch.allclose(weight[:4].norm(dim=1).mean(), weight[4:].norm(dim=1).mean(), rtol=1e-4)


@pytest.mark.parametrize(("epoch", "weighted"), [(79, False), (80, True)])
def test_ldam_reweights_the_last_fifth(epoch: int, weighted: bool) -> None:
    method = second_task(LDAM(deferred=True), Scores(4))
    plain = second_task(LDAM(), Scores(4)).losses(late(30 * COSINES, Y, epoch, 100))["ce"]
    assert close(method.losses(late(30 * COSINES, Y, epoch, 100))["ce"], float(plain)) != weighted


def test_nccil_official_values() -> None:
    method = second_task(NCCIL(form="official"), PrototypeHead(4, frame=torch.eye(4)), COUNTS, (3, 1))
    method.net.growth = [1, 2, 1]
    assert method.weights() == pytest.approx((5.0, 50 * 3**0.5))
    method.targets, method.centroids = torch.eye(4), F.normalize(torch.ones(1, 4))
    flight = method.targets_at(late(torch.zeros(1, 4), Y[:1], epoch=9, epochs=10))
    assert torch.allclose(flight[3], torch.eye(4)[3]), "(e + 1) / E reaches the corner in the last epoch"
    rows, old = torch.tensor(RAW), torch.tensor(RAW_TEACHER)
    method.teacher = teaches(old)
    held = method.losses(late(rows, LABELS, epoch=9, epochs=10))["hold"]
    of_old = LABELS < 3
    squares = ((F.normalize(rows) * F.normalize(old)).sum(1) - 1).square() / 2
    assert float(held) == pytest.approx(50 * 3**0.5 * float(squares[of_old].mean()), rel=1e-4)


def test_nccil_dots_of_the_specification() -> None:
    dots = (F.normalize(torch.tensor([[1.0, 0.2], [0.3, 0.9]])) * torch.eye(2)).sum(1)
    assert torch.allclose(dots, torch.tensor([0.980581, 0.948683]), atol=1e-5)


def test_fetril_svm_reads_normalised_features() -> None:
    method = begun(FeTrIL(classifier="svm"))
    features = torch.rand(3, 128)
    assert torch.allclose(method.scores(features), method.scores(7 * features), atol=1e-5)
    method.classifier = "linear"
    assert not torch.allclose(method.scores(features), method.scores(7 * features), atol=1e-5)


def test_cosine_columns_act_on_logits() -> None:
    method = second_task(Cosine(margin="columns", margin_old=0.1, margin_size=2.0), CosineHead(4))
    with torch.no_grad():
        method.net.head.old.copy_(ROWS[:2])
        method.net.head.new.copy_(ROWS[2:])
        method.net.head.sigma.fill_(4.0)
    assert close(method.losses(late(torch.tensor(RAW), LABELS))["ce"] / 0.5, 0.782150)
