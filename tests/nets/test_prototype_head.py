"""The prototype head."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from upcl.core.matching import optimal_assignment
from upcl.nets import PrototypeHead, prototype_head


def assigned_head(dim: int = 16) -> PrototypeHead:
    """A head whose first four classes are assigned in reverse order."""
    head = PrototypeHead(dim)
    head.grow(4)
    head.update_centroids(head.frame.flip(0), torch.arange(4), 0.9)
    head.assign(0)
    assert head.assignment.tolist() == [3, 2, 1, 0]
    return head


def test_old_prototypes_survive_growth_moves_copies_and_files() -> None:
    head = assigned_head()
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
            assert torch.equal(other.vectors[:4], before), "assigning new classes moved an old prototype"


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
    assert torch.allclose(head.centroids[0], start[0]), "the first batch sets the centroid"
    assert head.met.tolist() == [True, False]
    unseen = head.centroids[1].clone()
    rows = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.8, 0.6]])
    assert torch.allclose(F.normalize(rows.mean(0), dim=0), torch.tensor([0.0, 0.948683, 0.316228]), atol=1e-5)
    head.update_centroids(rows, torch.tensor([0, 0]), 0.9)
    assert torch.allclose(head.centroids[0], torch.tensor([0.656132, 0.753942, 0.032603]), atol=1e-5)
    assert torch.allclose(head.centroids[1], unseen)


def test_assignment_maximises_cosines_or_minimises_distances() -> None:
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


def test_diagnostics_describe_the_new_classes() -> None:
    head = assigned_head()
    assert head.diagnostics(2)["assignment"] == [-1, -2], "relative to the first new class"
    assert head.diagnostics(0)["assignment"] == [3, 2, 1, 0]
    assert abs(head.diagnostics(0)["alignment"] - 1) < 1e-6


def test_a_frame_that_is_given_does_not_grow() -> None:
    head = PrototypeHead(4, frame=torch.eye(4))
    head.grow(2)
    head.grow(2)
    assert torch.equal(head.vectors, torch.eye(4))


def test_forgetting_a_class_erases_its_centroid() -> None:
    head = assigned_head()
    head.forget(1)
    assert head.centroids.norm(dim=1).tolist()[1] == 0
    assert torch.allclose(head.centroids.norm(dim=1)[[0, 2, 3]], torch.ones(3))


@pytest.mark.parametrize("by_distance", [False, True])
def test_many_classes_are_matched_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, *, by_distance: bool) -> None:
    monkeypatch.setattr(prototype_head, "MAX_MATCHED", 8)
    sizes = []

    def counted(similarity: torch.Tensor) -> torch.Tensor:
        sizes.append(similarity.shape)
        return optimal_assignment(similarity)

    monkeypatch.setattr(prototype_head, "optimal_assignment", counted)
    torch.manual_seed(0)
    head = PrototypeHead(4)
    head.grow(5)
    head.grow(20)
    head.update_centroids(F.normalize(torch.randn(25, 4)), torch.arange(25), 0.9)
    closeness = [float((head.centroids * head.vectors).sum())]
    moved = torch.tensor([7, 2, 9, 24, 9, 11])
    for labels in (moved, None):
        before = head.assignment.clone()
        head.assign(5, labels, by_distance=by_distance)
        others = torch.ones(25, dtype=torch.bool).index_fill_(
            0, torch.arange(5, 25) if labels is None else moved, False
        )
        others[:5] = True
        assert torch.equal(head.assignment[others], before[others]), "old classes and those that did not move"
        assert head.assignment.sort().values.tolist() == list(range(25))
        closeness.append(float((head.centroids * head.vectors).sum()))
    assert closeness == sorted(closeness) and closeness[0] < closeness[-1]
    assert sizes == [(4, 4), (8, 8), (8, 8), (4, 4)]


def test_as_many_classes_as_dimensions_are_matched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prototype_head, "MAX_MATCHED", 1)
    head = PrototypeHead(4)
    head.grow(4)
    head.update_centroids(head.frame.flip(0), torch.arange(4), 0.9)
    head.assign(0, torch.tensor([0]))
    assert head.assignment.tolist() == [3, 2, 1, 0]
