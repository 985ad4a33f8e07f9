from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.data.files import make_eurosat
from upcl.core.errors import UserError
from upcl.data import load_dataset
from upcl.data.io.images import read_square
from upcl.data.loaders.eurosat import CLASSES
from upcl.data.loaders.listed import class_images, split_by_name


def test_original_layout_is_read(tmp_path: Path) -> None:
    folder = make_eurosat(tmp_path / "EuroSAT_RGB")
    dataset = load_dataset("eurosat", tmp_path)
    assert dataset.classes == CLASSES and dataset.image_shape == (3, 64, 64) and dataset.tasks == 5
    assert dataset.train.counts(10).tolist() == [4] * 10 and dataset.test.counts(10).tolist() == [1] * 10
    for samples, files in zip((dataset.train, dataset.test), split_by_name(class_images(folder, CLASSES)), strict=True):
        assert samples.labels.tolist() == [label for _, label in files]
        assert np.array_equal(samples.inputs[-1].numpy(), read_square(files[-1][0], 64, 3))
    assert dataset.notes == ("eurosat has 50 images, 27,000 were published: results are not comparable",)


@pytest.mark.parametrize("name", ["2750", "EuroSAT/2750", "eurosat/2750"])
def test_earlier_names_of_the_folder_give_the_same_data(tmp_path: Path, name: str) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    make_eurosat(new / "EuroSAT_RGB", per_class=2)
    shutil.copytree(new / "EuroSAT_RGB", old / name)
    assert load_dataset("eurosat", old).fingerprint() == load_dataset("eurosat", new).fingerprint()


def test_archive_in_the_data_root_is_unpacked(tmp_path: Path) -> None:
    source = make_eurosat(tmp_path / "source" / "2750", per_class=2)
    root = tmp_path / "root"
    root.mkdir()
    with zipfile.ZipFile(root / "EuroSAT.zip", "w") as archive:
        for path in sorted(source.rglob("*.jpg")):
            archive.write(path, path.relative_to(source.parent))
    assert len(load_dataset("eurosat", root).train) == 10


def test_missing_class_is_named(tmp_path: Path) -> None:
    shutil.rmtree(make_eurosat(tmp_path / "EuroSAT_RGB", per_class=2) / "River")
    with pytest.raises(UserError, match="EuroSAT_RGB has no folder River: the copy is incomplete"):
        load_dataset("eurosat", tmp_path)


def test_unreadable_image_is_named(tmp_path: Path) -> None:
    (make_eurosat(tmp_path / "EuroSAT_RGB", per_class=2) / "River" / "River_1.jpg").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"River_1\.jpg"):
        load_dataset("eurosat", tmp_path)
