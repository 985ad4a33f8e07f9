"""Photos on disk: each is stored once, survives a crash, and leaves nothing when it is removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from upcl.core.errors import UserError
from upcl.data.io.images import BrokenImageError, encode_png
from upcl.model.studio.workspace import Workspace, clean_name

PHOTO = encode_png(np.arange(3 * 40 * 40, dtype=np.uint8).reshape(3, 40, 40))


def test_photos_are_stored_once_and_found_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "birds.photos")
    photo = workspace.add("holiday/robin.png", PHOTO)
    assert workspace.add("another name.png", PHOTO) == photo and photo.path.read_bytes() == PHOTO
    with (workspace.folder / "names.jsonl").open("a") as names:
        names.write('["0123456789abcd')  # a line that a crash cut off
    again = Workspace(workspace.folder)
    assert list(again.photos.values()) == [photo]
    assert again.picture(photo.digest)[:2] == b"\xff\xd8" and again.picture(photo.digest) == again.picture(photo.digest)


def test_what_is_removed_leaves_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "birds.photos")
    photo = workspace.add("secret name.png", PHOTO)
    workspace.picture(photo.digest)
    workspace.confirm((photo.digest, "secret class"))
    workspace.remove([photo.digest, "0" * 16])
    left = [path for path in workspace.folder.rglob("*") if path.is_file()]
    assert not workspace.photos and all(b"secret" not in path.read_bytes() for path in left)
    assert {path.name for path in left} == {"names.jsonl", "confirmed.json"}


def test_what_photos_are_meant_for_and_what_was_confirmed_outlives_a_crash(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "birds.photos")
    photo = workspace.add("7.png", PHOTO, intended="robin")
    with (workspace.folder / "names.jsonl").open("a") as lines:
        lines.write("5\nnull\n[1]\n")
    workspace.confirm((photo.digest, "robin"))
    again = Workspace(workspace.folder)
    assert again.photos[photo.digest].intended == "robin" and again.confirmed == {(photo.digest, "robin")}
    again.intend([photo.digest, "0" * 16], None)
    assert Workspace(workspace.folder).photos[photo.digest].intended is None
    assert again.add("8.png", PHOTO, intended="wren").file == "7.png"
    assert Workspace(workspace.folder).photos[photo.digest].intended == "wren"
    (workspace.folder / "confirmed.json").write_text('{"a": 1}')
    assert workspace.confirmed == set()


def test_what_is_no_image_is_not_stored(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "birds.photos")
    with pytest.raises(BrokenImageError):
        workspace.add("words.jpg", b"words")
    with pytest.raises(BrokenImageError, match="pixels"):
        workspace.add("large.png", PHOTO, max_pixels=100)
    stored = workspace.add("../../evil.exe", encode_png(np.zeros((3, 8, 8), np.uint8)))
    assert stored.path.parent == workspace.folder and stored.path.suffix == ".jpg"


def test_something_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "birds.photos").write_text("notes")
    with pytest.raises(UserError, match="in the way"):
        Workspace(tmp_path / "birds.photos")


def test_classes_can_be_planned_and_names_are_checked(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "birds.photos")
    workspace.replace_planned(None, "robin")
    assert Workspace(workspace.folder).planned_classes == ["robin"]
    (workspace.folder / "classes.json").write_text("{")
    assert workspace.planned_classes == []
    assert clean_name(" a  robin ") == "a robin"
    for wrong in ("  ", "x" * 201, "\x1b[31m"):
        with pytest.raises(UserError):
            clean_name(wrong)
