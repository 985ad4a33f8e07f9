from __future__ import annotations

import numpy as np
import pytest

from upcl.model.arrays import array_range, images_from_array
from upcl.model.bundle import Arrays

BYTES = Arrays(0, 255, "i")


def test_uint8_images_are_taken_as_they_are() -> None:
    pixels = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    assert array_range(pixels) == (0, 255)
    assert np.array_equal(images_from_array(pixels, BYTES), pixels.transpose(0, 3, 1, 2))
    assert (
        images_from_array(pixels[..., 0], BYTES).shape
        == images_from_array(pixels[..., :1], BYTES).shape
        == (2, 1, 4, 4)
    )


def test_other_numbers_are_scaled_by_their_range_and_clipped() -> None:
    values = np.array([[[-1.0, 1.0], [0.0, 5.0]]])
    assert array_range(values) == (-1.0, 5.0)
    assert images_from_array(values, Arrays(-1.0, 1.0, "i")).flatten().tolist() == [0, 255, 128, 255]
    assert images_from_array(np.full((1, 2, 2), 7.0), Arrays(7.0, 7.0, "i")).flatten().tolist() == [0] * 4


def test_rows_are_laid_out_as_padded_squares() -> None:
    images = images_from_array(np.array([[1, 2, 3, 4, 5]]), Arrays(1, 5, "i"))
    assert images.shape == (1, 1, 3, 3)
    assert images.flatten().tolist() == [0, 64, 128, 191, 255, 0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(10, 4, 6), (10, 4, 4, 4), (10, 4, 4, 3, 1)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square images"):
        images_from_array(np.zeros(shape, np.uint8), BYTES)
