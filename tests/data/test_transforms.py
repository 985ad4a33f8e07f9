"""Each batched operation against a slow reference that handles one image at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.data.files import make_photos
from upcl.data import Brightness, Flip, PadCrop, RandomResizedCrop, Transform
from upcl.data.transforms import as_float, crop_and_resize

CPU = torch.device("cpu")


def images(num: int = 40, channels: int = 3, height: int = 10, width: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (num, channels, height, width), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("channels", [1, 3])
def test_pad_crop_takes_a_window_of_the_padded_image(channels: int) -> None:
    torch.manual_seed(0)
    source, positions = images(channels=channels), set()
    for original, result in zip(source, PadCrop(2)(source), strict=True):
        padded = F.pad(original, (2, 2, 2, 2))
        windows = {(y, x): padded[:, y : y + 10, x : x + 12] for y in range(5) for x in range(5)}
        found = [position for position, window in windows.items() if torch.equal(window, result)]
        assert len(found) == 1
        positions.add(found[0])
    assert len(positions) > 12, "the position is drawn for each image"
    assert {0, 4} <= {y for y, _ in positions} and {0, 4} <= {x for _, x in positions}


def test_flip_mirrors_about_half_of_the_images() -> None:
    torch.manual_seed(0)
    source = images(200)
    result = Flip(0.5)(source)
    flipped = [torch.equal(r, o.flip(2)) for o, r in zip(source, result, strict=True)]
    kept = [torch.equal(r, o) for o, r in zip(source, result, strict=True)]
    assert all(a != b for a, b in zip(flipped, kept, strict=True))
    assert 70 < sum(flipped) < 130
    assert torch.equal(Flip(0.0)(source), source) and torch.equal(Flip(1.0)(source), source.flip(3))


def test_brightness_is_one_clipped_factor_per_image() -> None:
    torch.manual_seed(0)
    source, strength = images(200), 63 / 255
    factors = []
    for original, result in zip(source.float() / 255, Brightness(strength)(source), strict=True):
        inside = (result > 0) & (result < 1)
        factor = float((result[inside] / original[inside]).mean())
        assert torch.allclose(result, (original * factor).clamp(0, 1), atol=1e-5)
        factors.append(factor)
    assert 0.753 - 1e-3 <= min(factors) < 0.80
    assert 1.20 < max(factors) <= 1.247 + 1e-3


def test_crop_and_resize_equals_interpolation_of_each_crop() -> None:
    torch.manual_seed(0)
    source = images().float()
    boxes = RandomResizedCrop(9).boxes(len(source), 10, 12, CPU)
    result = crop_and_resize(source, boxes, 9)
    for original, box, cropped in zip(source, boxes.int().tolist(), result, strict=True):
        top, left, tall, wide = box
        crop = original[None, :, top : top + tall, left : left + wide]
        assert crop.shape[2:] == (tall, wide), "the box lies inside the image"
        assert torch.allclose(F.interpolate(crop, size=(9, 9), mode="bilinear")[0], cropped, atol=2e-3)


def test_boxes_have_the_requested_areas_and_aspect_ratios() -> None:
    torch.manual_seed(0)
    boxes = RandomResizedCrop(64, scale=(0.2, 0.5)).boxes(5000, 64, 64, CPU)
    share = boxes[:, 2] * boxes[:, 3] / 64**2
    aspect = boxes[:, 3] / boxes[:, 2]
    assert 0.18 < float(share.min()) < float(share.max()) < 0.52
    assert abs(float(share.mean()) - 0.35) < 0.01
    assert 0.72 < float(aspect.min()) < float(aspect.max()) < 1.39
    assert abs(float(aspect.log().mean())) < 0.01, "wide and tall boxes are equally frequent"


def test_random_resized_crop_stays_within_the_range_of_its_image() -> None:
    source = torch.stack([torch.full((3, 10, 12), value, dtype=torch.uint8) for value in (0, 51, 255)])
    result = RandomResizedCrop(64)(source)
    assert result.shape == (3, 3, 64, 64)
    for image, value in zip(result, (0.0, 0.2, 1.0), strict=True):
        assert torch.allclose(image, torch.full_like(image, value), atol=1e-6)


def test_transform_normalises_and_augments_in_training_only() -> None:
    source = images()
    transform = Transform((0.5, 0.4, 0.3), (0.2, 0.3, 0.4), (PadCrop(1), Flip()))
    expected = torch.empty(source.shape)
    for channel, (mean, std) in enumerate([(0.5, 0.2), (0.4, 0.3), (0.3, 0.4)]):
        expected[:, channel] = (source[:, channel] / 255 - mean) / std
    assert torch.allclose(transform.test(source), expected, atol=1e-6)
    assert torch.equal(transform.denormalise(transform.test(source)), source)
    torch.manual_seed(3)
    augmented = transform.train(source)
    torch.manual_seed(3)
    assert torch.equal(augmented, transform.test(Flip()(PadCrop(1)(source)))), "augmentations are applied in order"
    assert not torch.allclose(augmented, expected, atol=1e-6)


def test_batches_follow_the_indices() -> None:
    source, transform = images(6), Transform((0.5,) * 3, (0.25,) * 3, (Flip(1.0),))
    indices = [torch.tensor([5, 0]), torch.tensor([2])]
    plain = list(transform.batches(source, indices, CPU))
    assert [torch.equal(batch, transform.test(source[i])) for batch, i in zip(plain, indices, strict=True)] == [
        True
    ] * 2
    augmented = list(transform.batches(source, indices, CPU, augment=True))
    assert torch.equal(augmented[0], plain[0].flip(3))


def test_feature_vectors_are_not_changed() -> None:
    features = torch.randn(5, 7)
    (batch,) = Transform((0.5,), (0.1,), (Flip(),)).batches(features, [torch.tensor([4, 1])], CPU, augment=True)
    assert torch.equal(batch, features[[4, 1]])


def test_photos_are_decoded_and_normalised(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(20, 30)] * 2, size=8)
    transform = Transform((0.5,) * 3, (0.25,) * 3, photos=photos)
    (batch,) = transform.batches(torch.arange(2), [torch.tensor([1])], CPU)
    crop = torch.from_numpy(photos.crop(1, None).copy()).permute(2, 0, 1)[None]
    assert torch.equal(batch, transform.test(crop))


def test_as_float_scales_uint8_only() -> None:
    assert as_float(torch.tensor([255], dtype=torch.uint8)).item() == 1.0
    values = torch.tensor([0.5])
    assert as_float(values) is values


def test_json_names_every_parameter_and_no_path(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(20, 30)], size=8)
    augmentations = (PadCrop(2), Flip(0.25), Brightness(0.1), RandomResizedCrop(8, scale=(0.3, 1.0), ratio=(1.0, 2.0)))
    content = Transform((0.5,), (0.25,), augmentations, photos).to_json()
    assert (
        json.loads(json.dumps(content))
        == content
        == {
            "mean": [0.5],
            "std": [0.25],
            "augmentations": [
                {"name": "pad_crop", "pad": 2},
                {"name": "flip", "probability": 0.25},
                {"name": "brightness", "strength": 0.1},
                {"name": "random_resized_crop", "size": 8, "scale": [0.3, 1.0], "ratio": [1.0, 2.0]},
            ],
            "photos": {"size": 8, "channels": 3, "margin": 0.875, "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3]},
        }
    )
