from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.conftest import ProgressRecorder
from tests.data.files import make_faulty_folder, make_folder, noise, save, smooth_image
from upcl.core.errors import UserError
from upcl.data import Dataset, load_dataset
from upcl.data.defaults import default_augmentations
from upcl.data.io.listing import ImageFile
from upcl.data.loaders.folder import hold_out_files


def load(root: Path, options: str = "") -> Dataset:
    return load_dataset(f"folder:{root}{options}")


def test_folder_of_classes_is_a_data_set(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos")
    dataset = load(root)
    assert dataset.name == "folder:photos" and dataset.notes == ()
    assert dataset.classes == ("class 0", "class 1", "class 2")
    assert dataset.train.counts(3).tolist() == [8, 8, 8]
    assert dataset.test.counts(3).tolist() == [2, 2, 2]
    assert dataset.image_shape == (3, 16, 16)
    assert dataset.transform.mean == pytest.approx((0.5, 0.5, 0.5), abs=0.03)
    assert dataset.transform.augmentations == default_augmentations(16)
    originals = {noise(100 * k + i).transpose(2, 0, 1).tobytes(): k for k in range(3) for i in range(10)}
    for part in (dataset.train, dataset.test):
        for image, label in zip(part.inputs, part.labels.tolist(), strict=True):
            assert originals.pop(image.numpy().tobytes()) == label, "every image is used once, with its label"
    assert not originals


def test_options_change_split_and_size(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos")
    dataset = load(root)
    assert load(root).fingerprint() == dataset.fingerprint()
    assert load(root, ",seed=1").fingerprint() != dataset.fingerprint()
    half = load(root, ",test=50,size=8")
    assert half.test.counts(3).tolist() == [5, 5, 5]
    assert half.image_shape == (3, 8, 8) and half.name == "folder:photos,size=8,test=50"


def test_test_folder_is_used_for_testing(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos" / "train", per_class=6)
    for k in range(3):
        save(tmp_path / "photos" / "test" / f"class {k}" / "t.png", noise(900 + k))
    dataset = load(tmp_path / "photos")
    assert dataset.train.counts(3).tolist() == [6, 6, 6]
    assert [image.numpy().tobytes() for image in dataset.test.inputs] == [
        noise(900 + k).transpose(2, 0, 1).tobytes() for k in range(3)
    ]


def test_test_classes_without_training_images_are_skipped_with_a_note(tmp_path: Path) -> None:
    make_folder(tmp_path / "Training", per_class=3)
    for split in ("Test", "val"):
        make_folder(tmp_path / split, classes=4, per_class=1)
    dataset = load(tmp_path)
    assert len(dataset.train) == 9 and len(dataset.test) == 3
    assert "val is ignored: Test is used for testing" in dataset.notes
    assert "classes of the test folder skipped: no training images: class 3" in dataset.notes


def test_splits_without_common_classes_are_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "train", classes=1, per_class=2)
    save(tmp_path / "test" / "Class 0" / "0.png", noise(0))
    with pytest.raises(UserError, match="no class in common: class 0 for training, Class 0 for testing"):
        load(tmp_path)


def test_grey_folders_stay_grey(tmp_path: Path) -> None:
    for k in range(2):
        for i in range(4):
            save(tmp_path / f"{k}" / f"{i}.png", noise(10 * k + i)[:, :, 0])
    assert load(tmp_path).image_shape == (1, 16, 16)


def test_large_images_stay_in_their_files(tmp_path: Path) -> None:
    for name, seed in (("cats", 0), ("dogs", 50)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for k in range(6):
            smooth_image(90, 80, seed + k).save(tmp_path / "own" / name / f"{k}.jpg")
    dataset = load(tmp_path / "own", ",size=72,test=34")
    assert dataset.image_shape == (3, 72, 72) and dataset.backbone == "resnet18-7x7"
    assert dataset.train.inputs.tolist() == list(range(8)) and dataset.test.inputs.tolist() == [8, 9, 10, 11]
    assert dataset.transform.augmentations == default_augmentations(72, crop=False)
    photos = dataset.transform.photos
    assert photos and photos.scale == (0.3, 1.0)
    pixels = np.stack([photos.crop(k, None) for k in range(8)]) / 255
    assert dataset.transform.mean == pytest.approx(pixels.mean((0, 1, 2)), abs=1e-4)
    assert dataset.transform.std == pytest.approx(pixels.std((0, 1, 2)), abs=1e-4)
    assert str(tmp_path) not in str(dataset.transform.to_json())
    before = dataset.fingerprint()
    smooth_image(90, 80, 99).save(tmp_path / "own" / "cats" / "0.jpg", quality=99)
    assert load(tmp_path / "own", ",size=72,test=34").fingerprint() != before


def test_scanning_and_decoding_report_progress(tmp_path: Path, progress: ProgressRecorder) -> None:
    load(make_folder(tmp_path / "photos", classes=2, per_class=5))
    assert [(work.description, work.total) for work in progress.work] == [
        ("reading images", 10),
        ("decoding photos", 10),
    ]
    assert all(work.completed == work.total for work in progress.work)


def test_two_processes_may_load_at_once(tmp_path: Path, cache: Path) -> None:
    root = make_folder(tmp_path / "photos", per_class=20)
    script = f"from upcl.data import load_dataset; print(load_dataset({f'folder:{root}'!r}).fingerprint())"
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = {process.communicate()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert outputs == {f"{load(root).fingerprint()}\n"}
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".npy"]


# --- held-out images


def files(counts: dict[str, int], copies: int = 1) -> list[ImageFile]:
    return [
        ImageFile(Path(f"{label}/{i}{c}.png"), label, "train", digest=f"{label}{i}")
        for label, num in counts.items()
        for i in range(num)
        for c in range(copies)
    ]


def reference_split(given: list[ImageFile], percent: int, seed: int) -> tuple[list[ImageFile], list[ImageFile]]:
    """One generator for all classes in sorted order; a permutation of the distinct images of each."""
    rng = np.random.default_rng(seed)
    train, held_out = [], []
    for label in sorted({file.label for file in given}):
        members = [file for file in given if file.label == label]
        distinct = list(dict.fromkeys(file.digest for file in members))
        chosen = rng.permutation(len(distinct))[: max(1, len(distinct) * percent // 100)]
        held = {distinct[k] for k in chosen}
        held_out += [file for file in members if file.digest in held]
        train += [file for file in members if file.digest not in held]
    return train, held_out


@pytest.mark.parametrize("percent", [1, 20, 29, 50, 57, 99])
def test_held_out_files_are_the_same_as_ever(percent: int) -> None:
    """Records and models name the data they were made with: the same files must be held out in every version."""
    for seed in range(5):
        given = files({"b": 2, "a": 100, "d": 7, "c": 33}, copies=2)
        assert hold_out_files(given, percent, seed) == reference_split(given, percent, seed)


def test_every_class_gives_up_at_least_one_image() -> None:
    train, held_out = hold_out_files(files({"a": 2, "b": 10}), percent=20, seed=0)
    assert [[file.label for file in part] for part in (train, held_out)] == [["a"] + ["b"] * 8, ["a"] + ["b"] * 2]


def test_copies_of_an_image_stay_together(tmp_path: Path) -> None:
    for k in range(2):
        for i in range(4):
            for copy in ("a", "b"):
                save(tmp_path / f"class {k}" / f"{i}{copy}.png", noise(10 * k + i))
    dataset = load(tmp_path, ",test=25")
    train, test = ({row.numpy().tobytes() for row in part.inputs} for part in (dataset.train, dataset.test))
    assert not train & test and len(dataset.test) == 4
    assert any(note.startswith("8 images more than once in a class") for note in dataset.notes)


def test_class_with_a_single_image_is_refused_by_name(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=2)
    for name in ("one.png", "copy.png"):
        save(root / "lonely" / name, noise(7))
    with pytest.raises(UserError, match=r"class 'lonely' has a single image.*: add images to it, or a test folder"):
        load(root)


# --- faults


def test_faults_become_notes_or_errors(tmp_path: Path) -> None:
    root = make_faulty_folder(tmp_path / "photos")
    notes = " ".join(load(root).notes)
    for fault in ("broken.jpg", "train/nothing", "more than once in a class", "more than one class", "train and test"):
        assert fault in notes
    with pytest.raises(UserError, match=r"cannot read 1 file, such as .*broken\.jpg"):
        load(root, ",strict=1")


@pytest.mark.parametrize("has_test", [True, False])
def test_broken_training_images_are_named(tmp_path: Path, has_test: bool) -> None:
    save(tmp_path / "train" / "a" / "x.png", noise(0)).write_bytes(b"x")
    if has_test:
        save(tmp_path / "test" / "a" / "y.png", noise(0))
    with pytest.raises(UserError, match=r"has no training images: cannot read train/a/x\.png"):
        load(tmp_path)


def test_empty_training_folder_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "test" / "a" / "y.png", noise(0))
    (tmp_path / "train" / "a").mkdir(parents=True)
    with pytest.raises(UserError, match=r"has no training images$"):
        load(tmp_path)


def test_class_of_broken_files_is_skipped(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=3)
    (root / "gone").mkdir()
    (root / "gone" / "x.png").write_bytes(b"x")
    dataset = load(root)
    assert dataset.classes == ("class 0", "class 1")
    assert "classes skipped: none of their files can be read: gone" in dataset.notes


def test_odd_names_are_kept(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=1, per_class=4)
    for i in range(4):
        save(root / "<b>été, [x] = 1" / f"{i}.png", noise(300 + i))
    dataset = load(root)
    assert dataset.classes == ("<b>été, [x] = 1", "class 0") and len(dataset.train) + len(dataset.test) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (",test=100", "choose 1 to 99 percent"),
        (",test=0", "choose 1 to 99 percent"),
        (",size=100000", "exceeds the maximum of 2048"),
        (",size=-1", "must not be negative"),
        (",sise=3", "did you mean size"),
        ("/T2", r"put the stream before the path: folder/T2:.*photos"),
        ("x", "there is no folder"),
    ],
)
def test_wrong_options_explain_what_is_right(tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path / "photos", options)


def test_missing_path_is_reported() -> None:
    with pytest.raises(UserError, match="use folder:PATH"):
        load_dataset("folder")


def test_stream_before_the_path(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", per_class=2)
    assert load_dataset(f"folder/B2-Inc1:{root}").tasks == (2, 1)
    assert torch.equal(load_dataset(f"folder/T3:{root}").train.labels, torch.tensor([0, 1, 2]))
