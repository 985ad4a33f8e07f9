from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.files import RunsCode, make_cifar100
from upcl.core.errors import UserError
from upcl.data import load_dataset
from upcl.data.loaders.cifar import read_cifar_file

# numpy itself would build an array of objects, that is of pointers, out of eight chosen bytes
ARRAY_OF_POINTERS = (
    b"\x80\x02cnumpy\ndtype\n(X\x02\x00\x00\x00V8K\x00K\x01tR(K\x03X\x01\x00\x00\x00|NX\x01\x00\x00\x00at}tb."
)


DATA_WITHOUT_STATE = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n)RU\x0bfine_labels]u."


def nested_tuples(depth: int, between: bytes = b"") -> bytes:
    """A pickle of a dict whose key is a tuple of two tuples that are the same object, and so on."""
    levels = (b"h%ch%c\x86%bq%c" % (k, k, between, k + 1) for k in range(1, depth))
    return b"\x80\x02}q\x00(U\x01aq\x01" + b"".join(levels) + b"K\x01u."


def test_cifar100_is_read_from_its_files(tmp_path: Path) -> None:
    folder = make_cifar100(tmp_path)
    dataset = load_dataset("cifar100", tmp_path)
    assert dataset.train.inputs.shape == (12, 3, 32, 32)
    assert dataset.train.labels.tolist() == [0, 1, 2, 3] * 3
    assert dataset.classes == ("name-0", "name-1", "name-2", "name-3")
    raw = pickle.loads((folder / "train").read_bytes())[b"data"]
    assert torch.equal(dataset.train.inputs.flatten(1), torch.from_numpy(raw))
    assert load_dataset("cifar100:train=2", tmp_path).train.labels.tolist() == [0, 1, 2, 3] * 2


def make_cifar10(root: Path) -> Path:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for k, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        pixels = np.full((2, 3072), k, dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps({b"data": pixels, b"labels": [0, 1]}, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"dog"]}, protocol=2))
    return folder


def test_cifar10_is_read_from_its_batches(tmp_path: Path) -> None:
    make_cifar10(tmp_path)
    dataset = load_dataset("cifar10", tmp_path)
    assert dataset.classes == ("cat", "dog") and dataset.train.labels.tolist() == [0, 1] * 5
    assert dataset.train.inputs[:, 0, 0, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert dataset.test.inputs[:, 0, 0, 0].tolist() == [5, 5]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("test_batch", {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}, "2 images but 1 integer labels"),
        ("test_batch", {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0.5, 1.5]}, "2 integer labels"),
        ("test_batch", {b"data": np.zeros((2, 5), np.uint8), b"labels": [0, 1]}, "does not contain 32x32"),
        ("test_batch", {b"labels": [0, 1]}, "does not contain 32x32"),
        ("test_batch", [1, 2], "not a CIFAR file"),
        ("test_batch", {b"data": [[0] * 3072] * 2, b"labels": [0, 1]}, "does not contain 32x32|a shared list"),
        ("test_batch", {b"data": None, b"labels": [0, 1]}, "does not contain 32x32"),
        ("test_batch", {b"data": np.zeros((2, 3072), np.uint8), b"labels": np.zeros((2, 1), int)}, "integer labels"),
        ("test_batch", {b"data": np.zeros((2, 3072), np.uint8), b"labels": [2**70, 0]}, "integer labels"),
        ("test_batch", {b"data": np.zeros((2, 3072), np.uint8), b"labels": [2**40, 0]}, "labels must be in the range"),
        ("batches.meta", {}, r"does not contain the class names \(label_names\)"),
        ("batches.meta", {b"label_names": [1, 2]}, "a name is not text"),
        ("batches.meta", {b"label_names": [b"cat", b"\xff"]}, "class names .* can't decode byte 0xff"),
    ],
)
def test_wrong_content_is_refused(tmp_path: Path, file: str, content: object, message: str) -> None:
    (make_cifar10(tmp_path) / file).write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(UserError, match=message):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"data": RunsCode()}),
        b"cos\nsystem\n(S'mkdir executed'\ntR.",
        b"not a pickle",
        b"",
        ARRAY_OF_POINTERS,
        pickle.dumps({"data": np.array([{}], dtype=object)}, protocol=2),
        pickle.dumps({"data": np.array(["text"])}, protocol=2),
        nested_tuples(60),
        nested_tuples(60, between=b"Nb"),
        b"\x80\x02}(U\x01a" + b"2\x86" * 60 + b"K\x01u.",
    ],
)
def test_pickle_of_anything_else_is_refused_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    (make_cifar100(tmp_path) / "train").write_bytes(content)
    with pytest.raises(UserError, match="was not loaded"):
        load_dataset("cifar100", tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"]r" + (2**29).to_bytes(4, "little") + b".", "object number 536870912"),  # 2^30 pointers would be allocated
        (b"]p536870912\n.", "object number 536870912"),
        (b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.", "nested more than 100 deep"),  # hashed by recursion
    ],
)
def test_pickles_that_take_memory_or_the_stack_are_not_loaded(tmp_path: Path, content: bytes, reason: str) -> None:
    (make_cifar100(tmp_path) / "train").write_bytes(content)
    with pytest.raises(UserError, match=reason):
        load_dataset("cifar100", tmp_path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    (make_cifar100(tmp_path) / "test").unlink()
    with pytest.raises(UserError, match="test is missing: delete the folder and unpack the archive again"):
        load_dataset("cifar100", tmp_path)


def test_array_without_content_is_refused(tmp_path: Path) -> None:
    (make_cifar100(tmp_path) / "train").write_bytes(DATA_WITHOUT_STATE)
    with pytest.raises(UserError, match="does not contain 32x32"):
        load_dataset("cifar100", tmp_path)


@pytest.mark.parametrize("protocol", range(6))
def test_files_of_every_protocol_are_read(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "train"
    shared = b"x.png"
    path.write_bytes(pickle.dumps({b"data": np.eye(3, dtype=np.uint8), b"filenames": [shared] * 4}, protocol))
    if protocol == 5:  # stores arrays in another way, which CIFAR's files do not use
        with pytest.raises(UserError, match="not allowed"):
            read_cifar_file(path)
    else:
        content = read_cifar_file(path)
        assert np.array_equal(content["data"], np.eye(3)) and content["filenames"] == [shared] * 4
