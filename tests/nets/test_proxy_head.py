"""The local similarity classifier."""

from __future__ import annotations

import math

import torch

from upcl.nets.proxy_head import ProxyHead


def head_with(*sizes: int) -> ProxyHead:
    torch.manual_seed(0)
    head = ProxyHead(5, num_proxies=3)
    for size in sizes:
        head.grow(size)
    return head


def test_scores_by_a_loop() -> None:
    head, rows = head_with(2, 1), torch.randn(4, 5)
    with torch.no_grad():
        head.sigma.fill_(3.0)
    scores = head(rows)
    for b, row in enumerate(rows):
        for c in range(3):
            cosines = [float(torch.cosine_similarity(row, proxy, dim=0)) for proxy in head.proxies.detach()[c]]
            total = sum(math.exp(cosine) for cosine in cosines)
            wanted = 3 * sum(math.exp(cosine) / total * cosine for cosine in cosines)
            assert abs(float(scores[b, c].detach()) - wanted) < 1e-5


def test_growth_keeps_old_proxies_apart_and_old_scores_as_they_are() -> None:
    head, rows = head_with(2), torch.randn(4, 5)
    before = head(rows)
    head.grow(2)
    assert torch.allclose(head(rows)[:, :2], before) and head.old.shape == head.new.shape == (2, 3, 5)
    assert head.vectors.shape == (4, 5) and torch.allclose(head.vectors.norm(dim=1), torch.ones(4))


def test_one_proxy_is_a_cosine_classifier() -> None:
    head, rows = ProxyHead(5, num_proxies=1), torch.randn(4, 5)
    head.grow(3)
    wanted = torch.cosine_similarity(rows[:, None], head.proxies.detach()[None, :, 0], dim=2)
    assert torch.allclose(head(rows), wanted, atol=1e-6)


def test_a_forgotten_class_leaves_nothing() -> None:
    head = head_with(2, 2)
    head.forget(1)
    head.forget(3)
    assert torch.equal(head.proxies[1], head.proxies[3]) and bool((head.proxies[1] == 5**-0.5).all())
    assert not torch.equal(head.proxies[0], head.proxies[2])
