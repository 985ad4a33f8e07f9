"""The head that classifies rotations."""

from __future__ import annotations

import pytest
import torch

from upcl.nets.rotation_head import RotationHead


def head(sizes: tuple[int, ...] = (2, 3), dim: int = 6) -> RotationHead:
    torch.manual_seed(0)
    made = RotationHead(dim)
    for size in sizes:
        made.grow(size)
    return made


def test_scores_are_those_of_upright_images() -> None:
    made, features = head(), torch.rand(7, 6)
    torch.nn.init.normal_(made.bias)
    every = made.rotation_scores(features)
    assert every.shape == (7, 20) and made.num_classes == 5
    assert torch.allclose(made(features), every[:, [0, 4, 8, 12, 16]], atol=1e-6)
    assert torch.equal(made.vectors, made.weight[[0, 4, 8, 12, 16]])


def test_growth_keeps_what_is_there_and_gives_equal_shapes() -> None:
    made = head((2,))
    made.prototypes[:] = 7
    made.radius.fill_(3)
    weight = made.weight.detach().clone()
    made.grow(3)
    assert torch.equal(made.weight[:8], weight) and made.weight.shape == (20, 6)
    assert bool((made.prototypes[:2] == 7).all()) and bool((made.prototypes[2:] == 0).all())
    shapes = {name: value.shape for name, value in made.state_dict().items()}
    assert shapes == {name: value.shape for name, value in head().state_dict().items()}
    other = head()
    other.load_state_dict(made.state_dict())
    assert other.radius == 3


def test_samples_lie_around_the_prototypes_of_the_first_classes() -> None:
    made = head(dim=8)
    made.prototypes.copy_(100 * torch.arange(5.0)[:, None])
    made.radius.fill_(2)
    torch.manual_seed(1)
    samples, rows = made.sample(3000, 3)
    assert set(rows.tolist()) == {0, 4, 8}
    noise = samples - made.prototypes[rows // 4]
    assert noise.std().item() == pytest.approx(2, rel=0.05) and abs(noise.mean().item()) < 0.1
    assert torch.bincount(rows // 4).tolist() == pytest.approx([1000] * 3, abs=100)


def test_a_forgotten_class_leaves_no_trace() -> None:
    made = head()
    made.prototypes.fill_(1)
    torch.nn.init.ones_(made.bias)
    made.forget(1)
    assert not made.weight[4:8].any() and not made.bias[4:8].any() and not made.prototypes[1].any()
    assert bool((made.bias[:4] == 1).all()) and bool((made.prototypes[2] == 1).all())
