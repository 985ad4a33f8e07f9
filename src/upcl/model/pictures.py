"""A few small pictures of each class, for people to look at: `--keep pictures` stores them next to the features."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from upcl.data.io.images import BrokenImageError, open_image

from .bundle import Bundle

NUM_PICTURES = 5  # of each class: those with the smallest digests, whenever they were learned
PICTURE_SIZE = 96
QUALITY = 80
Pictures = dict[str, bytes]
"""JPEG files by digest of the photo."""


def with_pictures(bundle: Bundle, photos: Mapping[str, Path]) -> Bundle:
    """Give a model pictures of some of its photos, if it keeps any.

    Args:
        bundle: the model after it learned photos.
        photos: files of new photos by digest.

    Returns:
        The model with pictures of at most `NUM_PICTURES` photos of each class in each of its states; a file that can no
        longer be read has none.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> from upcl.model.bundle import ModelSpec, ModelState
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", keep="pictures")
        >>> state = ModelState({}, (1,), ("cat",), NO_SAMPLES, NO_SAMPLES, trained={"cat": ("a", "b")})
        >>> bundle = Bundle(spec, (), {0: state}, pictures={"b": b"JPEG", "z": b"JPEG of a forgotten photo"})
        >>> list(with_pictures(bundle, photos={}).pictures)
        ['b']
    """
    if bundle.spec.keep != "pictures":
        return bundle
    made: Pictures = {}
    for digest in _shown_photos(bundle):
        if digest in bundle.pictures:
            made[digest] = bundle.pictures[digest]
        elif digest in photos:
            with contextlib.suppress(BrokenImageError):  # the file disappeared in the meantime
                made[digest] = encode_picture(photos[digest])
    return dataclasses.replace(bundle, pictures=made)


def _shown_photos(bundle: Bundle) -> list[str]:
    """Digests of the first photos of each class in each state, sorted."""
    classes = (digests for state in bundle.states.values() for digests in state.trained.values())
    return sorted({digest for digests in classes for digest in sorted(digests)[:NUM_PICTURES]})


def encode_picture(photo: Path) -> bytes:
    """Make a small picture of the central square of a photo, without the data that cameras add.

    Args:
        photo: the file.

    Returns:
        The content of a JPEG file.

    Raises:
        BrokenImageError: if the file cannot be read.

    Example:
        >>> encode_picture(Path("missing.jpg"))
        Traceback (most recent call last):
        upcl.data.io.images.UnreachableImageError: No such file or directory
    """
    with open_image(photo, lambda width, height: min(width, height) / PICTURE_SIZE) as image:
        picture = image.square(PICTURE_SIZE).convert("RGB")
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def check_picture(content: bytes) -> bytes:
    """Check that a picture from a model file is one that `encode_picture` could have made.

    Args:
        content: the content of the file.

    Raises:
        ValueError: if it is not.

    Example:
        >>> check_picture(b"<html>")
        Traceback (most recent call last):
        ValueError: a picture is not a JPEG file of 96 x 96 pixels
    """
    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            size = image.size
    except OSError:
        size = (0, 0)
    if size != (PICTURE_SIZE, PICTURE_SIZE):
        raise ValueError(f"a picture is not a JPEG file of {PICTURE_SIZE} x {PICTURE_SIZE} pixels")
    return content


def picture_url(content: bytes) -> str:
    """Encode a picture as a `data:` URL that can be embedded in a web page.

    Args:
        content: the content of a JPEG file.

    Example:
        >>> picture_url(b"JPEG")
        'data:image/jpeg;base64,SlBFRw=='
    """
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
