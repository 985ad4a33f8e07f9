"""Each batched operation against a slow, plain reference that treats one image at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.data import Brightness, Flip, PadCrop, RandomResizedCrop, Transform
from upcl.data.transforms import crop_and_resize


def images(num: int = 40, channels: int = 3, height: int = 10, width: int = 12) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (num, channels, height, width), dtype=torch.uint8, generator=draw)


@pytest.mark.parametrize("channels", [1, 3])
def test_padded_crop_cuts_a_window_of_the_padded_image(channels: int) -> None:
    source, seen = images(channels=channels), set()
    for original, result in zip(source, PadCrop(2)(source), strict=True):
        padded = F.pad(original, (2, 2, 2, 2))
        windows = {(y, x): padded[:, y : y + 10, x : x + 12] for y in range(5) for x in range(5)}
        places = [place for place, window in windows.items() if torch.equal(window, result)]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) > 12, "the place is drawn for each image"


def test_flip_mirrors_about_half_of_the_images() -> None:
    source = images(200)
    result = Flip(0.5)(source)
    flipped = [torch.equal(r, o.flip(2)) for o, r in zip(source, result, strict=True)]
    kept = [torch.equal(r, o) for o, r in zip(source, result, strict=True)]
    assert all(a != b for a, b in zip(flipped, kept, strict=True))
    assert 70 < sum(flipped) < 130


def test_brightness_is_one_clipped_factor_for_each_image() -> None:
    source, strength = images(200), 63 / 255
    factors = []
    for original, result in zip(source.float() / 255, Brightness(strength)(source), strict=True):
        inside = (result > 0) & (result < 1)
        factor = float((result[inside] / original[inside]).mean())
        assert torch.allclose(result, (original * factor).clamp(0, 1), atol=1e-5)
        factors.append(factor)
    assert 0.753 - 1e-3 <= min(factors) < 0.80
    assert 1.20 < max(factors) <= 1.247 + 1e-3


def test_crop_and_resize_equals_one_image_at_a_time() -> None:
    source = images().float()
    augmentation = RandomResizedCrop(9)
    boxes = augmentation.boxes(len(source), 10, 12, torch.device("cpu"))
    result = crop_and_resize(source, boxes, 9)
    for original, box, mine in zip(source, boxes.int().tolist(), result, strict=True):
        top, left, tall, wide = box
        crop = original[None, :, top : top + tall, left : left + wide]
        assert crop.shape[2:] == (tall, wide), "the box lies inside of the image"
        assert torch.allclose(F.interpolate(crop, size=(9, 9), mode="bilinear")[0], mine, atol=2e-3)


def test_boxes_have_the_asked_areas_and_aspects() -> None:
    augmentation = RandomResizedCrop(64, scale=(0.2, 0.5))
    boxes = augmentation.boxes(5000, 64, 64, torch.device("cpu"))
    share = boxes[:, 2] * boxes[:, 3] / 64**2
    aspect = boxes[:, 3] / boxes[:, 2]
    assert 0.18 < float(share.min()) < float(share.max()) < 0.52
    assert abs(float(share.mean()) - 0.35) < 0.01
    assert 0.72 < float(aspect.min()) < float(aspect.max()) < 1.39
    assert float(RandomResizedCrop(64)(images(4)).max()) <= 1


def test_transform_normalises_and_augments_in_training_only() -> None:
    source = images()
    transform = Transform((0.5, 0.4, 0.3), (0.2, 0.3, 0.4), (PadCrop(1), Flip()))
    wanted = torch.empty(source.shape)
    for channel, (mean, std) in enumerate([(0.5, 0.2), (0.4, 0.3), (0.3, 0.4)]):
        wanted[:, channel] = (source[:, channel] / 255 - mean) / std
    assert torch.allclose(transform.test(source), wanted, atol=1e-6)
    assert not torch.allclose(transform.train(source), wanted, atol=1e-6)
    torch.manual_seed(3)
    once = transform.train(source)
    torch.manual_seed(3)
    assert torch.equal(transform.train(source), once)
