"""Augmentations of recipes: each operation against its definition, one image at a time."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.recipes import Recipe
from upcl.data import Erase, Flip, Transform, TrivialAugment, strengthened
from upcl.data.strong_augmentations import OPERATIONS


def picture(size: int = 16) -> Tensor:
    return torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))


def applied(name: str, strength: float, sign: float = 1.0, images: Tensor | None = None) -> Tensor:
    images = picture() if images is None else images
    index = torch.tensor([OPERATIONS.index(name)])
    return TrivialAugment().apply(images, index, torch.tensor([strength]), torch.tensor([sign]))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("autocontrast", "posterize")])
def test_no_strength_changes_nothing(name: str) -> None:
    image = picture() * 0.98  # solarize inverts pure white even then
    assert torch.allclose(applied(name, 0.0, images=image), image, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "identity"])
def test_each_operation_changes_the_image_and_stays_in_range(name: str) -> None:
    changed = applied(name, 0.8)
    assert not torch.allclose(changed, picture(), atol=1e-3)
    assert float(changed.min()) >= 0 and float(changed.max()) <= 1


def test_blends_by_hand() -> None:
    image, factor = picture(), 1 + 0.9 * 0.5
    red, green, blue = image[:, 0], image[:, 1], image[:, 2]
    grey = (0.299 * red + 0.587 * green + 0.114 * blue)[:, None]
    assert torch.allclose(applied("brightness", 0.5), (factor * image).clamp(0, 1), atol=1e-5)
    assert torch.allclose(applied("color", 0.5), (grey + factor * (image - grey)).clamp(0, 1), atol=1e-5)
    mean = grey.mean()
    assert torch.allclose(applied("contrast", 0.5), (mean + factor * (image - mean)).clamp(0, 1), atol=1e-5)
    assert float(applied("sharpness", 1.0, -1.0).std()) < float(image.std()), "a negative sign blurs"


def test_points_by_hand() -> None:
    image = torch.tensor([0.1, 0.4, 0.6, 0.9]).reshape(1, 1, 2, 2)
    assert torch.allclose(applied("solarize", 0.5, images=image).flatten(), torch.tensor([0.1, 0.4, 0.4, 0.1]))
    stretched = applied("autocontrast", 0.5, images=image).flatten()
    assert torch.allclose(stretched, torch.tensor([0.0, 0.375, 0.625, 1.0]))
    assert len(applied("posterize", 1.0, images=torch.linspace(0, 1, 64).reshape(1, 1, 8, 8)).unique()) == 16


def test_moves_by_hand() -> None:
    image = picture()
    shifted = applied("translate_x", 0.2, images=image)  # 0.625 * 0.2 of half of 16 pixels: 1 pixel
    assert torch.allclose(shifted[..., :-1], image[..., 1:], atol=1e-5)
    assert torch.equal(shifted[..., -1], torch.zeros_like(shifted[..., -1])), "outside is black"
    angle = torch.tensor(math.radians(30))
    matrix = torch.tensor([[[angle.cos(), -angle.sin(), 0], [angle.sin(), angle.cos(), 0]]])
    wanted = F.grid_sample(image, F.affine_grid(matrix, [1, 3, 16, 16], align_corners=False), align_corners=False)
    assert torch.allclose(applied("rotate", 1.0), wanted, atol=1e-5)


def test_each_image_has_its_own_operation() -> None:
    torch.manual_seed(0)
    images = picture().expand(64, -1, -1, -1)
    augmented = TrivialAugment()(images)
    assert len({tuple(image.flatten().tolist()[:50]) for image in augmented}) > 30


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_of_any_channels_are_accepted(channels: int) -> None:
    images = torch.randint(0, 256, (4, channels, 8, 8), dtype=torch.uint8)
    for augment in (TrivialAugment(), Erase(0.9)):
        augmented = augment(images)
        assert augmented.shape == images.shape and augmented.is_floating_point()


def test_erased_rectangles_have_the_mean_colour_and_the_share_asked_for() -> None:
    torch.manual_seed(0)
    images = torch.rand(400, 3, 32, 32)
    erased = Erase(0.5)(images)
    changed = (erased != images).any(1)
    assert float(changed.any(2).any(1).float().mean()) == pytest.approx(0.5, abs=0.1)
    for image, result, mask in zip(images[:50], erased[:50], changed[:50], strict=True):
        if mask.any():
            assert torch.allclose(result[:, mask], image.mean((1, 2))[:, None].expand(-1, int(mask.sum())), atol=1e-6)
            rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
            assert int(mask.sum()) == len(rows) * len(columns), "a rectangle"
            assert 0 < float(mask.float().mean()) < 0.4


def test_a_recipe_adds_to_the_augmentations_of_the_data_set() -> None:
    transform = Transform((0.5,), (0.25,), (Flip(),))
    assert strengthened(transform, Recipe()) is transform
    strong = strengthened(transform, Recipe(augment="trivial", erase=0.25))
    assert [augment.to_json()["name"] for augment in strong.augmentations] == ["flip", "trivial_augment", "erase"]
