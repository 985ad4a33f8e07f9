"""Photos to features in one pass: threads decode files while the frozen network computes, and no photo is seen twice.

Features are cached by the content of the files, so an interrupted pass continues where it stopped, and photos that were
seen before are neither decoded nor computed again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import exclusive_lock
from upcl.core.progress import track
from upcl.data.io.images import BrokenImageError, image_size, open_file, open_image
from upcl.data.io.listing import ImageFile
from upcl.data.io.paths import cache_root, printable_path

from .intake import NewImages, select_rows

BATCH_SIZE = 64
NUM_MEASURED = 50  # images whose size is looked at
DIGEST_DIGITS = 16  # of a photo's file, in hexadecimal, that a model stores
KEY_BYTES = 32  # SHA-256 of a file's content


@dataclass(frozen=True, eq=False)
class PhotoFeatures:
    """Files of photos with their features.

    Args:
        files: all files, completed with what reading them revealed; those that cannot be read have an error.
        features: float16 features of the files without an error, in their order (N x dim).

    Example:
        >>> PhotoFeatures([ImageFile(Path("a.jpg"), "cat", "train")], torch.zeros(1, 4, dtype=torch.float16)).readable
        [ImageFile(path=PosixPath('a.jpg'), label='cat', split='train', width=0, height=0, grey=False, ...)]
    """

    files: list[ImageFile]
    features: Tensor

    @property
    def readable(self) -> list[ImageFile]:
        """The files without an error; `features` has a row for each."""
        return [file for file in self.files if not file.error]

    def offer(self, train: Sequence[ImageFile], held_out: Sequence[ImageFile], *, undecided: bool = False) -> NewImages:
        """Offer the features of some files to a model.

        Args:
            train: files to learn from.
            held_out: files to hold out.
            undecided: whether the model decides which of the files to learn from it holds out.
        """
        rows = {file.path: row for row, file in enumerate(self.readable)}
        parts = [select_rows(self.features, [rows[file.path] for file in part]) for part in (train, held_out)]
        names = [[file.label for file in part] for part in (train, held_out)]
        digests = [[file.digest[:DIGEST_DIGITS] for file in part] for part in (train, held_out)]
        paths = {digest: file.path for digest, file in zip(digests[0], train, strict=True)}
        return NewImages(parts[0], names[0], parts[1], names[1], (digests[0], digests[1]), paths, undecided)


class FeatureCache:
    """Features on disk, by the content of the photos: an append-only file of records of equal size.

    A record that was cut off by a crash is ignored and overwritten.

    Args:
        path: the file.
        dim: number of features.

    Example:
        >>> import tempfile
        >>> cache = FeatureCache(Path(tempfile.mkdtemp()) / "features.bin", dim=3)
        >>> cache.append(cache.record(b"k" * 32, width=640, height=480, grey=False, features=torch.ones(3)))
        >>> cache.find(b"k" * 32)["features"].tolist(), cache.find(b"x" * 32)
        ([1.0, 1.0, 1.0], None)
    """

    def __init__(self, path: Path, dim: int) -> None:
        fields = [("key", "u1", (KEY_BYTES,)), ("width", "<i4"), ("height", "<i4"), ("grey", "u1")]
        self.dtype = np.dtype([*fields, ("features", "<f2", (dim,))])
        self.path = path
        self._rows: dict[bytes, int] = {}
        self._records = np.empty(0, self.dtype)
        self._read()

    def find(self, key: bytes) -> np.void | None:
        """The record of a photo; None if it is not known, or damaged.

        Args:
            key: SHA-256 of its file.
        """
        row = self._rows.get(key)
        record = None if row is None else self._records[row]
        return None if record is None or not np.isfinite(record["features"]).all() else record

    def record(self, key: bytes, *, width: int, height: int, grey: bool, features: Tensor) -> np.ndarray:
        """Make a record.

        Args:
            key: SHA-256 of the file.
            width: width of the photo in pixels.
            height: height of the photo in pixels.
            grey: whether it has one channel.
            features: its features.
        """
        record = np.zeros(1, self.dtype)
        record["key"], record["width"], record["height"] = np.frombuffer(key, np.uint8), width, height
        record["grey"], record["features"] = grey, features.cpu().numpy()
        return record

    def append(self, records: np.ndarray) -> None:
        """Add records to the file; a file that cannot be written is not an error.

        Args:
            records: what `record` made, concatenated.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(self.path.with_suffix(".lock")), self.path.open("ab") as file:
                size = file.tell()
                file.truncate(size - size % self.dtype.itemsize)
                file.write(records.tobytes())
        except OSError:
            return
        self._read()

    def _read(self) -> None:
        try:
            num = self.path.stat().st_size // self.dtype.itemsize
            if num <= len(self._rows):
                return
            self._records = np.memmap(self.path, self.dtype, mode="r", shape=(num,))
        except OSError:  # not there yet, or not readable
            return
        keys = np.ascontiguousarray(self._records["key"][len(self._rows) :])
        self._rows |= {key.tobytes(): row for row, key in enumerate(keys, start=len(self._rows))}


def feature_cache(identity: str, dim: int) -> FeatureCache:
    """The cache of one network and its preprocessing, below `cache_root`.

    Args:
        identity: what the features depend on besides the photo.
        dim: number of features.

    Example:
        >>> feature_cache("small network, 32 pixels", dim=128).path.suffix
        '.bin'
    """
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return FeatureCache(cache_root() / "features" / f"{digest}.bin", dim)


def typical_side(files: Sequence[ImageFile]) -> int:
    """The shorter side of a typical image: the median of a few of them, from their headers; 0 if none can be read.

    Args:
        files: the images.

    Example:
        >>> typical_side([ImageFile(Path("missing.jpg"), "cat", "train")])
        0
    """
    sides = []
    for file in files[:: max(1, len(files) // NUM_MEASURED)]:
        with contextlib.suppress(BrokenImageError):
            sides.append(min(image_size(file.path)))
    return statistics.median_low(sides) if sides else 0


def photo_digest(photo: str | Path) -> str:
    """The digest that a model stores for a photo: the first digits of the SHA-256 of its file.

    Args:
        photo: the file.

    Raises:
        UserError: if the file cannot be read.

    Example:
        >>> photo_digest("missing.jpg")
        Traceback (most recent call last):
        upcl.core.errors.UserError: missing.jpg cannot be read: No such file or directory
    """
    try:
        with open_file(Path(photo)) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST_DIGITS]
    except OSError as error:
        raise UserError(f"{printable_path(photo)} cannot be read: {error.strerror}") from None


@dataclass(frozen=True, eq=False)
class _Photo:
    """A file that was looked up or decoded: a cached record, pixels still to be computed, or an error."""

    file: ImageFile
    key: bytes = b""
    record: np.void | None = None
    pixels: np.ndarray | None = None


def extract_photos(
    files: Sequence[ImageFile], size: int, compute: Callable[[Tensor], Tensor], cache: FeatureCache
) -> PhotoFeatures:
    """Compute the features of photos.

    Memory does not grow with the number of photos beyond their features: one batch of pixels is held.

    Args:
        files: the photos; those that have an error already are not read.
        size: height and width of the central square that the network sees.
        compute: maps uint8 images (B x 3 x size x size) to features (B x dim).
        cache: features that are known already; new ones are added to it.

    Example:
        >>> import tempfile
        >>> from upcl.data.io.images import encode_png
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.png").write_bytes(encode_png(np.full((3, 4, 6), 7, np.uint8)))
        >>> photos = [ImageFile(folder / "a.png", "cat", "train")]
        >>> cache = FeatureCache(folder / "features.bin", dim=3)
        >>> extract_photos(photos, 2, lambda images: images.float().mean((2, 3)), cache).features.tolist()
        [[7.0, 7.0, 7.0]]
    """
    done: list[ImageFile] = []
    rows = np.empty((len(files), cache.dtype["features"].shape[0]), np.float16)
    num = 0
    with track("processing photos", len(files)) as advance:
        for photos in _decoded_batches(files, size, cache):
            new = [photo for photo in photos if photo.pixels is not None]
            computed = iter(_compute(new, compute, cache) if new else ())
            for photo in photos:
                record = next(computed) if photo.pixels is not None else photo.record
                if record is not None:
                    rows[num] = record["features"]
                    num += 1
                done.append(photo.file if record is None else _completed(photo, record))
            advance(len(photos))
    return PhotoFeatures(done, torch.from_numpy(rows[:num]))


def _decoded_batches(files: Sequence[ImageFile], size: int, cache: FeatureCache) -> Iterator[list[_Photo]]:
    """Batches of photos, decoded by threads while the network waits: together they would compete for the cores, and a
    step of the network is as slow as its slowest thread."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(files), BATCH_SIZE):
            yield list(pool.map(lambda file: _decode(file, size, cache), files[start : start + BATCH_SIZE]))


def _decode(file: ImageFile, size: int, cache: FeatureCache) -> _Photo:
    if file.error:
        return _Photo(file)
    shape: list[int] = []

    def oversampling(width: int, height: int) -> float:
        shape[:] = width, height
        return min(width, height) / size

    try:
        with open_file(file.path) as stream:
            key = hashlib.file_digest(stream, "sha256").digest()
            if (record := cache.find(key)) is not None:
                return _Photo(file, key, record)
            stream.seek(0)
            with open_image(stream, oversampling) as image:
                pixels = np.array(image.square(size).convert("RGB"))
    except OSError as error:
        return _Photo(dataclasses.replace(file, error=error.strerror or str(error)))
    except BrokenImageError as error:
        return _Photo(dataclasses.replace(file, error=str(error)))
    properties = dataclasses.replace(file, width=shape[0], height=shape[1], grey=image.mode == "L")
    return _Photo(properties, key, pixels=pixels)


def _compute(photos: Sequence[_Photo], compute: Callable[[Tensor], Tensor], cache: FeatureCache) -> np.ndarray:
    """The records of decoded photos, which are added to the cache."""
    pixels = np.stack([photo.pixels for photo in photos if photo.pixels is not None])
    largest = torch.finfo(torch.float16).max
    features = compute(torch.from_numpy(pixels).permute(0, 3, 1, 2)).clamp(-largest, largest).to(torch.float16)
    records = np.concatenate(
        [
            cache.record(
                photo.key, width=photo.file.width, height=photo.file.height, grey=photo.file.grey, features=row
            )
            for photo, row in zip(photos, features, strict=True)
        ]
    )
    cache.append(records)
    return records


def _completed(photo: _Photo, record: np.void) -> ImageFile:
    return dataclasses.replace(
        photo.file,
        width=int(record["width"]),
        height=int(record["height"]),
        grey=bool(record["grey"]),
        digest=photo.key.hex(),
    )
