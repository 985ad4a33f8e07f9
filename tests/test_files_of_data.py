"""Data sets from files, on small files that the tests make; and on the real ones where they are there."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from upcl import UserError, load_dataset, run
from upcl.data.io.images import BrokenImageError, read_image
from upcl.data.io.scan import printable, scan_folder
from upcl.data.registry import parse_stream
from upcl.data.subset import first_of_each

REAL = Path(__file__).parents[2] / "shared" / "data"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="the real data is not beside this checkout")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UPCL_DATA", raising=False)


def noise(seed: int, height: int = 16, width: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


# --- CIFAR


def make_cifar(root: Path, classes: int = 4, each: int = 3) -> None:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for part, seed in (("train", 0), ("test", 1)):
        data = np.random.default_rng(seed).integers(0, 256, (classes * each, 3072), dtype=np.uint8)
        labels = [k for _ in range(each) for k in range(classes)]
        content = {b"data": data, b"fine_labels": labels, b"filenames": [b"x.png"] * len(labels)}
        (folder / part).write_bytes(pickle.dumps(content, protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"name-{k}" for k in range(classes)]}))


def test_cifar_is_read_from_its_files(tmp_path: Path) -> None:
    make_cifar(tmp_path)
    data = load_dataset("cifar100", tmp_path)
    assert data.train.inputs.shape == (12, 3, 32, 32)
    assert data.train.labels.tolist() == [0, 1, 2, 3] * 3
    assert data.classes == ("name-0", "name-1", "name-2", "name-3")
    raw = pickle.loads((tmp_path / "cifar-100-python" / "train").read_bytes())[b"data"]
    assert torch.equal(data.train.inputs[1].flatten(), torch.from_numpy(raw[1]))
    assert load_dataset("cifar100:train=2", tmp_path).train.labels.tolist() == [0, 1, 2, 3] * 2


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("executed",)


def test_a_pickle_that_wants_to_run_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_cifar(tmp_path)
    path = tmp_path / "cifar-100-python" / "train"
    for content in (pickle.dumps({"data": Evil()}), b"cos\nsystem\n(S'mkdir executed'\ntR.", b"not a pickle", b""):
        path.write_bytes(content)
        with pytest.raises(UserError, match="was not loaded"):
            load_dataset("cifar100", tmp_path)
    assert not (tmp_path / "executed").exists()


def test_arrays_of_pointers_are_refused(tmp_path: Path) -> None:
    """numpy itself would build an array of objects out of eight chosen bytes; nothing of numpy is called here."""
    make_cifar(tmp_path)
    build_pointers = (
        b"\x80\x02cnumpy\ndtype\n(X\x02\x00\x00\x00V8K\x00K\x01tR(K\x03X\x01\x00\x00\x00|NX\x01\x00\x00\x00at}tb."
    )
    for content in (
        build_pointers,
        pickle.dumps({"data": np.array([{}], dtype=object)}, protocol=2),
        pickle.dumps({"data": np.array(["text"])}, protocol=2),
    ):
        (tmp_path / "cifar-100-python" / "train").write_bytes(content)
        with pytest.raises(UserError, match=r"was not loaded|is not a file"):
            load_dataset("cifar100", tmp_path)


def test_cifar10_is_read_from_its_batches(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for k, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        pixels = np.full((2, 3072), k, dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps({b"data": pixels, b"labels": [0, 1]}, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"dog"]}, protocol=2))
    data = load_dataset("cifar10", tmp_path)
    assert data.classes == ("cat", "dog") and data.train.labels.tolist() == [0, 1] * 5
    assert data.train.inputs[:, 0, 0, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}))
    with pytest.raises(UserError, match="2 images and 1 labels"):
        load_dataset("cifar10", tmp_path)
    (folder / "batches.meta").write_bytes(pickle.dumps({}))
    with pytest.raises(UserError, match="does not hold the class names"):
        load_dataset("cifar10", tmp_path)


def test_missing_files_say_where_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"CIFAR-100 is not in .*upcl data get cifar100"):
        load_dataset("cifar100", tmp_path)
    monkeypatch.setenv("UPCL_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match="elsewhere"):
        load_dataset("tinyimagenet")
    make_cifar(tmp_path)
    (tmp_path / "cifar-100-python" / "test").unlink()
    with pytest.raises(UserError, match="test is missing"):
        load_dataset("cifar100", tmp_path)


# --- Tiny-ImageNet


def make_tiny(root: Path) -> None:
    folder = root / "tiny-imagenet-200"
    wnids = ["n02", "n01", "n03"]
    for number, wnid in enumerate(wnids):
        for i in range(3):
            save(folder / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", noise(10 * number + i, 64, 64))
    annotations = []
    for i, wnid in enumerate(["n03", "n01", "n02", "n01"]):
        pixels = noise(100 + i, 64, 64)
        save(folder / "val" / "images" / f"val_{i}.JPEG", pixels[:, :, 0] if i == 0 else pixels)
        annotations.append(f"val_{i}.JPEG\t{wnid}\t0\t0\t62\t62")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(annotations) + "\n")
    (folder / "wnids.txt").write_text("\n".join(wnids) + "\n")
    (folder / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tbullfrog\nn03\ttarantula\nn99\tother\n")


def test_tiny_imagenet_is_read_as_it_unpacks(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    data = load_dataset("tinyimagenet", tmp_path)
    assert data.classes == ("bullfrog", "goldfish", "tarantula")
    assert data.train.counts(3).tolist() == [3, 3, 3]
    assert data.test.labels.tolist() == [2, 1, 0, 1]
    grey = data.test.inputs[0]
    assert torch.equal(grey[0], grey[1]), "a grey JPEG has three equal channels"
    again = load_dataset("tinyimagenet", tmp_path)
    assert again.fingerprint() == data.fingerprint()
    assert len(list((tmp_path / "cache" / "decoded").iterdir())) == 2, "decoded once"
    save(tmp_path / "tiny-imagenet-200" / "train" / "n01" / "images" / "n01_0.JPEG", noise(77, 64, 64))
    assert load_dataset("tinyimagenet", tmp_path).fingerprint() != data.fingerprint(), "a changed file is seen"


def test_two_processes_may_decode_at_once(tmp_path: Path) -> None:
    make_tiny(tmp_path)
    script = f"from upcl import load_dataset; print(load_dataset('tinyimagenet', {str(tmp_path)!r}).fingerprint())"
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = {process.communicate()[0] for process in both}
    assert len(told) == 1
    assert all(process.returncode == 0 for process in both)
    assert not list((tmp_path / "cache").rglob("*partial*"))


# --- own folders


def make_folder(root: Path, classes: int = 3, each: int = 10, size: int = 16) -> Path:
    for k in range(classes):
        for i in range(each):
            save(root / f"class {k}" / f"{i}.png", noise(100 * k + i, size, size))
    return root


def test_a_folder_is_a_data_set(tmp_path: Path) -> None:
    data = load_dataset(f"folder:{make_folder(tmp_path / 'photos')}")
    assert data.classes == ("class 0", "class 1", "class 2")
    assert data.train.counts(3).tolist() == [8, 8, 8]
    assert data.test.counts(3).tolist() == [2, 2, 2]
    assert data.train.inputs.shape[1:] == (3, 16, 16)
    again = load_dataset(f"folder:{tmp_path / 'photos'}")
    assert again.fingerprint() == data.fingerprint()
    assert load_dataset(f"folder:{tmp_path / 'photos'},seed=1").fingerprint() != data.fingerprint()
    half = load_dataset(f"folder:{tmp_path / 'photos'},test=50,size=8")
    assert half.test.counts(3).tolist() == [5, 5, 5]
    assert half.train.inputs.shape[1:] == (3, 8, 8)
    assert data.transform.mean == pytest.approx((0.5, 0.5, 0.5), abs=0.03)


def test_a_folder_with_its_own_test_part_trains(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos" / "train", each=6)
    for k in range(3):
        save(tmp_path / "photos" / "test" / f"class {k}" / "t.png", noise(900 + k))
    data = load_dataset(f"folder:{tmp_path / 'photos'}")
    assert data.train.counts(3).tolist() == [6, 6, 6]
    assert data.test.counts(3).tolist() == [1, 1, 1]
    record = run("upcl", f"folder:{tmp_path / 'photos'}", tasks=3, epochs=1)
    assert record["finished"]
    assert sorted(record["classes"]) == ["class 0", "class 1", "class 2"]


def test_grey_folders_stay_grey(tmp_path: Path) -> None:
    for k in range(2):
        for i in range(4):
            save(tmp_path / "scans" / f"{k}" / f"{i}.png", noise(10 * k + i)[:, :, 0])
    assert load_dataset(f"folder:{tmp_path / 'scans'}").channels == 1


def test_images_of_all_kinds_are_read(tmp_path: Path) -> None:
    pixels = noise(1, 20, 30)
    image = Image.fromarray(pixels)
    for suffix in ("png", "bmp", "webp", "gif", "jpg"):
        image.save(tmp_path / f"a.{suffix}")
        assert read_image(tmp_path / f"a.{suffix}").size == (30, 20)
    exif = Image.Exif()
    exif[274] = 6  # turn by 90 degrees
    image.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").size == (20, 30)
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    clear.save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png").getpixel((0, 0)) == (255, 255, 255)
    deep = np.array([[0, 65535], [32768, 256]], dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert np.asarray(read_image(tmp_path / "deep.png")).tolist() == [[0, 255], [127, 0]]
    image.convert("CMYK").save(tmp_path / "print.jpg")
    assert read_image(tmp_path / "print.jpg").mode == "RGB"
    image.convert("P").save(tmp_path / "palette.png")
    assert read_image(tmp_path / "palette.png").mode == "RGB"


def test_a_class_may_be_named_train_and_hidden_or_other_files_are_no_images(tmp_path: Path) -> None:
    root = tmp_path / "traffic"
    for place, label in enumerate(("bus", "car", "train", "test")):
        for i in range(3):
            save(root / label / f"{i}.png", noise(10 * place + i))
    save(root / "bus" / ".thumbnails" / "0.png", noise(99))
    save(root / "bus" / "._0.png", noise(98))
    (root / "car" / "notes.heic").write_bytes(b"x")
    health, good = scan_folder(root)
    assert sorted({file.label for file in good}) == ["bus", "car", "test", "train"] and len(good) == 12
    assert any("notes.heic" in note for note in health.notes())
    assert printable("a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"


def test_broken_images_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = save(tmp_path / "good.png", noise(0, 64, 64)).read_bytes()
    for name, content in (("cut.png", good[: len(good) // 2]), ("text.jpg", b"hello"), ("none.png", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BrokenImageError):
            read_image(tmp_path / name)
    monkeypatch.setattr("upcl.data.io.images.MOST_PIXELS", 1000)
    with pytest.raises(BrokenImageError, match="64 x 64 pixels"):
        read_image(tmp_path / "good.png")


def planted(root: Path) -> Path:
    """A folder with every fault there is."""
    make_folder(root / "train", classes=2, each=4)
    make_folder(root / "test", classes=2, each=1)
    for k in range(2):
        save(root / "test" / f"class {k}" / "0.png", noise(500 + k))
    (root / "train" / "class 0" / "broken.jpg").write_bytes(b"oops")
    save(root / "train" / "class 0" / "twin.bmp", noise(1))  # = class 0/1.png
    save(root / "train" / "class 1" / "stray.png", noise(2))  # = class 0/2.png
    save(root / "test" / "class 1" / "leak.png", noise(103))  # = train class 1/3.png
    (root / "train" / "nothing").mkdir()
    return root


def test_the_health_check_finds_every_planted_fault(tmp_path: Path) -> None:
    health, _ = scan_folder(planted(tmp_path / "photos"))
    assert health.classes == {"class 0": {"train": 5, "test": 1}, "class 1": {"train": 5, "test": 2}}
    assert [path for path, _ in health.broken] == ["train/class 0/broken.jpg"]
    assert health.empty == ["train/nothing"]
    assert health.duplicates == [["train/class 0/1.png", "train/class 0/twin.bmp"]]
    assert health.two_classes == [["train/class 0/2.png", "train/class 1/stray.png"]]
    assert health.leaks == [["train/class 1/3.png", "test/class 1/leak.png"]]
    assert health.sizes == {"16x16": 13}
    command = [sys.executable, "-m", "upcl", "data", "check", str(tmp_path / "photos")]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert all(word in told.stdout for word in ("broken.jpg", "twin.bmp", "stray.png", "leak.png", "nothing"))
    parsed = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)
    assert parsed["leaks"] == health.leaks


def test_faults_reach_the_record_or_stop_as_asked(tmp_path: Path) -> None:
    folder = planted(tmp_path / "photos")
    record = run("finetune", f"folder:{folder}", tasks=2, epochs=1)
    assert any("broken.jpg" in note for note in record["notes"])
    assert any("in train and in test" in note for note in record["notes"])
    assert any("two classes" in note for note in record["notes"])
    with pytest.raises(UserError, match=r"cannot be read, first .*broken.jpg"):
        load_dataset(f"folder:{folder},strict=1")


def test_bad_folders_say_what_to_do(tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = []
    (tmp_path / "empty").mkdir()
    cases.append((tmp_path / "empty", "it is empty"))
    save(tmp_path / "loose" / "a.png", noise(0))
    cases.append((tmp_path / "loose", "put each class in a sub-folder"))
    make_folder(tmp_path / "above" / "photos")
    cases.append((tmp_path / "above", "use .*above/photos"))
    save(make_folder(tmp_path / "single", classes=2) / "lonely" / "only.png", noise(7))
    cases.append((tmp_path / "single", "class 'lonely' has one image"))
    cases.append((tmp_path / "nowhere", "there is no folder"))
    for path, message in cases:
        with pytest.raises(UserError, match=message):
            load_dataset(f"folder:{path}")
    with pytest.raises(UserError, match="did you mean size"):
        load_dataset(f"folder:{tmp_path / 'single'},sise=3")
    with pytest.raises(UserError, match="cannot be split into 9 tasks"):
        run("upcl", f"folder:{make_folder(tmp_path / 'few')}", tasks=9)


def test_link_loops_and_odd_names_are_survived(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2, each=4)
    for i in range(4):
        save(root / "<b>été, [x] = 1" / f"{i}.png", noise(300 + i))
    (root / "class 0" / "loop").symlink_to(root / "class 0", target_is_directory=True)
    data = load_dataset(f"folder:{root}")
    assert data.classes[0] == "<b>été, [x] = 1"
    assert len(data.train) + len(data.test) == 12


def test_dead_links_pipes_and_ancestors_are_reported_not_followed(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2, each=4)
    (root / "class 0" / "dead.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (root / "class 0" / "me.jpg").symlink_to(root / "class 0" / "me.jpg")
    (root / "class 0" / "up").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "class 0" / "pipe.jpg")
    health, good = scan_folder(root)
    assert dict(health.broken) == {
        "class 0/dead.jpg": "is a link that leads nowhere",
        "class 0/me.jpg": "is a link that leads nowhere",
        "class 0/pipe.jpg": "is not a file",
    }
    assert len(good) == 8 and not health.two_classes


def test_names_that_are_not_utf8_can_be_trained_and_told(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=1, each=4)
    odd = Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))
    for i in range(4):
        save(odd / f"{i}.png", noise(200 + i))
    (odd / os.fsdecode(b"\xff.png")).write_bytes(b"broken")
    command = [sys.executable, "-m", "upcl"]
    told = subprocess.run([*command, "data", "check", str(root)], capture_output=True, text=True)
    assert told.returncode == 0 and "caf\\xe9/\\xff.png" in told.stdout, told.stderr
    words = [
        "train",
        "finetune",
        "--data",
        f"folder:{root}",
        "--tasks",
        "2",
        "--epochs",
        "1",
        "--out",
        f"{tmp_path}/run",
    ]
    trained = subprocess.run([*command, *words], capture_output=True, text=True)
    assert trained.returncode == 0, trained.stderr
    assert "caf\\xe9" in json.loads((tmp_path / "run" / "record.json").read_text())["classes"]


def test_a_held_out_part_shares_no_image_with_training(tmp_path: Path) -> None:
    for k in range(2):
        for i in range(4):
            for copy in ("a", "b"):
                save(tmp_path / "photos" / f"class {k}" / f"{i}{copy}.png", noise(10 * k + i))
    data = load_dataset(f"folder:{tmp_path / 'photos'},test=25")
    train, test = ({row.numpy().tobytes() for row in part.inputs} for part in (data.train, data.test))
    assert not train & test and len(data.test) == 4
    assert any("twice in a class" in note for note in data.notes)


def test_parts_of_other_names_are_found_or_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "Training", each=3)
    for part in ("Test", "val"):
        make_folder(tmp_path / "a" / part, classes=4, each=1)
    data = load_dataset(f"folder:{tmp_path / 'a'}")
    assert len(data.train) == 9 and len(data.test) == 3
    assert any("val is not used" in note for note in data.notes)
    assert any("left out: class 3" in note for note in data.notes)
    make_folder(tmp_path / "b" / "test", classes=2)
    make_folder(tmp_path / "b" / "others", classes=2)
    with pytest.raises(UserError, match="a folder test but none named train"):
        load_dataset(f"folder:{tmp_path / 'b'}")
    make_folder(tmp_path / "c" / "train")
    save(tmp_path / "c" / "test" / "Class 0" / "0.png", noise(0))
    with pytest.raises(UserError, match="none of the classes of the train folder: Class 0 against class 0"):
        load_dataset(f"folder:{tmp_path / 'c'}")
    for kind in ("animals", "plants"):
        make_folder(tmp_path / "d" / kind)
    assert any("a folder deeper" in note for note in load_dataset(f"folder:{tmp_path / 'd'}").notes)


def test_a_class_of_broken_files_is_said(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2)
    (root / "gone").mkdir()
    (root / "gone" / "x.png").write_bytes(b"x")
    health, _ = scan_folder(root)
    assert health.classes["gone"] == {"train": 0, "test": 0} and health.imbalance == 1.0
    data = load_dataset(f"folder:{root}")
    assert len(data.classes) == 2 and any("left out" in note and "gone" in note for note in data.notes)


def test_what_the_system_refuses_for_now_is_read_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folder(tmp_path / "photos", classes=2)
    real = Image.open

    def refused(path: Any) -> Any:
        if Path(path).name == "0.png":
            raise PermissionError(13, "Permission denied")
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(Image, "open", refused)
        assert [reason for _, reason in scan_folder(root)[0].broken] == ["Permission denied"] * 2
    assert not scan_folder(root)[0].broken


def test_two_processes_may_examine_at_once(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", each=40)
    command = [sys.executable, "-m", "upcl", "data", "check", str(root), "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert told[0][0] == told[1][0]


def test_a_full_disk_while_decoding_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folder(tmp_path / "photos")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(UserError, match=r"no room for .* bytes of decoded images"):
            load_dataset(f"folder:{root}")
    assert [p.suffix for p in (tmp_path / "cache" / "decoded").iterdir()] == [".json"]
    assert len(load_dataset(f"folder:{root}").train) == 24


def test_a_bomb_in_a_folder_is_reported_by_name(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2)
    Image.new("1", (20_000, 20_000)).save(root / "class 0" / "bomb.png")
    ((name, reason),) = scan_folder(root)[0].broken
    assert name == "class 0/bomb.png" and "pixels" in reason


def test_folder_options_are_bounded_and_told(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2)
    for wrong, said in (("test=100", "1 to 99"), ("size=100000", "more than 2048"), ("size=-1", "not be negative")):
        with pytest.raises(UserError, match=said):
            load_dataset(f"folder:{root},{wrong}")
    assert load_dataset(f"folder:{root},size=8,seed=7").name == "folder:photos,size=8,seed=7"
    with pytest.raises(UserError, match="which folder"):
        load_dataset("folder")
    with pytest.raises(UserError, match=r"folder/T2:.*photos"):
        load_dataset(f"folder:{root}/T2")


# --- npz, slices, streams


def test_npz_files_are_data_sets(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    images, labels = np.stack([noise(i)[:, :, 0] for i in range(6)]), np.array([0, 1, 2] * 2)
    np.savez(path, train_x=images, train_y=labels, test_x=images, test_y=labels, classes=np.array(["a", "b", "c"]))
    data = load_dataset(f"npz:{path}")
    assert (data.channels, data.classes) == (1, ("a", "b", "c"))
    np.savez(path, train_x=images)
    with pytest.raises(UserError, match="lacks train_y, test_x, test_y"):
        load_dataset(f"npz:{path}")
    whole = {"train_x": images, "train_y": labels, "test_x": images, "test_y": labels}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"train_y": labels + 0.5}, "must be 6 whole numbers"),
        ({"train_y": labels[:, None]}, "must be 6 whole numbers"),
        ({"test_y": labels[:3]}, "must be 6 whole numbers"),
        ({"train_y": labels - 1}, "lies outside"),
        ({"train_x": images[:0], "train_y": labels[:0]}, "holds no images"),
        ({"train_x": np.stack([images] * 8, 3)}, "8 channels last"),
        ({"train_x": images.astype(float)}, "must be uint8"),
    ]
    for change, said in wrong:
        np.savez(path, **{**whole, **change})
        with pytest.raises(UserError, match=said):
            load_dataset(f"npz:{path}")
    np.save(tmp_path / "one.npy", images)
    with pytest.raises(UserError, match="holds one array"):
        load_dataset(f"npz:{tmp_path / 'one.npy'}")
    np.savez(path, train_x=np.array([Evil()], dtype=object), train_y=labels, test_x=images, test_y=labels)
    with pytest.raises(UserError, match="cannot be read as npz"):
        load_dataset(f"npz:{path}")
    path.write_bytes(b"no")
    with pytest.raises(UserError, match="cannot be read as npz"):
        load_dataset(f"npz:{path}")


def test_slices_take_the_first_of_each_class() -> None:
    digits = load_dataset("digits")
    few = first_of_each(digits.train, 3)
    assert few.counts(10).tolist() == [3] * 10
    for k in range(10):
        mine = few.inputs[few.labels == k]
        assert torch.equal(mine, digits.train.inputs[digits.train.labels == k][:3])
    assert first_of_each(digits.train, 0) is digits.train


def test_streams_by_name() -> None:
    assert parse_stream("T20", 100) == 20
    assert parse_stream("B50-Inc10", 100) == (50, 10, 10, 10, 10, 10)
    assert parse_stream("B0-Inc30", 100) == (30, 30, 30, 10)
    assert load_dataset("digits/B4-Inc3").tasks == (4, 3, 3)
    for wrong in ("X5", "B50", "B500-Inc1", "T"):
        with pytest.raises(UserError, match="stream"):
            parse_stream(wrong, 100)


# --- the real files


@needs_real
def test_real_cifar100() -> None:
    data = load_dataset("cifar100/T10", REAL)
    assert data.train.counts(100).tolist() == [500] * 100
    assert data.test.counts(100).tolist() == [100] * 100
    assert (data.classes[0], data.classes[99]) == ("apple", "worm")
    some = data.train.inputs[::10].float() / 255
    assert some.mean((0, 2, 3)).tolist() == pytest.approx(data.transform.mean, abs=5e-3)
    assert some.transpose(0, 1).flatten(1).std(1).tolist() == pytest.approx(data.transform.std, abs=5e-3)


@needs_real
def test_real_tiny_imagenet() -> None:
    data = load_dataset("tinyimagenet/T40", REAL)
    assert data.train.counts(200).tolist() == [50] * 200
    assert data.test.counts(200).tolist() == [10] * 200
    assert data.classes[:2] == ("goldfish", "European fire salamander")
    some = data.train.inputs[::7].float() / 255
    assert some.mean((0, 2, 3)).tolist() == pytest.approx((0.480, 0.448, 0.398), abs=0.01)


def through_the_command_line(tmp_path: Path, data: str, *words: str) -> dict[str, Any]:
    out = tmp_path / "run"
    asked = ["train", "upcl", "--data", data, "--data-root", str(REAL), "--epochs", "1", "--out", str(out), *words]
    told = subprocess.run([sys.executable, "-m", "upcl", *asked], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    record: dict[str, Any] = json.loads((out / "record.json").read_text())
    return record


@needs_real
def test_real_files_are_learned_through_the_command_line(tmp_path: Path) -> None:
    small = ("--backbone", "resnet18-7x7", "--recipe", "quick", "--memory", "500")
    cifar = through_the_command_line(tmp_path / "a", "cifar100:train=4,test=1", "--tasks", "5", *small)
    assert cifar["task_sizes"] == [20] * 5 and cifar["class_order"][:3] == [68, 56, 78]
    tiny = through_the_command_line(tmp_path / "b", "tinyimagenet/T5:train=2,test=1", *small)
    assert tiny["task_sizes"] == [40] * 5 and tiny["class_order"][:3] == [168, 136, 51]
    for wnid in ("n01443537", "n01629819", "n01641577"):
        source = REAL / "tiny-imagenet-200" / "train" / wnid / "images"
        target = tmp_path / "photos" / wnid
        target.mkdir(parents=True)
        for path in sorted(source.iterdir())[:8]:
            (target / path.name).write_bytes(path.read_bytes())
    own = through_the_command_line(tmp_path / "c", f"folder:{tmp_path / 'photos'}", "--tasks", "3")
    assert own["finished"] and sorted(own["classes"]) == ["n01443537", "n01629819", "n01641577"]


@needs_real
def test_real_omniglot() -> None:
    data = load_dataset(f"npz:{next((REAL / 'omniglot-small').glob('*.npz'))}")
    assert (len(data.classes), data.channels) == (242, 1)
    assert len(data.train) == 242 * 15
