from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from upcl.nets import CosineHead, Head, LinearHead, PrototypeHead


def matched_head(dim: int = 16) -> PrototypeHead:
    """A head whose first four classes are matched in reverse order."""
    head = PrototypeHead(dim)
    head.grow(4)
    head.update_centroids(head.frame.flip(0), torch.arange(4), 0.9)
    head.assign(0)
    assert head.assignment.tolist() == [3, 2, 1, 0]
    return head


def test_old_prototypes_survive_growth_moves_copies_and_files() -> None:
    head = matched_head()
    before = head.vectors.clone()
    buffer = io.BytesIO()
    torch.save(head.state_dict(), buffer)
    buffer.seek(0)
    loaded = PrototypeHead(16)
    loaded.grow(4)
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    moved = copy.deepcopy(head)
    moved.load_state_dict({name: value.clone() for name, value in moved.state_dict().items()})  # breaks every alias
    for other in (copy.deepcopy(head), copy.deepcopy(head).to(torch.float64).to(torch.float32), loaded, moved):
        assert torch.equal(other.vectors, before)
        for num_new in (3, 1, 5):
            other.grow(num_new)
            other.update_centroids(other.frame.flip(0), torch.arange(other.num_classes), 0.9)
            other.assign(other.num_classes - num_new)
            assert torch.equal(other.vectors[:4], before), "matching new classes moved an old prototype"


@settings(max_examples=25)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 10**6))
def test_prototypes_stay_orthonormal_and_old_ones_fixed(growth: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    head = PrototypeHead(32)
    old = torch.empty(0, 32)
    for num_new in growth:
        head.grow(num_new)
        assert torch.equal(head.vectors[: len(old)], old)
        labels = torch.randint(0, head.num_classes, (20,))
        head.update_centroids(F.normalize(torch.randn(20, 32)), labels, 0.9)
        head.assign(len(old))
        assert sorted(head.assignment.tolist()) == list(range(head.num_classes))
        gram = head.vectors @ head.vectors.T
        assert torch.allclose(gram, torch.eye(head.num_classes), atol=2e-6)
        old = head.vectors.clone()


def test_centroids_follow_the_moving_average_of_the_specification() -> None:
    head = PrototypeHead(3)
    head.grow(2)
    start = F.normalize(torch.tensor([[1.0, 1.0, 0.0]]))
    head.update_centroids(start, torch.tensor([0]), 0.9)
    assert torch.allclose(head.centroids[0], start[0]), "the first sight overwrites"
    assert head.met.tolist() == [True, False]
    unseen = head.centroids[1].clone()
    rows = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.8, 0.6]])
    assert torch.allclose(F.normalize(rows.mean(0), dim=0), torch.tensor([0.0, 0.948683, 0.316228]), atol=1e-5)
    head.update_centroids(rows, torch.tensor([0, 0]), 0.9)
    assert torch.allclose(head.centroids[0], torch.tensor([0.656132, 0.753942, 0.032603]), atol=1e-5)
    assert torch.allclose(head.centroids[1], unseen)


def test_matching_can_follow_cosines_or_distances() -> None:
    for by_distance, wanted in ((False, [1, 0]), (True, [0, 1])):
        head = PrototypeHead(4)
        head.grow(2)
        head.frame = torch.eye(4)[:2]
        rows = torch.tensor([[0.85, 0.5, 0.0, 0.0], [0.4, 0.0, 0.0, 0.0]])
        rows[:, 3] = (1 - rows.square().sum(1)).sqrt()
        head.centroids = rows
        head.assignment = torch.tensor([1, 0]) if by_distance else torch.tensor([0, 1])
        head.assign(0, by_distance=by_distance)
        assert head.assignment.tolist() == wanted


@pytest.mark.parametrize("kind", [LinearHead, CosineHead, PrototypeHead])
def test_growth_leaves_old_scores_as_they_are(kind: type[Head]) -> None:
    torch.manual_seed(0)
    head, rows = kind(12), torch.randn(5, 12)
    head.grow(3)
    before = head(rows)
    head.grow(4)
    assert head(rows).shape == (5, 7)
    assert torch.allclose(head(rows)[:, :3], before, atol=1e-6)


def test_linear_head_starts_with_zero_bias_and_bounded_rows() -> None:
    head = LinearHead(100)
    head.grow(50)
    assert not bool(head.bias.any())
    assert 0.15 < float(head.weight.detach().abs().max()) <= (3 / 100) ** 0.5


def test_cosine_head_scales_cosines() -> None:
    head = CosineHead(8)
    head.grow(3)
    assert float(head.sigma.detach()) == 1.0
    assert float(head.vectors.detach().abs().max()) <= 8**-0.5
    with torch.no_grad():
        head.sigma.fill_(4.0)
    rows = torch.randn(6, 8)
    wanted = 4 * F.cosine_similarity(rows[:, None], head.vectors[None], dim=2)
    assert torch.allclose(head(rows), wanted, atol=1e-6)
