"""The head of closed-form methods."""

from __future__ import annotations

import torch

from upcl.core.closed_form import Statistics
from upcl.nets.statistics_head import StatisticsHead


def test_growing_keeps_statistics_and_rows() -> None:
    head = StatisticsHead(3)
    head.grow(2)
    embeddings, labels = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 1, 1])
    head.statistics = head.measure(embeddings, labels)
    head.solution = torch.rand(2, 3), torch.rand(2)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    head.grow(1)
    assert torch.equal(head.gram, before["gram"]) and head.counts.tolist() == [2, 4, 0]
    for name in ("sums", "weight", "bias"):
        assert torch.equal(getattr(head, name)[:2], before[name]) and not getattr(head, name)[2].any()


def test_embeddings_of_any_length_count_the_same() -> None:
    head = StatisticsHead(3)
    head.grow(1)
    embeddings, labels = torch.rand(4, 3), torch.zeros(4, dtype=torch.int64)
    once, scaled = head.measure(embeddings, labels), head.measure(5 * embeddings, labels)
    assert torch.allclose(once.gram, scaled.gram) and torch.allclose(head(embeddings), head(5 * embeddings))
    assert once.gram.dtype == torch.float64 and torch.isclose(once.gram.trace(), torch.tensor(4.0, dtype=torch.float64))


def test_a_forgotten_class_leaves_nothing_once_its_images_are_subtracted() -> None:
    head = StatisticsHead(3)
    head.grow(2)
    embeddings, labels = torch.rand(6, 3), torch.tensor([0, 1, 0, 1, 1, 1])
    head.statistics = head.measure(embeddings, labels)
    head.statistics = head.statistics - head.measure(embeddings[labels == 1], labels[labels == 1])
    head.forget(1)
    expected = Statistics.of(torch.nn.functional.normalize(embeddings[labels == 0]), labels[labels == 0], 2)
    assert torch.allclose(head.gram, expected.gram) and not head.sums[1].any() and not head.weight[1].any()
