"""Small files in the layouts that the loaders read."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from upcl.data import Dataset
from upcl.data.io.crops import Photos
from upcl.data.loaders.eurosat import CLASSES as EUROSAT_CLASSES


def noise(seed: int, height: int = 16, width: int = 16) -> np.ndarray:
    """Random RGB pixels: different for each seed."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth_image(width: int, height: int, seed: int = 0) -> Image.Image:
    """A smooth image, whose colours JPEG preserves."""
    coarse = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def save(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def make_folder(root: Path, classes: int = 3, per_class: int = 10, size: int = 16) -> Path:
    """`class 0/0.png`, `class 0/1.png`, ..."""
    for k in range(classes):
        for i in range(per_class):
            save(root / f"class {k}" / f"{i}.png", noise(100 * k + i, size, size))
    return root


def make_faulty_folder(root: Path) -> Path:
    """A folder with every fault that a scan can find."""
    make_folder(root / "train", classes=2, per_class=4)
    for k in range(2):
        save(root / "test" / f"class {k}" / "0.png", noise(500 + k))
    (root / "train" / "class 0" / "broken.jpg").write_bytes(b"not an image")
    save(root / "train" / "class 0" / "twin.bmp", noise(1))  # = train/class 0/1.png
    save(root / "train" / "class 1" / "stray.png", noise(2))  # = train/class 0/2.png
    save(root / "test" / "class 1" / "leak.png", noise(103))  # = train/class 1/3.png
    (root / "train" / "nothing").mkdir()
    return root


def make_photos(folder: Path, sizes: list[tuple[int, int]], size: int = 16) -> Photos:
    """JPEG files `0.jpg`, `1.jpg`, ... of these widths and heights."""
    paths = []
    for k, (width, height) in enumerate(sizes):
        paths.append(folder / f"{k}.jpg")
        smooth_image(width, height, k).save(paths[-1], quality=95)
    return Photos.from_files(paths, size, "identity")


def make_cifar100(root: Path, classes: int = 4, per_class: int = 3) -> Path:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for split, seed in (("train", 0), ("test", 1)):
        data = np.random.default_rng(seed).integers(0, 256, (classes * per_class, 3072), dtype=np.uint8)
        labels = [k for _ in range(per_class) for k in range(classes)]
        content = {b"data": data, b"fine_labels": labels, b"filenames": [b"x.png"] * len(labels)}
        (folder / split).write_bytes(pickle.dumps(content, protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"name-{k}" for k in range(classes)]}))
    return folder


def make_tiny_imagenet(root: Path) -> Path:
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
    (folder / "val" / "val_annotations.txt").write_text("\n".join(annotations) + "\n\n")
    (folder / "wnids.txt").write_text("\n".join(wnids) + "\n")
    (folder / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tbullfrog\nn03\ttarantula\nn99\tother\n")
    return folder


def jpeg(width: int = 40, height: int = 30, seed: int = 0) -> bytes:
    """The content of a small JPEG file."""
    buffer = io.BytesIO()
    smooth_image(width, height, seed).save(buffer, "JPEG")
    return buffer.getvalue()


def write_files(folder: Path, content: dict[str, str | bytes]) -> Path:
    """Text and binary files by name."""
    for name, each in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(each.encode() if isinstance(each, str) else each)
    return folder


CUB_IMAGES = [  # number, name, class, in the training set
    (1, "001.Black_footed_Albatross/Black_0001.jpg", 1, 1),
    (2, "001.Black_footed_Albatross/Black_0002.jpg", 1, 0),
    (3, "002.Laysan_Albatross/Laysan_0001.jpg", 2, 0),
    (4, "002.Laysan_Albatross/Laysan_0002.jpg", 2, 1),
    (5, "003.Crow/Crow_0001.jpg", 3, 1),
    (6, "003.Crow/Crow_0002.jpg", 3, 1),
    (7, "003.Crow/Crow_0003.jpg", 3, 0),
]


def make_cub200(root: Path) -> Path:
    """CUB-200-2011 with three classes."""
    lists = {
        "images.txt": [f"{number} {name}" for number, name, _, _ in CUB_IMAGES],
        "image_class_labels.txt": [f"{number} {label}" for number, _, label, _ in CUB_IMAGES],
        "train_test_split.txt": [f"{number} {in_train}" for number, _, _, in_train in CUB_IMAGES],
        "classes.txt": ["1 001.Black_footed_Albatross", "2 002.Laysan_Albatross", "3 003.Crow"],
    }
    folder = write_files(root / "CUB_200_2011", {name: "\n".join(lines) + "\n" for name, lines in lists.items()})
    return write_files(folder, {f"images/{name}": jpeg(60, 50, number) for number, name, _, _ in CUB_IMAGES})


def make_eurosat(folder: Path, per_class: int = 5) -> Path:
    """The ten class folders of EuroSAT."""
    for label, name in enumerate(EUROSAT_CLASSES):
        for k in range(1, per_class + 1):
            save(folder / name / f"{name}_{k}.jpg", noise(100 * label + k, 64, 64))
    return folder


def file_names(dataset: Dataset, split: str) -> list[str]:
    """`FOLDER/FILE` of the images of a data set whose images stay in their files."""
    assert dataset.transform.photos
    positions = getattr(dataset, split).inputs.tolist()
    paths = [Path(dataset.transform.photos.paths[position].decode()) for position in positions]
    return [f"{path.parent.name}/{path.name}" for path in paths]


def png_of_claimed_size(width: int, height: int) -> bytes:
    """A tiny PNG file whose header claims any size."""
    buffer = io.BytesIO()
    Image.new("L", (1, 1)).save(buffer, "PNG")
    content = buffer.getvalue()
    header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


class RunsCode:
    """Unpickling an instance creates the folder `executed`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.mkdir, ("executed",)


def photo_folder(folder: Path, per_class: int) -> str:
    """A data set of images that are cropped from their files in every batch."""
    for name, seed in (("cats", 0), ("dogs", 50)):
        (folder / name).mkdir(parents=True)
        for k in range(per_class):
            smooth_image(90, 80, seed + k).save(folder / name / f"{k}.jpg")
    return f"folder:{folder},size=72,test=34"
