"""Logical shards: the same weights for every number of processes, for every method."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.data.files import make_photos, photo_folder
from tests.training.worlds import SHARDS, request, results
from upcl.core.identity import differences
from upcl.methods import METHODS
from upcl.nets import make_backbone
from upcl.research.run import run
from upcl.training.sharding import Sharding, SharedPhotos, add_pairwise, divide_batch
from upcl.training.world import World


@pytest.mark.timeout(1200)
def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    found, photos = {}, photo_folder(tmp_path / "own", per_class=7)
    for size, methods in ((1, list(METHODS)), (2, list(METHODS)), (4, ["upcl", "lucir", "bic", "der"])):
        (tmp_path / str(size)).mkdir()
        found[size] = results(size, tmp_path / str(size), methods, photos)
    assert len(found[1]) == len(found[2]) == len(METHODS) + 3
    for size in (2, 4):
        for case, actual in found[size].items():
            assert differences(found[1][case], actual) == [], f"{case} in {size} processes"
    for record in found[1].values():
        assert record["config"]["shards"] == SHARDS and len(record["weights_sha256"]) == 64


def test_shards_are_part_of_the_config_and_one_is_as_before() -> None:
    whole, sharded = (run(request("icarl", shards=shards), device="cpu") for shards in (1, 2))
    assert "shards" not in whole.config.to_json() and sharded.config.to_json()["shards"] == 2
    assert whole.config_digest != sharded.config_digest
    assert whole.weights_sha256 != sharded.weights_sha256, "batch norm sees one shard at a time"


@pytest.mark.parametrize("num", [1, 2, 3, 7, 8, 9, 33, 64])
@pytest.mark.parametrize("shards", [1, 2, 4, 8])
def test_shards_cover_a_batch_with_two_rows_each_at_least(num: int, shards: int) -> None:
    parts = divide_batch(num, shards)
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(num))
    sizes = [part.stop - part.start for part in parts]
    assert len(parts).bit_count() == 1 and max(sizes) - min(sizes) <= 1
    assert len(parts) == 1 or min(sizes) >= 2


def test_addition_follows_a_tree() -> None:
    values = [torch.tensor(value) for value in (1e8, 1.0, -1e8, 1.0)]
    assert add_pairwise(values).item() == ((values[0] + values[1]) + (values[2] + values[3])).item()
    assert add_pairwise(values[:1]) is values[0]


def test_gradients_are_those_of_each_shard_by_itself() -> None:
    torch.manual_seed(0)
    backbone, images, target = make_backbone("small"), torch.rand(6, 3, 8, 8), torch.rand(6, 128)
    parts = images.split([3, 3])
    (torch.cat([backbone(part) for part in parts]) * target).sum().backward()
    expected = [p.grad for p in backbone.parameters()]
    backbone.zero_grad(set_to_none=True)
    (Sharding(2)(backbone, backbone, images) * target).sum().backward()
    for parameter, gradient in zip(backbone.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-5), "summed, not averaged"  # type: ignore[arg-type]


def test_running_statistics_are_the_mean_over_shards() -> None:
    norm = nn.BatchNorm2d(1)
    images = torch.arange(8.0).view(4, 1, 1, 2)
    Sharding(2)(norm, norm, images)
    assert norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked == 1
    means, variances = (torch.stack([getattr(half, name)() for half in images.chunk(2)]) for name in ("mean", "var"))
    assert torch.allclose(norm.running_mean, 0.1 * means.mean())
    assert torch.allclose(norm.running_var, 0.9 + 0.1 * variances.mean())
    before = norm.running_mean.clone()
    norm.eval()
    Sharding(2)(norm, norm, images)
    assert torch.equal(norm.running_mean, before), "evaluation changes nothing"


def test_parameters_that_are_not_used_have_no_gradient() -> None:
    module = nn.ModuleDict({"used": nn.Linear(3, 2), "idle": nn.Linear(3, 2)})
    Sharding(2)(module, module["used"], torch.rand(4, 3)).sum().backward()
    assert module["used"].weight.grad is not None and module["idle"].weight.grad is None


def test_photos_of_one_process_are_those_of_the_files(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(40, 30), (30, 50), (20, 20)])
    shared = SharedPhotos.over(photos, World())
    batches = [torch.tensor([0, 2]), torch.tensor([1])]
    for one, other in zip(
        photos.batches(torch.arange(3), batches, augment=False),
        shared.batches(torch.arange(3), batches, augment=False),
        strict=True,
    ):
        assert torch.equal(one, other)
    assert shared.to_json() == photos.to_json()
