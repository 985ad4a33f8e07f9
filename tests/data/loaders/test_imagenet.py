from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from tests.data.files import smooth_image
from upcl.core.errors import UserError
from upcl.data import Dataset, load_dataset
from upcl.data.loaders.imagenet import lucir_classes

WNIDS = [f"n{k:08d}" for k in range(1000)]


def jpeg() -> bytes:
    buffer = io.BytesIO()
    smooth_image(40, 30).save(buffer, "JPEG")
    return buffer.getvalue()


JPEG = jpeg()


def make_train(folder: Path, wnids: list[str], per_class: int = 1) -> None:
    for wnid in wnids:
        (folder / "train" / wnid).mkdir(parents=True)
        for k in range(per_class):
            (folder / "train" / wnid / f"{wnid}_{k}.JPEG").write_bytes(JPEG)


def make_sorted_val(folder: Path, wnids: list[str]) -> None:
    for wnid in wnids:
        (folder / "val" / wnid).mkdir(parents=True)
        (folder / "val" / wnid / "a.JPEG").write_bytes(JPEG)


def make_flat_val(folder: Path, wnids: list[str]) -> dict[str, str]:
    """One validation image per class in one folder, as the archive unpacks, and the class of each."""
    (folder / "val").mkdir()
    truth = {f"ILSVRC2012_val_{k:08d}": wnid for k, wnid in enumerate(wnids, 1)}
    for name in truth:
        (folder / "val" / f"{name}.JPEG").write_bytes(JPEG)
    return truth


def write_table(folder: Path, truth: dict[str, str]) -> None:
    with (folder / "LOC_val_solution.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["ImageId", "PredictionString"])
        table.writerows([name, f"{wnid} 1 2 3 4 {wnid} 5 6 7 8"] for name, wnid in truth.items())


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with 1,000 classes of one image each; the validation images are in reverse order."""
    root = tmp_path_factory.mktemp("root")
    make_train(root / "imagenet", WNIDS)
    write_table(root / "imagenet", make_flat_val(root / "imagenet", WNIDS[::-1]))
    return root


@pytest.fixture
def imagenet100(tmp_path: Path) -> Path:
    """A data root with 100 classes that were selected before."""
    make_train(tmp_path / "imagenet100", WNIDS[:100])
    make_sorted_val(tmp_path / "imagenet100", WNIDS[:100])
    return tmp_path


def test_lucir_chooses_its_hundred_classes() -> None:
    chosen = lucir_classes()
    assert chosen[:4] == [54, 7, 894, 512] and len(set(chosen)) == 100
    assert chosen == np.random.RandomState(1993).choice(1000, 100, replace=False).tolist()


def test_default_list_is_lucirs(imagenet: Path) -> None:
    dataset = load_dataset("imagenet100/T10", imagenet)
    assert dataset.classes == tuple(sorted(WNIDS[k] for k in lucir_classes()))
    assert len(dataset.train) == len(dataset.test) == 100 and dataset.tasks == 10
    assert dataset.notes == ("imagenet100 uses 100 of the 1000 classes in the folder: list 'lucir'",)
    assert dataset.name == "imagenet100:list=lucir" and dataset.image_shape == (3, 224, 224)


def file_of(dataset: Dataset, position: int) -> str:
    assert dataset.transform.photos
    return Path(dataset.transform.photos.paths[position].decode()).name


def test_first_classes_with_labels_from_the_table(imagenet: Path) -> None:
    dataset = load_dataset("imagenet100:list=first", imagenet)
    assert dataset.classes == tuple(WNIDS[:100])
    assert dataset.test.labels.tolist() == list(range(99, -1, -1))
    assert file_of(dataset, int(dataset.test.inputs[0])) == "ILSVRC2012_val_00000901.JPEG"
    assert file_of(dataset, int(dataset.train.inputs[7])) == f"{WNIDS[7]}_0.JPEG"


def test_list_from_a_file(imagenet: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(f"# two\n{WNIDS[7]} seven\n{WNIDS[3]}\n\n")
    dataset = load_dataset(f"imagenet100:list={tmp_path / 'mine.txt'},train=1", imagenet)
    assert dataset.classes == (WNIDS[3], WNIDS[7]) and dataset.name.endswith("mine.txt,train=1")
    (tmp_path / "bad.txt").write_text("n99999999\n")
    with pytest.raises(UserError, match=r"bad\.txt lists classes that are not in .*train: n99999999"):
        load_dataset(f"imagenet100:list={tmp_path / 'bad.txt'}", imagenet)
    with pytest.raises(UserError, match="unknown list 'lucri': choose lucir, first, or a file"):
        load_dataset("imagenet100:list=lucri", imagenet)


def test_subsets_apply_to_a_list_of_classes(imagenet100: Path) -> None:
    dataset = load_dataset("imagenet100:num_classes=3", imagenet100)
    assert dataset.name == "imagenet100:num_classes=3" and dataset.classes == tuple(WNIDS[:3])
    with pytest.raises(UserError, match="no test images"):  # one training image per class: none can be held out
        load_dataset("imagenet100:held_out=0.5", imagenet100)


def test_all_classes(imagenet: Path) -> None:
    dataset = load_dataset("imagenet1000", imagenet)
    assert len(dataset.classes) == 1000 and dataset.memory == "20000"
    names = [augment["name"] for augment in dataset.transform.to_json()["augmentations"]]
    assert names == ["flip", "brightness"]


def test_fingerprint_notices_a_changed_file(imagenet100: Path) -> None:
    before = load_dataset("imagenet100", imagenet100).fingerprint()
    assert load_dataset("imagenet100", imagenet100).fingerprint() == before
    (imagenet100 / "imagenet100" / "val" / WNIDS[0] / "a.JPEG").write_bytes(JPEG + b"\0")
    assert load_dataset("imagenet100", imagenet100).fingerprint() != before


def test_development_kit_has_the_validation_labels(tmp_path: Path) -> None:
    folder = tmp_path / "ILSVRC2012"
    make_train(folder, WNIDS[:3], per_class=2)
    make_flat_val(folder, [WNIDS[2], WNIDS[0], WNIDS[1]])
    kit = folder / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    rows = np.array([(k, WNIDS[3 - k]) for k in (1, 2, 3)], dtype=[("ILSVRC2012_ID", "i4"), ("WNID", "O")])
    scipy.io.savemat(kit / "meta.mat", {"synsets": rows})
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n3\n2\n")
    dataset = load_dataset("imagenet1000:train=1", tmp_path)
    assert dataset.test.labels.tolist() == [2, 0, 1] and len(dataset.train) == 3


def test_folder_of_100_classes_is_used_as_it_is(imagenet100: Path) -> None:
    dataset = load_dataset("imagenet100", imagenet100)
    assert dataset.name == "imagenet100" and dataset.classes == tuple(WNIDS[:100])
    assert dataset.notes[0].endswith("all classes of the folder")
    with pytest.raises(UserError, match="has 100: use list=FILE"):
        load_dataset("imagenet100:list=first", imagenet100)
    with pytest.raises(UserError, match="choose lucir, first, or a file"):
        load_dataset("imagenet100:list=lucri", imagenet100)


def test_incomplete_imagenet_explains_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"ImageNet-100 is not in .*imagenet100/train or imagenet/train.*image-net\.org"
    ):
        load_dataset("imagenet100", tmp_path)
    folder = tmp_path / "imagenet"
    (folder / "train").mkdir(parents=True)
    with pytest.raises(UserError, match="has no class folders"):
        load_dataset("imagenet1000", tmp_path)
    (folder / "train" / "n00000001.tar").touch()
    with pytest.raises(UserError, match=r"archives that are not unpacked \(1\).*such as n00000001/"):
        load_dataset("imagenet1000", tmp_path)
    (folder / "train" / "n00000001.tar").unlink()
    make_train(folder, WNIDS[:2])
    with pytest.raises(UserError, match="has no val folder"):
        load_dataset("imagenet1000", tmp_path)
    truth = make_flat_val(folder, WNIDS[:2])
    with pytest.raises(UserError, match=r"neither LOC_val_solution\.csv nor"):
        load_dataset("imagenet1000", tmp_path)
    with pytest.raises(UserError, match="has 2: use list=FILE"):
        load_dataset("imagenet100", tmp_path)
    write_table(folder, dict.fromkeys(truth, "n99999999"))
    with pytest.raises(UserError, match="val has no images of these classes"):
        load_dataset("imagenet1000", tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"ImageId\nx\n", b"ImageId,PredictionString\nx,\n"])
def test_damaged_table_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "imagenet"
    make_train(folder, WNIDS[:2])
    make_flat_val(folder, WNIDS[:2])
    (folder / "LOC_val_solution.csv").write_bytes(content)
    with pytest.raises(UserError, match=r"LOC_val_solution\.csv is|val has no images"):
        load_dataset("imagenet1000", tmp_path)


@pytest.mark.parametrize("content", [b"", b"not MATLAB's", bytes(500)])
def test_damaged_kit_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "imagenet"
    make_train(folder, WNIDS[:2])
    make_flat_val(folder, WNIDS[:2])
    kit = folder / "data"
    kit.mkdir()
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n")
    (kit / "meta.mat").write_bytes(content)
    with pytest.raises(UserError, match=r"meta\.mat cannot be read as a MATLAB file"):
        load_dataset("imagenet1000", tmp_path)
