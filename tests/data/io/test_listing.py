from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.data.files import make_folder, noise, save
from upcl.core.errors import UserError
from upcl.data.io.listing import FolderListing, list_image_files


def found(listing: FolderListing, root: Path) -> dict[str, tuple[str, str]]:
    return {str(file.path.relative_to(root)): (file.split, file.label) for file in listing.files}


def test_classes_are_folders(tmp_path: Path) -> None:
    make_folder(tmp_path, classes=2, per_class=1)
    save(tmp_path / "class 1" / "deep" / "inner" / "x.png", noise(9))
    assert found(list_image_files(tmp_path), tmp_path) == {
        "class 0/0.png": ("train", "class 0"),
        "class 1/0.png": ("train", "class 1"),
        "class 1/deep/inner/x.png": ("train", "class 1"),
    }


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Training", "VAL"), ("train", "validation")])
def test_splits_are_found_by_name(tmp_path: Path, train: str, test: str) -> None:
    make_folder(tmp_path / train, classes=1, per_class=1)
    make_folder(tmp_path / test, classes=1, per_class=1)
    listing = list_image_files(tmp_path)
    assert [(file.split, file.label) for file in listing.files] == [("train", "class 0"), ("test", "class 0")]
    assert listing.layout_notes == []


def test_second_test_folder_is_ignored_with_a_note(tmp_path: Path) -> None:
    for split in ("train", "test", "val"):
        make_folder(tmp_path / split, classes=1, per_class=1)
    listing = list_image_files(tmp_path)
    assert len(listing.files) == 2 and listing.layout_notes == ["val is ignored: test is used for testing"]


def test_test_folder_without_training_folder_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "test", classes=2, per_class=1)
    make_folder(tmp_path / "others", classes=2, per_class=1)
    with pytest.raises(UserError, match="has a folder test but none named train"):
        list_image_files(tmp_path)


def test_class_may_be_named_like_a_split(tmp_path: Path) -> None:
    for label in ("bus", "train", "test"):
        save(tmp_path / label / "0.png", noise(0))
    assert {label for _, label in found(list_image_files(tmp_path), tmp_path).values()} == {"bus", "train", "test"}


def test_hidden_files_are_ignored_and_others_counted(tmp_path: Path) -> None:
    save(tmp_path / "bus" / "0.png", noise(0))
    save(tmp_path / "bus" / ".thumbnails" / "0.png", noise(1))
    save(tmp_path / ".trash" / "0.png", noise(2))
    (tmp_path / "bus" / "._0.png").write_bytes(b"x")
    (tmp_path / "bus" / "notes.heic").write_bytes(b"x")
    listing = list_image_files(tmp_path)
    assert list(found(listing, tmp_path)) == ["bus/0.png"]
    assert listing.layout_notes == ["1 file skipped, such as notes.heic: JPEG, PNG, WebP, BMP, GIF and TIFF are read"]
    (tmp_path / "bus" / "notes.txt").touch()
    assert list_image_files(tmp_path).layout_notes == [
        "2 files skipped, such as notes.heic: JPEG, PNG, WebP, BMP, GIF and TIFF are read"
    ]


def test_empty_class_folders_are_listed(tmp_path: Path) -> None:
    make_folder(tmp_path, classes=1, per_class=1)
    (tmp_path / "nothing").mkdir()
    assert list_image_files(tmp_path).empty == ["nothing"]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ([], "has no images in class folders .*: it is empty"),
        (["a.png", "b.png"], "found 2 images at the top level; put each class in its own sub-folder"),
        (["photos/x/a.png", "photos/y/b.png"], "a single folder, photos, with 2 sub-folders: use .*/photos"),
    ],
)
def test_folders_without_classes_explain_what_to_do(tmp_path: Path, layout: list[str], message: str) -> None:
    for name in layout:
        save(tmp_path / name, noise(0))
    with pytest.raises(UserError, match=message):
        list_image_files(tmp_path)


def test_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        list_image_files(tmp_path / "nowhere")


def test_classes_one_level_deeper_are_suspected(tmp_path: Path) -> None:
    for kind in ("animals", "plants"):
        make_folder(tmp_path / kind, classes=2, per_class=1)
    assert list_image_files(tmp_path).layout_notes == [
        "all images are one level below the classes (animals, plants): should class 0, class 1 be the classes?"
    ]
    save(tmp_path / "plants" / "0.png", noise(0))
    assert list_image_files(tmp_path).layout_notes == []


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=1, per_class=1)
    save(tmp_path / "elsewhere" / "far.png", noise(5))
    (root / "class 0" / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (root / "class 0" / "loop").symlink_to(root / "class 0", target_is_directory=True)
    (root / "class 0" / "up").symlink_to(root, target_is_directory=True)
    assert sorted(found(list_image_files(root), root)) == ["class 0/0.png", "class 0/linked/far.png"]


def test_what_is_not_a_file_has_an_error(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=1, per_class=1)
    (root / "class 0" / "dead.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (root / "class 0" / "self.jpg").symlink_to(root / "class 0" / "self.jpg")
    os.mkfifo(root / "class 0" / "pipe.jpg")
    assert {file.path.name: file.error for file in list_image_files(root).files} == {
        "0.png": "",
        "dead.jpg": "broken link",
        "pipe.jpg": "not a regular file",
        "self.jpg": "broken link",
    }


def test_labels_are_safe_to_print(tmp_path: Path) -> None:
    save(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")) / "0.png", noise(0))
    save(tmp_path / "red\x1b[31m" / "0.png", noise(0))
    assert [file.label for file in list_image_files(tmp_path).files] == ["caf\\xe9", "red\\x1b[31m"]
