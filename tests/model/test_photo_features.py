"""Photos to features in one pass: what is read, what is cached, and what happens to files that cannot be read."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from upcl.core.errors import UserError
from upcl.data.io.listing import ImageFile
from upcl.model.photo_features import BATCH_SIZE, FeatureCache, extract_photos, photo_digest, typical_side

DIM = 3


class Network:
    """Stands for a network: the mean of each channel. Counts the images that it is given."""

    def __init__(self, fail_after: int = 10**9) -> None:
        self.seen, self.fail_after = 0, fail_after

    def __call__(self, images: Tensor) -> Tensor:
        assert images.dtype == torch.uint8 and images.shape[1:] == (3, 8, 8)
        if self.seen >= self.fail_after:
            raise KeyboardInterrupt
        self.seen += len(images)
        return images.float().mean((2, 3))


def make_photos(folder: Path, num: int, suffix: str = ".png") -> list[ImageFile]:
    files = []
    for k in range(num):
        path = folder / f"{k}{suffix}"
        Image.new("RGB", (20 + k % 3, 16), (k % 256, k // 256, 7)).save(path)
        files.append(ImageFile(path, "cat", "train"))
    return files


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path / "cache" / "features.bin", DIM)


def test_features_follow_the_files_and_properties_are_completed(tmp_path: Path, cache: FeatureCache) -> None:
    files = make_photos(tmp_path, 5)
    photos = extract_photos(files, 8, Network(), cache)
    assert photos.features.tolist() == [[k, 0, 7] for k in range(5)] and photos.features.dtype == torch.float16
    assert [(file.width, file.height) for file in photos.files] == [(20, 16), (21, 16), (22, 16), (20, 16), (21, 16)]
    assert len({file.digest for file in photos.files}) == 5 and not any(file.grey for file in photos.files)


def test_photos_seen_before_are_not_computed_again_whatever_their_names(tmp_path: Path, cache: FeatureCache) -> None:
    files = make_photos(tmp_path, 5)
    first = extract_photos(files, 8, Network(), cache)
    files[2].path.rename(tmp_path / "moved.png")
    moved = [*files[:2], ImageFile(tmp_path / "moved.png", "dog", "test")]
    network = Network()
    again = extract_photos(moved, 8, network, FeatureCache(cache.path, DIM))  # as another process would
    assert network.seen == 0 and torch.equal(again.features, first.features[:3])
    assert again.files[2].label == "dog" and again.files[2].width == 22


def test_an_interrupted_pass_continues_where_it_stopped(tmp_path: Path, cache: FeatureCache) -> None:
    files = make_photos(tmp_path, 3 * BATCH_SIZE)
    with pytest.raises(KeyboardInterrupt):
        extract_photos(files, 8, Network(fail_after=BATCH_SIZE), cache)
    network = Network()
    photos = extract_photos(files, 8, network, FeatureCache(cache.path, DIM))
    assert network.seen == 2 * BATCH_SIZE and len(photos.features) == 3 * BATCH_SIZE
    assert photos.features[:, 0].tolist() == [k % 256 for k in range(3 * BATCH_SIZE)]


def test_files_that_cannot_be_read_have_an_error_and_no_features(tmp_path: Path, cache: FeatureCache) -> None:
    files = make_photos(tmp_path, 4)
    files[1].path.write_bytes(b"no image")
    files[2].path.unlink()
    files.append(ImageFile(tmp_path / "link.png", "cat", "train", error="broken link"))
    photos = extract_photos(files, 8, Network(), cache)
    assert [bool(file.error) for file in photos.files] == [False, True, True, False, True]
    assert photos.files[4].error == "broken link" and len(photos.readable) == len(photos.features) == 2
    assert photos.features[:, 0].tolist() == [0, 3]


def test_a_record_that_was_cut_off_is_overwritten(tmp_path: Path, cache: FeatureCache) -> None:
    files = make_photos(tmp_path, 3)
    extract_photos(files[:2], 8, Network(), cache)
    whole = cache.path.stat().st_size
    cache.path.write_bytes(cache.path.read_bytes() + b"cut off")
    network = Network()
    photos = extract_photos(files, 8, network, FeatureCache(cache.path, DIM))
    assert network.seen == 1 and photos.features[:, 0].tolist() == [0, 1, 2]
    assert cache.path.stat().st_size == whole * 3 / 2


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = FeatureCache(tmp_path / "file" / "features.bin", DIM)
    assert len(extract_photos(make_photos(tmp_path, 2), 8, Network(), cache).features) == 2


def test_large_values_stay_finite(tmp_path: Path, cache: FeatureCache) -> None:
    photos = extract_photos(make_photos(tmp_path, 1), 8, lambda images: images.float().mean((2, 3)) * 1e6, cache)
    assert np.isfinite(photos.features.numpy()).all()


def test_grey_photos_and_the_typical_side(tmp_path: Path, cache: FeatureCache) -> None:
    Image.new("L", (50, 40), 9).save(tmp_path / "grey.jpg")
    files = [ImageFile(tmp_path / "grey.jpg", "cat", "train"), *make_photos(tmp_path, 1)]
    assert typical_side(files) == 16 and typical_side(files[:1]) == 40
    Image.new("L", (8, 8), 9).save(tmp_path / "thumbnail.jpg")
    thumbnail = ImageFile(tmp_path / "thumbnail.jpg", "cat", "train")
    assert typical_side([thumbnail, *files, files[0]]) == 16
    photos = extract_photos(files, 8, Network(), cache)
    assert [file.grey for file in photos.files] == [True, False]


def test_a_size_beyond_all_limits_counts_as_unreadable(tmp_path: Path) -> None:
    header = b"IHDR" + struct.pack(">2I5B", 2**31 - 1, 1, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    bomb = ImageFile(tmp_path / "bomb.png", "cat", "train")
    assert typical_side([bomb]) == 0 and typical_side([bomb, *make_photos(tmp_path, 1)]) == 16


def test_a_damaged_record_is_computed_again(tmp_path: Path, cache: FeatureCache) -> None:
    files = make_photos(tmp_path, 2)
    first = extract_photos(files, 8, Network(), cache)
    records = np.fromfile(cache.path, cache.dtype)
    records["features"][1] = np.nan
    cache.path.write_bytes(records.tobytes())
    network = Network()
    assert torch.equal(extract_photos(files, 8, network, FeatureCache(cache.path, DIM)).features, first.features)
    assert network.seen == 1
    assert torch.equal(extract_photos(files, 8, network, FeatureCache(cache.path, DIM)).features, first.features)
    assert network.seen == 1, "the new record takes the place of the damaged one"


def test_pipes_are_not_waited_for(tmp_path: Path, cache: FeatureCache) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    pipe = ImageFile(tmp_path / "pipe.png", "cat", "train")
    assert typical_side([pipe, *make_photos(tmp_path, 1)]) == 16
    assert extract_photos([pipe], 8, Network(), cache).files[0].error == "not a regular file"
    with pytest.raises(UserError, match=r"pipe\.png cannot be read: not a regular file"):
        photo_digest(pipe.path)
