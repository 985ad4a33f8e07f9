from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.conftest import ProgressRecorder
from tests.data.files import noise, save
from upcl.core.errors import UserError
from upcl.data.io.decoding import decode_cached, decode_images, files_digest


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [save(tmp_path / f"{k}.png", noise(k)) for k in range(5)]


def pixels(num: int = 5) -> torch.Tensor:
    return torch.from_numpy(np.stack([noise(k).transpose(2, 0, 1) for k in range(num)]))


def test_both_ways_of_decoding_give_the_same_pixels_in_order(paths: list[Path]) -> None:
    assert torch.equal(decode_images(paths, 16, 3, "test"), pixels())
    assert torch.equal(decode_cached(paths, 16, 3, "test"), pixels())
    assert decode_images(paths, 4, 1, "test").shape == (5, 1, 4, 4)
    assert decode_images([], 4, 1, "test").shape == (0, 1, 4, 4)


@pytest.mark.parametrize("decode", [decode_images, decode_cached])
def test_progress_adds_up(paths: list[Path], progress: ProgressRecorder, decode: Any) -> None:
    decode(paths, 16, 3, "birds")
    work = progress.only()
    assert (work.description, work.total, work.completed, work.unit) == ("decoding birds", 5, 5, "items")
    assert work.finished and len(work.amounts) > 2, "progress is reported while the work goes on"


def test_unchanged_files_are_decoded_once(paths: list[Path], cache: Path, progress: ProgressRecorder) -> None:
    first = decode_cached(paths, 16, 3, "test")
    first[0] = 0  # must not reach the cache
    assert torch.equal(decode_cached(paths, 16, 3, "test"), pixels())
    assert len(progress.work) == 1 and len(list(cache.iterdir())) == 1
    decode_cached(paths, 8, 3, "other size")
    decode_cached(paths, 16, 1, "other channels")
    decode_cached(paths[::-1], 16, 3, "other order")
    assert len(progress.work) == 4


def test_changed_file_is_decoded_again(paths: list[Path]) -> None:
    decode_cached(paths, 16, 3, "test")
    save(paths[2], noise(77))
    assert torch.equal(decode_cached(paths, 16, 3, "test")[2], torch.from_numpy(noise(77)).permute(2, 0, 1))


def test_digest_depends_on_purpose_name_size_and_time(paths: list[Path]) -> None:
    digest = files_digest(paths, "a")
    assert digest == files_digest(paths, "a") and len(digest) == 32
    os.utime(paths[0], ns=(1, 1))
    changed = files_digest(paths, "a")
    assert len({digest, changed, files_digest(paths, "b"), files_digest(paths[1:], "a")}) == 4


@pytest.mark.parametrize("decode", [decode_images, decode_cached])
def test_unreadable_file_is_named(paths: list[Path], cache: Path, decode: Any) -> None:
    paths[3].write_bytes(b"no image")
    with pytest.raises(UserError, match=r"cannot read .*3\.png: not a supported image format; replace or remove it"):
        decode(paths, 16, 3, "test")
    assert not cache.exists() or not list(cache.iterdir()), "nothing incomplete stays in the cache"


def test_full_disk_is_reported_and_leaves_nothing(
    paths: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(UserError, match=r"no space left for 3,840 bytes of decoded images.*UPCL_CACHE"):
            decode_cached(paths, 16, 3, "test")
    assert not list(cache.iterdir())
    assert torch.equal(decode_cached(paths, 16, 3, "test"), pixels())


def test_file_system_that_cannot_reserve_is_used_anyway(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    assert torch.equal(decode_cached(paths, 16, 3, "test"), pixels())


def test_old_partial_files_are_removed(paths: list[Path], cache: Path) -> None:
    cache.mkdir(parents=True)
    old, young = cache / "a.npy.1.partial", cache / "b.npy.2.partial"
    old.touch()
    young.touch()
    days_ago = time.time() - 3 * 24 * 3600
    os.utime(old, (days_ago, days_ago))
    decode_cached(paths, 16, 3, "test")
    assert not old.exists() and young.exists()


def test_concurrent_callers_share_the_cache(paths: list[Path], cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: decode_cached(paths, 16, 3, "test"), range(4)))
    assert all(torch.equal(result, pixels()) for result in results)
    assert [path.suffix for path in cache.iterdir()] == [".npy"]


@pytest.mark.parametrize("damage", ["cut", "empty", "other shape", "other type", "text", "folder"])
def test_damaged_cache_is_rebuilt(paths: list[Path], cache: Path, damage: str) -> None:
    decode_cached(paths, 16, 3, "test")
    (file,) = cache.iterdir()
    content = file.read_bytes()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    elif damage.startswith("other"):
        np.save(file, np.zeros((5, 3, 8, 8) if damage == "other shape" else (5, 3, 16, 16), np.uint16))
    else:
        file.write_bytes({"cut": content[:-100], "empty": b"", "text": b"not an array"}[damage])
    assert torch.equal(decode_cached(paths, 16, 3, "test"), pixels())
    if damage != "folder":
        assert file.read_bytes() == content


def test_cache_that_cannot_be_written_is_noted(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "file"))
    assert torch.equal(decode_cached(paths, 16, 3, "test"), pixels())
    (note,) = caplog.messages
    assert "file cannot be written" in note and "UPCL_CACHE" in note
