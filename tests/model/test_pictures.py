"""Small pictures of a few photos: which are kept, and that none is left of a forgotten photo."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.model.feature_models import CPU, Lot, digest, feature, grow, spec
from tests.model.model_files import rewrite
from upcl.model.bundle import Bundle
from upcl.model.editing import remove_photo
from upcl.model.file import ModelFileError, load, save
from upcl.model.forgetting import forget_class
from upcl.model.learner import Learner
from upcl.model.pictures import NUM_PICTURES, PICTURE_SIZE, encode_picture, with_pictures
from upcl.model.server.service import Service
from upcl.model.spec import make_method, restore_state

FIRST: Lot = {"ant": range(4), "bull": range(9)}
SECOND: Lot = {"ant": range(4, 9), "cat": range(3)}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A file for every photo, by digest."""
    found = {}
    for lot in (FIRST, SECOND):
        for name, photos in lot.items():
            for photo in photos:
                path = tmp_path / f"{name}{photo}.png"
                Image.new("RGB", (150, 120), (photo * 20, 90, 40)).save(path)
                found[digest(name, photo)] = path
    return found


def learn(lots: list[Lot], files: dict[str, Path], keep: str = "pictures") -> Bundle:
    bundle = None
    for lot in lots:
        bundle = with_pictures(grow(bundle, lot, None, spec("ncm", keep=keep)), files)
    assert bundle is not None
    return bundle


def smallest(name: str, photos: range) -> list[str]:
    return sorted(digest(name, photo) for photo in photos)[:NUM_PICTURES]


def test_a_few_photos_of_each_class_are_kept_whenever_they_were_learned(files: dict[str, Path]) -> None:
    bundle = learn([FIRST, SECOND], files)
    for name, num in (("ant", 9), ("bull", 9), ("cat", 3)):
        assert set(smallest(name, range(num))) <= set(bundle.pictures)
    for content in bundle.pictures.values():
        with Image.open(io.BytesIO(content)) as image:
            assert image.format == "JPEG" and image.size == (PICTURE_SIZE, PICTURE_SIZE)
    at_once = learn([{"ant": range(9), "bull": range(9), "cat": range(3)}], files)
    assert all(bundle.pictures[key] == content for key, content in at_once.pictures.items())
    assert not learn([FIRST], files, keep="features").pictures


def test_files_that_disappeared_have_no_picture(files: dict[str, Path]) -> None:
    gone = smallest("bull", range(9))[0]
    files[gone].unlink()
    bundle = learn([FIRST], files)
    assert gone not in bundle.pictures and len(bundle.pictures) == 4 + NUM_PICTURES - 1


def test_nothing_is_left_of_forgotten_photos(files: dict[str, Path], tmp_path: Path) -> None:
    bundle, path = learn([FIRST, SECOND], files), tmp_path / "model.upcl"
    save(bundle, path)
    assert load(path).pictures == bundle.pictures

    gone = smallest("bull", range(9))[2]
    save(remove_photo(bundle, gone, CPU)[0], path)
    assert gone not in load(path).pictures and gone.encode() not in path.read_bytes()

    method = make_method(bundle.spec, len(bundle.state.classes), CPU)
    restore_state(method, bundle.state)
    save(forget_class(bundle, "ant", method), path)
    ants = {digest("ant", photo) for photo in range(9)}
    assert load(path).pictures.keys() == bundle.pictures.keys() - ants
    with zipfile.ZipFile(path) as archive:
        assert not any(key in name for name in archive.namelist() for key in ants)


def test_the_service_shows_the_nearest_photos_that_have_a_picture(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.upcl"
    save(learn([FIRST], files), path)
    service = Service(Learner(path, device="cpu"))
    query = torch.nn.functional.normalize(feature("bull", 50).float(), dim=0)
    nearest = service._nearest(query)
    assert [exemplar.name for exemplar in nearest] == ["bull"] * 3
    assert all(str(exemplar.image).startswith("data:image/jpeg;base64,/9j/") for exemplar in nearest)

    save(dataclasses.replace(learn([FIRST], files), pictures={}), path)
    assert {exemplar.image for exemplar in Service(Learner(path, device="cpu"))._nearest(query)} == {None}


def test_cameras_data_stay_out(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "my street"
    Image.fromarray(np.zeros((300, 200, 3), np.uint8)).save(tmp_path / "a.jpg", exif=exif)
    assert b"my street" in (tmp_path / "a.jpg").read_bytes() and b"my street" not in encode_picture(tmp_path / "a.jpg")


def test_foreign_pictures_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.upcl"
    bundle = learn([FIRST], files)
    key = next(iter(bundle.pictures))
    save(dataclasses.replace(bundle, pictures={key: b"<script>"}), path)
    with pytest.raises(ModelFileError, match="a picture is not a JPEG file of 96 x 96 pixels"):
        load(path)
    save(bundle, path)
    with pytest.raises(ModelFileError, match="does not match its digest"):
        load(rewrite(path, tmp_path / "x.upcl", lambda manifest: manifest["pictures"].update({key: "0" * 64})))
    with pytest.raises(ModelFileError, match="pattern"):
        load(rewrite(path, tmp_path / "y.upcl", lambda manifest: manifest["pictures"].update({"../a": "0"})))


def test_files_of_version_3_have_no_pictures(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.upcl"
    save(learn([FIRST], files, keep="features"), path)

    def downgrade(manifest: dict[str, object]) -> None:
        manifest["version"] = 3
        del manifest["pictures"]

    old = rewrite(path, tmp_path / "old.upcl", downgrade)
    with zipfile.ZipFile(old) as archive:
        assert "pictures" not in json.loads(archive.read("manifest.json"))
    assert load(old).pictures == {}
