from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.files import file_names, jpeg, write_files
from upcl.core.errors import UserError
from upcl.data.loaders.listed import (
    class_images,
    count_notes,
    files_identity,
    listed_path,
    photo_dataset,
    split_by_name,
)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x.jpg", "a/../../x.jpg", "a\\..\\x.jpg", "a\0.jpg", "."])
def test_names_that_lead_out_of_the_folder_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"list\.txt: '.*' is not a file in images"):
        listed_path(Path("images"), name, Path("list.txt"))


def test_class_images_are_sorted_and_hidden_files_ignored(tmp_path: Path) -> None:
    write_files(tmp_path, dict.fromkeys(("b/2.jpg", "b/1.JPEG", "b/._1.jpg", "b/x.txt", "a/1.png", "c/1.png"), b""))
    found = class_images(tmp_path, ["b", "a"])
    assert [(path.relative_to(tmp_path).as_posix(), k) for path, k in found] == [
        ("b/1.JPEG", 0),
        ("b/2.jpg", 0),
        ("a/1.png", 1),
    ]
    with pytest.raises(UserError, match=f"{tmp_path} has no folder d: the copy is incomplete"):
        class_images(tmp_path, ["a", "d"])


def test_a_fifth_of_each_class_with_the_smallest_digests_is_for_testing() -> None:
    files = [(Path(f"/data/{name}/{k}.jpg"), label) for label, name in enumerate("ab") for k in range(10 + label)]
    train, test = split_by_name(files)
    for label, name in enumerate("ab"):
        digests = {k: hashlib.sha256(f"{name}/{k}.jpg".encode()).hexdigest() for k in range(10 + label)}
        expected = sorted(digests, key=lambda k: digests[k])[:2]
        assert sorted(int(path.stem) for path, of in test if of == label) == sorted(expected)
    assert sorted(train + test) == sorted(files) and not set(train) & set(test)


@settings(max_examples=50, deadline=None)
@given(counts=st.lists(st.integers(2, 30), min_size=1, max_size=4), data=st.data())
def test_the_split_depends_on_names_only(counts: list[int], data: st.DataObject) -> None:
    files = [(Path(f"root/c{label}/{k}.png"), label) for label, num in enumerate(counts) for k in range(num)]
    train, test = split_by_name(files)
    assert Counter(label for _, label in test) == {label: max(1, num // 5) for label, num in enumerate(counts)}
    moved = [(Path("elsewhere") / path.parent.name / path.name, label) for path, label in files]
    again = split_by_name(data.draw(st.permutations(moved)))[1]
    assert sorted(path.name for path, _ in again) == sorted(path.name for path, _ in test)
    alone = [file for file in files if file[1] == 0]
    assert split_by_name(alone)[1] == [file for file in test if file[1] == 0], "other classes do not matter"
    assert len(train) + len(test) == len(files)


def test_a_single_image_cannot_be_split() -> None:
    with pytest.raises(UserError, match="crow has a single image"):
        split_by_name([(Path("crow/1.jpg"), 0)])


def test_images_stay_in_their_files_and_labels_with_them(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{name}.jpg": jpeg() for name in "abcd"})
    files = [(tmp_path / f"{name}.jpg", k % 2) for k, name in enumerate("abcd")]
    dataset = photo_dataset(
        "mine", tmp_path, files[2:], files[:2], ["x", "y"], size=96, crops={"crop_fraction": 1.0}, memory="7", tasks=2
    )
    folder = tmp_path.name
    assert file_names(dataset, "train") == [f"{folder}/c.jpg", f"{folder}/d.jpg"]
    assert file_names(dataset, "test") == [f"{folder}/a.jpg", f"{folder}/b.jpg"]
    assert dataset.test.labels.tolist() == [0, 1] and dataset.image_shape == (3, 96, 96)
    assert (dataset.memory, dataset.tasks, dataset.backbone) == ("7", 2, "resnet18-7x7")
    assert dataset.transform.to_json()["photos"]["margin"] == 1.0


def test_identity_depends_on_names_sizes_and_order_but_not_on_the_place(tmp_path: Path) -> None:
    for place in ("one", "two"):
        write_files(tmp_path / place, {"a.jpg": b"1", "b.jpg": b"22"})
    one, two = ([tmp_path / place / name for name in ("a.jpg", "b.jpg")] for place in ("one", "two"))
    before = files_identity(tmp_path / "one", one)
    assert files_identity(tmp_path / "two", two) == before
    assert files_identity(tmp_path / "two", two[::-1]) != before
    two[0].write_bytes(b"333")
    assert files_identity(tmp_path / "two", two) != before
    two[0].unlink()
    with pytest.raises(UserError, match=r"two/a\.jpg is missing: the copy is incomplete"):
        files_identity(tmp_path / "two", two)


def test_other_counts_are_noted() -> None:
    assert count_notes("x", 5, 5) == ()
    assert "6 images, 5 were published" in count_notes("x", 6, 5)[0]
