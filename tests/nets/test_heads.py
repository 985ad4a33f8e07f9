"""Classifier heads that grow."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from upcl.nets import CorrectedHead, CosineHead, Head, LinearHead, MeansHead, PrototypeHead


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


def test_corrected_head_applies_the_newest_pair_or_all() -> None:
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


def test_cosine_head_separates_new_rows_and_can_fix_the_scale() -> None:
    head = CosineHead(4, sigma=30.0)
    head.grow(2)
    head.grow(3)
    assert (len(head.old), len(head.new)) == (2, 3)
    assert "sigma" not in dict(head.named_parameters()) and float(head.sigma) == 30


def test_means_head_keeps_means_when_it_grows() -> None:
    head = MeansHead(4)
    head.grow(2)
    head.means[:] = 1
    head.grow(1)
    assert head.means.tolist() == [[1.0] * 4, [1.0] * 4, [0.0] * 4]


@pytest.mark.parametrize("kind", [LinearHead, MeansHead, CosineHead])
def test_forgetting_a_class_erases_its_row_alone(kind: type[Head]) -> None:
    torch.manual_seed(0)
    head = kind(6)
    head.grow(2)
    head.grow(2)
    if isinstance(head, MeansHead):
        head.means[:] = 1
    for label in (1, 3):
        before = head.vectors.detach().clone()
        head.forget(label)
        changed = (head.vectors.detach() != before).any(1)
        assert changed.tolist() == [k == label for k in range(4)]
        assert len(head.vectors.detach()[label].unique()) == 1, "nothing of the class is left"
        if isinstance(head, MeansHead):
            assert not bool(head.means[label].any())
    assert head(torch.randn(2, 6)).shape == (2, 4), "the class keeps its index"


def test_widening_keeps_the_columns_and_draws_new_ones_as_large_as_those_of_new_rows() -> None:
    head = LinearHead(100)
    head.grow(50)
    weight = head.weight.detach().clone()
    head.widen(300)
    assert head.dim == 400 and head.weight.shape == (50, 400)
    assert torch.equal(head.weight[:, :100], weight)
    largest = float(head.weight.detach()[:, 100:].abs().max())
    assert 0.9 * (3 / 400) ** 0.5 < largest <= (3 / 400) ** 0.5


def test_alignment_scales_new_rows_and_leaves_the_bias() -> None:
    head = LinearHead(2)
    head.grow(2)
    head.grow(2)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 5.0], [6.0, 8.0], [0.0, 20.0]]))
        head.bias.fill_(7.0)
    before = head.weight.detach().clone()
    head.align(0)
    assert torch.equal(head.weight, before), "no old classes"
    wanted = torch.tensor([[3.0, 4.0], [0.0, 5.0], [2.0, 2.666667], [0.0, 6.666667]])
    for _ in range(2):  # aligning twice changes nothing
        head.align(2)
        assert torch.allclose(head.weight, wanted, atol=1e-5)
    assert head.bias.tolist() == [7.0] * 4


def test_a_reset_head_keeps_its_tensors_and_nothing_else() -> None:
    head = LinearHead(100)
    head.grow(5)
    with torch.no_grad():
        head.weight.fill_(9.0)
        head.bias.fill_(9.0)
    weight = head.weight
    head.reset()
    assert head.weight is weight and 0.1 < float(weight.detach().abs().max()) <= (3 / 100) ** 0.5
    assert not bool(head.bias.any())
