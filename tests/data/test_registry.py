from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upcl.core.errors import UserError
from upcl.data import DATASETS, load_dataset
from upcl.data.io.download import MANUAL_DOWNLOADS, REMOTE_ARCHIVES
from upcl.data.registry import parse_stream


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digit", "unknown data set 'digit': did you mean digits"),
        ("synthetic:clases=3", "did you mean classes"),
        ("synthetic:classes=many", "must be a[n]? (whole number|integer)"),
        ("synthetic:channels=2", "channels must be 1 or 3"),
        ("synthetic:train=0", "train must be at least 1"),
        ("digits:size=9", "choose from: train, test"),
        ("digits:train=-1", "must not be negative"),
        ("digits/five", "unknown stream 'five'"),
    ],
)
def test_wrong_specs_explain_what_is_right(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_dataset(spec)


def test_stream_and_options_combine() -> None:
    dataset = load_dataset("digits/B4-Inc3:train=2,test=1")
    assert (dataset.tasks, dataset.name) == ((4, 3, 3), "digits:train=2,test=1")
    assert (len(dataset.train), len(dataset.test)) == (20, 10)


def test_streams_of_the_literature() -> None:
    assert parse_stream("T20", 100) == 20
    assert parse_stream("B50-Inc10", 100) == (50, 10, 10, 10, 10, 10)
    assert parse_stream("B0-Inc30", 100) == (30, 30, 30, 10)
    assert parse_stream("B100-Inc5", 100) == (100,)


@pytest.mark.parametrize(
    "wrong", ["X5", "B50", "B500-Inc1", "B5-Inc0", "T", "t10", "", "T" + "9" * 5000, f"B5-Inc{10**12}"]
)
def test_wrong_streams_are_refused(wrong: str) -> None:
    with pytest.raises(UserError, match="stream"):
        parse_stream(wrong, 100)


@settings(max_examples=50, deadline=None)
@given(num_classes=st.integers(1, 300), first=st.integers(0, 300), increment=st.integers(1, 300))
def test_stream_covers_every_class_once(num_classes: int, first: int, increment: int) -> None:
    if max(first, increment if first == 0 else 0) > num_classes:
        return
    sizes = parse_stream(f"B{first}-Inc{increment}", num_classes)
    assert isinstance(sizes, tuple)
    assert sum(sizes) == num_classes and sizes[0] == (first or increment)
    assert all(size == increment for size in sizes[1:-1]) and all(0 < size <= increment for size in sizes[1:])


def test_data_root_is_searched_for_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=f"CIFAR-100 is not in {tmp_path} .*run `upcl data get cifar100`"):
        load_dataset("cifar100", tmp_path)
    monkeypatch.setenv("UPCL_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match="elsewhere"):
        load_dataset("tinyimagenet")


def test_every_entry_describes_itself() -> None:
    for name, entry in DATASETS.items():
        texts = {f.name: getattr(entry, f.name) for f in dataclasses.fields(entry) if f.type == "str"}
        assert len(texts) == 7 and all(texts.values()), name
        if entry.options:
            assert all(field.metadata["meaning"] for field in dataclasses.fields(entry.options)), name


def test_named_streams_fit_their_data_sets() -> None:
    assert parse_stream(DATASETS["core50"].streams["NC"], 50) == (10, 5, 5, 5, 5, 5, 5, 5, 5)
    with pytest.raises(UserError, match="unknown stream 'NC'"):
        load_dataset("digits/NC")


def test_data_sets_without_an_address_say_where_to_put_files() -> None:
    for name, advice in MANUAL_DOWNLOADS.items():
        assert name not in REMOTE_ARCHIVES and "upcl data get" not in DATASETS[name].how_to_obtain
        assert "/" in advice, "a folder"


def test_downloadable_data_sets_are_registered_with_their_files() -> None:
    for name, remote in REMOTE_ARCHIVES.items():
        assert DATASETS[name].how_to_obtain == f"upcl data get {name}"
        assert remote.folder in DATASETS[name].location
