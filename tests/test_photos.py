"""Images that stay in their files: cut by workers, the same whatever their number; ImageNet's folders and lists."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from click.testing import CliRunner
from PIL import Image

from upcl import UserError, run
from upcl.cli import main
from upcl.data import load_dataset
from upcl.data.io.crops import Photos
from upcl.data.io.images import read_image
from upcl.data.loaders.imagenet import lucir_choice


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """A smooth picture, so that JPEG keeps its colours."""
    draw = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(draw).resize((width, height), Image.Resampling.BICUBIC)


def photos_of(folder: Path, sizes: list[tuple[int, int]], size: int = 16) -> Photos:
    paths = []
    for k, (width, height) in enumerate(sizes):
        paths.append(folder / f"{k}.jpg")
        picture(width, height, k).save(paths[-1], quality=95)
    return Photos(Photos.names(paths), size, "these")


def test_test_crops_are_the_middle_of_the_resized_image(tmp_path: Path) -> None:
    photos = photos_of(tmp_path, [(40, 30), (24, 60)])
    found = next(photos.batches(torch.arange(2), [torch.arange(2)], augment=False))
    assert found.shape == (2, 3, 16, 16) and found.dtype == torch.uint8
    image = Image.open(tmp_path / "0.jpg")
    resized = np.asarray(image.resize((round(40 * 16 / 0.875 / 30), round(16 / 0.875)), Image.Resampling.BILINEAR))
    left, top = (resized.shape[1] - 16) // 2, (resized.shape[0] - 16) // 2
    wanted = resized[top : top + 16, left : left + 16].transpose(2, 0, 1).astype(int)
    assert np.abs(found[0].numpy().astype(int) - wanted).mean() < 6


def test_crops_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    photos = photos_of(tmp_path, [(40, 30)] * 7)
    numbers, batches = torch.tensor([6, 5, 4, 3, 2, 1, 0]), [torch.tensor([0, 3]), torch.tensor([6, 1, 2])]
    threads, found = torch.get_num_threads(), []
    try:
        for workers in (1, 2):
            torch.set_num_threads(workers)
            torch.manual_seed(3)
            found.append(list(photos.batches(numbers, batches, augment=True)))
    finally:
        torch.set_num_threads(threads)
    assert [len(part) for part in found[0]] == [2, 3]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    again = list(photos.batches(numbers, batches, augment=True))
    assert not torch.equal(again[0], found[0][0])


def test_training_boxes_have_the_asked_area_and_aspect(tmp_path: Path) -> None:
    photos = photos_of(tmp_path, [(400, 300)])
    image = read_image(tmp_path / "0.jpg")
    draws = np.random.default_rng(0).random((2000, 4))
    areas = photos.scale[0] + draws[:, 0] * (photos.scale[1] - photos.scale[0])
    boxes = np.array([photos._box(image, a, d) for a, d in zip(areas, draws, strict=True)])
    wide, tall = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert boxes.min() >= 0 and boxes[:, 2].max() <= 400 and boxes[:, 3].max() <= 300
    inside = areas < 0.5
    assert np.allclose(wide[inside] * tall[inside], areas[inside] * 400 * 300)
    assert 0.74 < (wide / tall)[inside].min() < 0.8 and 1.25 < (wide / tall)[inside].max() < 1.34


def test_a_large_jpeg_is_decoded_coarsely_but_looks_the_same(tmp_path: Path) -> None:
    photos = photos_of(tmp_path, [(640, 480)], size=32)
    coarse = read_image(tmp_path / "0.jpg", lambda width, height: min(width, height) / 32)
    assert coarse.size == (80, 60)  # an eighth
    exact = np.asarray(
        Image.open(tmp_path / "0.jpg").resize((32, 32), Image.Resampling.BILINEAR, box=(110, 30, 530, 450))
    )
    assert np.abs(photos.cut(0, None).astype(int) - exact.astype(int)).mean() < 2
    assert read_image(tmp_path / "0.jpg", lambda width, height: 1.9 * height / width).size == (640, 480)


def test_a_turned_photo_is_cut_as_it_is_seen(tmp_path: Path) -> None:
    image = picture(60, 30)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    photos = Photos(Photos.names([tmp_path / "turned.jpg"]), 16, "this")
    upright = image.transpose(Image.Transpose.ROTATE_270)
    side = 30 * 0.875
    box = (15 - side / 2, 30 - side / 2, 15 + side / 2, 30 + side / 2)
    wanted = np.asarray(upright.resize((16, 16), Image.Resampling.BILINEAR, box=box)).astype(int)
    assert np.abs(photos.cut(0, None).astype(int) - wanted).mean() < 4


def test_a_file_that_breaks_later_is_named(tmp_path: Path) -> None:
    photos = photos_of(tmp_path, [(40, 30)] * 2)
    (tmp_path / "1.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"1\.jpg cannot be read"):
        list(photos.batches(torch.arange(2), [torch.arange(2)], augment=False))


def test_own_folders_of_large_images_train_and_resume_alike(tmp_path: Path) -> None:
    for name, seed in (("cats", 0), ("dogs", 50)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for k in range(6):
            picture(90, 80, seed + k).save(tmp_path / "own" / name / f"{k}.jpg")
    request: dict[str, Any] = {"tasks": 2, "epochs": 2, "backbone": "small", "memory": "4"}
    spec = f"folder:{tmp_path / 'own'},size=72,test=34"
    dataset = load_dataset(spec)
    assert dataset.image_shape == (3, 72, 72) and dataset.train.inputs.shape == (8,)
    assert all(0.2 < m < 0.8 for m in dataset.transform.mean) and all(s > 0.05 for s in dataset.transform.std)
    first = run("upcl", spec, **request)
    again = run("upcl", spec, out=tmp_path / "run", **request)
    assert first["weights_sha256"] == again["weights_sha256"]
    assert again["config"]["transform"]["photos"]["size"] == 72
    assert str(tmp_path) not in str(again["config"]["transform"])
    verify = [
        "verify-resume",
        "upcl",
        "--data",
        spec,
        "--tasks",
        "2",
        "--epochs",
        "2",
        "--backbone",
        "small",
        "--kills",
        "1",
    ]
    told = CliRunner().invoke(main, verify)
    assert told.exit_code == 0 and "same weights" in told.output, told.output
    before = dataset.fingerprint()
    picture(90, 80, 99).save(tmp_path / "own" / "cats" / "0.jpg", quality=99)
    assert load_dataset(spec).fingerprint() != before


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))


WNIDS = [f"n{k:08d}" for k in range(1000)]


def jpeg() -> bytes:
    buffer = io.BytesIO()
    picture(40, 30).save(buffer, "JPEG")
    return buffer.getvalue()


def make_train(folder: Path, wnids: list[str], num: int = 1) -> None:
    content = jpeg()
    for wnid in wnids:
        (folder / "train" / wnid).mkdir(parents=True)
        for k in range(num):
            (folder / "train" / wnid / f"{wnid}_{k}.JPEG").write_bytes(content)


def make_val(folder: Path, wnids: list[str]) -> dict[str, str]:
    """One flat validation image a class, as the archive unpacks, and which class it is."""
    (folder / "val").mkdir()
    content, truth = jpeg(), {}
    for k, wnid in enumerate(wnids, 1):
        truth[f"ILSVRC2012_val_{k:08d}"] = wnid
        (folder / "val" / f"ILSVRC2012_val_{k:08d}.JPEG").write_bytes(content)
    return truth


def write_table(folder: Path, truth: dict[str, str]) -> None:
    with (folder / "LOC_val_solution.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["ImageId", "PredictionString"])
        table.writerows([name, f"{wnid} 1 2 3 4 {wnid} 5 6 7 8"] for name, wnid in truth.items())


def test_lucirs_hundred_classes() -> None:
    chosen = lucir_choice()
    assert chosen[:4] == [54, 7, 894, 512] and len(set(chosen)) == 100
    assert chosen == np.random.RandomState(1993).choice(1000, 100, replace=False).tolist()


def test_imagenet100_by_named_lists(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet"
    make_train(folder, WNIDS)
    write_table(folder, make_val(folder, list(reversed(WNIDS))))
    lucir = load_dataset("imagenet100/T10", tmp_path)
    assert lucir.classes == tuple(sorted(WNIDS[k] for k in lucir_choice()))
    assert len(lucir.train) == len(lucir.test) == 100 and lucir.tasks == 10
    assert "list 'lucir'" in lucir.notes[0] and lucir.name == "imagenet100:list=lucir"
    assert lucir.image_shape == (3, 224, 224)
    first = load_dataset("imagenet100:list=first", tmp_path)
    assert first.classes == tuple(WNIDS[:100])
    shown = first.transform.photos
    assert shown and b"val_00000901" in shown.paths[first.test.inputs[0]]  # the last class: the table is reversed
    assert first.test.labels.tolist() == list(range(99, -1, -1))
    (tmp_path / "mine.txt").write_text(f"# two\n{WNIDS[7]} seven\n{WNIDS[3]}\n")
    mine = load_dataset(f"imagenet100:list={tmp_path / 'mine.txt'},train=1", tmp_path)
    assert mine.classes == (WNIDS[3], WNIDS[7]) and mine.name.endswith("mine.txt,train=1")
    (tmp_path / "bad.txt").write_text("n99999999\n")
    with pytest.raises(UserError, match="1 classes are not in"):
        load_dataset(f"imagenet100:list={tmp_path / 'bad.txt'}", tmp_path)
    with pytest.raises(UserError, match="say lucir, first, or a file"):
        load_dataset("imagenet100:list=lucri", tmp_path)
    assert len(load_dataset("imagenet1000", tmp_path).classes) == 1000


def test_the_development_kit_tells_the_validation_labels(tmp_path: Path) -> None:
    folder = tmp_path / "ILSVRC2012"
    make_train(folder, WNIDS[:3], num=2)
    make_val(folder, [WNIDS[2], WNIDS[0], WNIDS[1]])
    kit = folder / "ILSVRC2012_devkit_t12" / "data"
    kit.mkdir(parents=True)
    rows = np.array([(k, WNIDS[3 - k]) for k in (1, 2, 3)], dtype=[("ILSVRC2012_ID", "i4"), ("WNID", "O")])
    scipy.io.savemat(kit / "meta.mat", {"synsets": rows})
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n3\n2\n")
    dataset = load_dataset("imagenet1000:train=1", tmp_path)
    assert dataset.test.labels.tolist() == [2, 0, 1] and len(dataset.train) == 3


def test_a_sorted_imagenet100_trains(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet100"
    make_train(folder, WNIDS[:100])
    for wnid in WNIDS[:100]:
        (folder / "val" / wnid).mkdir(parents=True)
        (folder / "val" / wnid / "a.JPEG").write_bytes(jpeg())
    dataset = load_dataset("imagenet100", tmp_path)
    assert dataset.name == "imagenet100" and "as the folder has them" in dataset.notes[0]
    with pytest.raises(UserError, match="has 100: give your list"):
        load_dataset("imagenet100:list=first", tmp_path)
    with pytest.raises(UserError, match="say lucir, first, or a file"):
        load_dataset("imagenet100:list=lucri", tmp_path)
    (tmp_path / "three.txt").write_text("\n".join(WNIDS[5:8]))
    three = f"imagenet100:list={tmp_path / 'three.txt'}"
    record = run("finetune", three, data_root=tmp_path, tasks=1, epochs=1, recipe="quick")
    assert record["data"] == three and sorted(record["classes"]) == WNIDS[5:8]
    assert "list" in record["notes"][0]


def test_imagenet_that_is_not_ready_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not in .*image-net\.org"):
        load_dataset("imagenet100", tmp_path)
    train = tmp_path / "imagenet" / "train"
    train.mkdir(parents=True)
    with pytest.raises(UserError, match="no class folders"):
        load_dataset("imagenet1000", tmp_path)
    (train / "n00000001.tar").write_bytes(b"")
    with pytest.raises(UserError, match="1 archives: unpack each"):
        load_dataset("imagenet1000", tmp_path)
    (train / "n00000001.tar").unlink()
    make_train(tmp_path / "imagenet", WNIDS[:2])
    with pytest.raises(UserError, match="has no val folder"):
        load_dataset("imagenet1000", tmp_path)
    make_val(tmp_path / "imagenet", WNIDS[:2])
    with pytest.raises(UserError, match="neither LOC_val_solution"):
        load_dataset("imagenet1000", tmp_path)
    with pytest.raises(UserError, match="has 2: give your list"):
        load_dataset("imagenet100", tmp_path)
