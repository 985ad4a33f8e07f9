"""k-means."""

from __future__ import annotations

import torch

from upcl.core.clusters import k_means


def test_separated_clusters_are_found_whatever_the_start() -> None:
    middles = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    torch.manual_seed(0)
    points = torch.cat([middle + torch.rand(30, 2) for middle in middles])
    wanted = sorted(part.mean(0).tolist() for part in points.split(30))
    for seed in range(5):
        torch.manual_seed(seed)
        centres = k_means(points, 3)
        assert torch.allclose(torch.tensor(sorted(centres.tolist())), torch.tensor(wanted), atol=1e-5)


def test_every_centre_is_the_mean_of_the_points_nearest_to_it() -> None:
    torch.manual_seed(0)
    points = torch.rand(50, 3)
    centres = k_means(points, 7)
    nearest = [min(range(7), key=lambda k: float((point - centres[k]).norm())) for point in points]
    for k in range(7):
        members = points[torch.tensor([n == k for n in nearest])]
        assert torch.allclose(members.mean(0), centres[k], atol=1e-5)


def test_fewer_points_than_centres() -> None:
    points = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    for repeat in (points[:1], points):
        centres = k_means(repeat, 4)
        assert centres.shape == (4, 2)
        assert {tuple(row) for row in centres.tolist()} == {tuple(row) for row in repeat.tolist()}
