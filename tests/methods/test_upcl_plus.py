"""UPCL+."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.methods.scenarios import GivenTeacher, batch_at, built, second_task, small_data, split_tasks, train
from tests.specification import LABELS, RAW, RAW_TEACHER, close
from upcl.core.frames import largest_cosine
from upcl.core.losses import cosine_distillation, distillation
from upcl.core.types import Samples, Task
from upcl.methods.base import TermWeights
from upcl.methods.upcl import UPCL
from upcl.methods.upcl_plus import UPCLPlus
from upcl.nets import PrototypeHead


def fixture(cls: type[UPCL] = UPCLPlus, weighting: TermWeights = "normalised", **options: Any) -> Any:
    method = second_task(cls(weighting=weighting, **options), PrototypeHead(4, frame=torch.eye(4)))
    method.teacher = GivenTeacher(torch.tensor(RAW_TEACHER))
    return method


def test_the_loss_is_upcls_divided_by_the_share_of_new_classes() -> None:
    batch = batch_at(torch.tensor(RAW), LABELS)
    ours, theirs = (
        fixture(prior_reach=0.0, distil="features").losses(batch),
        fixture(UPCL, "share").losses(batch),
    )
    assert {name: float(value) for name, value in ours.items()} == pytest.approx(
        {name: float(value) / 0.5 for name, value in theirs.items()}, rel=1e-5
    )


@pytest.mark.parametrize(("num_kept", "weight"), [(0, 2.0), (10, 2 * 20 / 30), (40, 4 / 6)])
def test_distillation_stands_in_for_the_old_images_that_are_missing(num_kept: int, weight: float) -> None:
    """Without exemplars, C_old / C_new; if old classes have as many images as new ones, C_old / C."""
    images = Samples(torch.zeros(20 + num_kept, 1), torch.zeros(20 + num_kept, dtype=torch.int64))
    method = UPCLPlus()
    method.task, method.data = Task(index=2, num_old=4, num_new=2, train=images[:20]), images
    assert method.term_weights("missing") == pytest.approx((1.0, weight))


def test_what_is_distilled() -> None:
    unit, old = F.normalize(torch.tensor(RAW)), F.normalize(torch.tensor(RAW_TEACHER))
    batch = batch_at(torch.tensor(RAW), LABELS)
    features = cosine_distillation(unit, old)
    cosines = distillation(unit[:, :2] / 0.07, old[:, :2] / 0.07, 2.0)  # the old prototypes are the first two axes
    for name, wanted in (("features", features), ("cosines", cosines), ("both", features + cosines)):
        assert close(fixture(distil=name).losses(batch)["fkd"], float(wanted)), name
    assert close(fixture(distil="features", distil_weight=3.0).losses(batch)["fkd"], 3 * float(features))


def test_prototypes_are_orthonormal_and_within_reach_of_features() -> None:
    method = built(UPCLPlus, small_data())
    for task in split_tasks(small_data(), [2, 2]):
        train(method, task)
    vectors = method.net.head.vectors
    assert float(vectors.min()) >= 0
    assert largest_cosine(vectors) == pytest.approx(0, abs=1e-6)
    assert ((vectors > 0).sum(1) == 2).all(), "each owns two coordinates"


def test_the_number_of_owned_coordinates_is_an_option() -> None:
    head = UPCLPlus(coordinates=4).make_head(16)
    head.grow(3)
    assert ((head.vectors > 0).sum(1) == 4).all()
    head.grow(4)  # the seventh class finds no free coordinates
    assert float(head.vectors.min()) >= 0 and largest_cosine(head.vectors) < 1


def test_other_prototypes_are_upcls() -> None:
    head = UPCLPlus(prototypes="uniform").make_head(16)
    head.grow(3)
    assert float(head.vectors.min()) < 0
