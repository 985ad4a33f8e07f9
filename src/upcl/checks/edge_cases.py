"""Checks that a method survives unusual data and settings, a frozen backbone, shards and export."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from upcl.core.errors import UserError
from upcl.data import Dataset, load_dataset
from upcl.methods import Method, MethodClass
from upcl.model.bundle import ModelState
from upcl.model.scoring import Scoring
from upcl.nets import frozen_copy
from upcl.research.config import Request
from upcl.research.record import Record
from upcl.research.run import RunProgress, run

from .harness import QUICK, SYNTHETIC, MethodHarness, check_scores, few_digits


def _run(data: str | Dataset, method: MethodClass, **changes: Any) -> Record:
    record = run(Request(method=method, data=data, **{**QUICK, "epochs": 1, **changes}))
    assert record.finished
    assert all(0 <= accuracy <= 100 for accuracy in record.top1.head)
    return record


def one_class_per_task(method: MethodClass) -> None:
    """Tasks of a single class, from the very first.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> one_class_per_task(METHODS["finetune"])
    """
    _run("synthetic:classes=4,train=8,test=4", method, tasks=4)


def one_image_in_a_class(method: MethodClass) -> None:
    """A class with a single training image.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> one_image_in_a_class(METHODS["finetune"])
    """
    dataset = load_dataset("synthetic:classes=4,train=8,test=4")
    rare = dataset.train.labels == 2
    rare[rare.nonzero()[0]] = False
    train = dataset.train[~rare]
    _run(Dataset(**{**vars(dataset), "train": train, "name": "one-image"}), method, tasks=2)


def memory_smaller_than_the_classes(method: MethodClass) -> None:
    """Fewer exemplars than classes: the run works, and the record has a note.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> memory_smaller_than_the_classes(METHODS["icarl"])
    """
    record = _run(SYNTHETIC, method, memory="4")
    enough = not method.uses_memory or record.exemplars[-1] > 4
    assert bool(record.notes) != enough, f"{record.exemplars[-1]} exemplars, notes {record.notes}"


def no_memory(method: MethodClass) -> None:
    """Without exemplars the run works, or is refused before training.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> no_memory(METHODS["bic"])  # it needs exemplars and is refused
    """
    if not method.needs_exemplars:
        _run(SYNTHETIC, method, memory="0")
        return
    try:
        run(Request(method=method, data=SYNTHETIC, **{**QUICK, "memory": "0"}), on_progress=_fail)
    except UserError:
        return
    raise AssertionError("it needs exemplars but ran without")


def _fail(_: RunProgress) -> None:
    raise AssertionError("training started")


def more_than_100_classes(method: MethodClass) -> None:
    """120 classes in 3 tasks.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> more_than_100_classes(METHODS["finetune"])  # doctest: +SKIP
    """
    _run("synthetic:classes=120,train=3,test=1", method, memory="120")


def uneven_tasks(method: MethodClass) -> None:
    """Tasks of different sizes.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> uneven_tasks(METHODS["finetune"])
    """
    _run(SYNTHETIC, method, tasks=(3, 1, 2))


def greyscale(method: MethodClass) -> None:
    """Images with one channel.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> greyscale(METHODS["finetune"])
    """
    _run(SYNTHETIC + ",channels=1", method)


def scenarios_are_learned_or_refused(method: MethodClass) -> None:
    """Every scenario is learned, or refused with the reason before anything is trained or written.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> scenarios_are_learned_or_refused(METHODS["lwf"])  # it refuses streams in which classes come back
    """
    for name in ("half", "blurry:25:50", "repeat:100", "online", "half+blurry:25+online"):
        reason = method().online_obstacle if "online" in name else ""
        if not method.accepts_extra() and ("blurry" in name or "repeat" in name):
            reason = "keeps no exemplars"
        values = {"scenario": name, "epochs": None if "online" in name else 1}
        if not reason:
            _run(SYNTHETIC, method, **values)
            continue
        with tempfile.TemporaryDirectory() as folder:
            refusal = _refusal(Request(method=method, data=SYNTHETIC, **{**QUICK, **values}), Path(folder) / "run")
            assert reason in refusal, f"scenario {name}: it must be refused, since '{reason}', but: '{refusal}'"
            assert not (Path(folder) / "run").exists(), f"scenario {name} was refused after something was written"


def frozen_features_are_learned_or_refused(method: MethodClass) -> None:
    """Features of a frozen backbone are learned, or refused with the reason before anything is trained or written.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> frozen_features_are_learned_or_refused(METHODS["der"])  # it adds backbones, and refuses
    """
    data = few_digits()
    if reason := method().frozen_obstacle:
        with tempfile.TemporaryDirectory() as folder:
            request = Request(method=method, data=data, frozen=True, **QUICK)
            refusal = _refusal(request, Path(folder) / "run")
            assert reason in refusal, f"it must be refused, since '{reason}', but: '{refusal}'"
            assert not (Path(folder) / "run").exists(), "it was refused after something was written"
        return
    harness = MethodHarness(method, data, frozen=True)
    before = {name: value.clone() for name, value in harness.method.net.backbone.state_dict().items()}
    for task in harness.tasks[:2]:
        try:
            harness.learn(task)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise AssertionError(f"frozen features failed, but `frozen_obstacle` names no reason: {reason}") from error
        check_scores(harness, task)
        stored = harness.method.extract(harness.method.memory.samples)
        assert stored.ndim == 2, "exemplars are not features"
    now = harness.method.net.backbone.state_dict()
    assert all(torch.equal(value, now[name]) for name, value in before.items()), "the frozen backbone changed"


def shards_are_learned(method: MethodClass) -> None:
    """Batches in two shards, which several processes may share, are learned.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> shards_are_learned(METHODS["finetune"])
    """
    harness = MethodHarness(method, few_digits(), shards=2)
    for task in harness.tasks[:2]:
        harness.learn(task)
        check_scores(harness, task)


class _Classifier(nn.Module):
    """Images in, calibrated confidence by the head out: what an exported model computes."""

    def __init__(self, method: Method[Any]) -> None:
        super().__init__()
        method, exemplars = copy.copy(method), method.memory.samples
        method.net = frozen_copy(method.net)
        classes = tuple(map(str, range(sum(method.net.growth))))
        state = ModelState({}, tuple(method.net.growth), classes, exemplars, held_out=exemplars[:0])
        self.scoring = Scoring(method, state, method.extract(exemplars))

    def forward(self, images: Tensor) -> Tensor:
        confidence: Tensor = self.scoring(self.scoring.net.features(images)).confidence
        return confidence


def predictions_can_be_exported(method: MethodClass) -> None:
    """The network is exported by `torch.export` for batches of any size, if models can grow with the method.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> predictions_can_be_exported(METHODS["finetune"])  # doctest: +SKIP
    """
    if method().needs_num_classes:
        return  # refused by `upcl learn`
    harness = MethodHarness(method, few_digits())
    for task in harness.tasks[:2]:
        list(harness.method.learn(task))  # without training: random weights are enough
    classifier = _Classifier(harness.method).eval()
    images, _ = next(harness.method.setting.batches(harness.tasks[0].train[:3]))
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of PyTorch's exporter
        exported = torch.export.export(classifier, (images[:2],), dynamic_shapes=(batch,)).module()
        difference = (exported(images) - classifier(images)).abs().max().item()
    assert difference < 1e-4, f"the exported network gives other probabilities: {difference:.2g}"


def _refusal(request: Request, out: Path) -> str:
    """Why a request is refused before training; empty if it is not."""
    try:
        run(request, out=out, on_progress=_fail)
    except UserError as error:
        return str(error)
    return ""


EDGE_CASES: tuple[Callable[[MethodClass], None], ...] = (
    one_class_per_task,
    one_image_in_a_class,
    memory_smaller_than_the_classes,
    no_memory,
    more_than_100_classes,
    uneven_tasks,
    greyscale,
    scenarios_are_learned_or_refused,
    frozen_features_are_learned_or_refused,
    shards_are_learned,
    predictions_can_be_exported,
)
