"""How fast photos are learned: against bare decoding and the bare forward pass, and how time and size grow."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from upcl.core.timing import Measurement, Workload, duration, growth_exponent, overhead, time_in_turns
from upcl.data.io.images import fit_square, read_image
from upcl.data.io.paths import cache_root
from upcl.training.pretrained import default_pretrained

from .bundle import Bundle, ModelSpec
from .extractor import feature_extractor
from .feature_spec import feature_spec
from .file import save
from .intake import NewImages
from .learner import Learner
from .options import LearnOptions
from .photo_features import BATCH_SIZE
from .plan import plan_update
from .update import apply_update

CPU = torch.device("cpu")
PHOTO_SIZE = (640, 480)
NUM_PHOTOS, NUM_CLASSES = 512, 8
MAX_ROUNDS = 3  # of what takes many seconds
DIM = 128  # features of the backbone `small`, which growth is measured with
SIZES = (2000, 4000, 8000, 16_000)  # photos
MANY_CLASSES, MANY_PHOTOS = 1000, 100  # per class


def measure_photos(repeats: int) -> Iterator[Measurement]:
    """Measure how fast photos are learned, and how time and size of a model grow.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_photos(repeats=1)).name  # doctest: +SKIP
        'learning 512 photos against bare decoding and forward pass'
    """
    rounds = min(repeats, MAX_ROUNDS)
    if default_pretrained():
        with tempfile.TemporaryDirectory() as folder:
            candidates = {"learn": learning(Path(folder)), "bare": bare_pass(Path(folder))}
            name = f"learning {NUM_PHOTOS} photos against bare decoding and forward pass"
            yield overhead("photos", name, time_in_turns(candidates, rounds), target=1.25)
    times = time_in_turns({str(num): adding_a_class(num // 20, 20) for num in SIZES}, rounds)
    medians = [statistics.median(seconds) for seconds in times.values()]
    yield growth_exponent("adding a class by photos learned", SIZES, medians, 1)
    yield growth_exponent("bytes of a model by photos learned", SIZES, [file_bytes(num // 20, 20) for num in SIZES], 1)
    add = adding_a_class(MANY_CLASSES, MANY_PHOTOS)
    name = f"adding a class to {MANY_CLASSES:,} ({MANY_CLASSES * MANY_PHOTOS:,} photos, {DIM} features)"
    yield duration("photos", name, time_in_turns({"add": add}, 1)["add"])


def write_noise(root: Path) -> list[Path]:
    """Write smooth random photos, one folder for each class.

    Args:
        root: where to write them.

    Example:
        >>> import tempfile
        >>> len(write_noise(Path(tempfile.mkdtemp()))) == NUM_PHOTOS
        True
    """
    rng, paths = np.random.default_rng(0), []
    for k in range(NUM_PHOTOS):
        folder = root / f"class {k % NUM_CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        small.resize(PHOTO_SIZE, Image.Resampling.BICUBIC).save(folder / f"{k}.jpg", quality=90)
        paths.append(folder / f"{k}.jpg")
    return paths


def learning(folder: Path) -> Workload:
    """`upcl learn` on new photos: decoding, features, the choice of a classifier, evaluation, and writing the file.

    Args:
        folder: where photos and models are written.

    Example:
        >>> learning(Path("folder"))()  # doctest: +SKIP
    """
    write_noise(folder / "photos")
    if (known := cache_root() / "precision.json").is_file():
        (folder / "cache").mkdir()
        shutil.copy(known, folder / "cache")

    def learn() -> None:
        before = os.environ.get("UPCL_CACHE")
        os.environ["UPCL_CACHE"] = str(folder / "cache")  # no photo was seen before
        try:
            Learner(folder / "model.upcl", device="cpu").learn(folder / "photos", max_forgetting=None)
        finally:
            os.environ.pop("UPCL_CACHE") if before is None else os.environ.update(UPCL_CACHE=before)
            shutil.rmtree(folder / "cache" / "features", ignore_errors=True)
            (folder / "model.upcl").unlink(missing_ok=True)

    return learn


def bare_pass(folder: Path) -> Workload:
    """Decode the same photos with as many threads, and compute their features, and nothing else.

    Args:
        folder: where the photos are.

    Example:
        >>> bare_pass(Path("folder"))()  # doctest: +SKIP
    """
    spec = feature_spec(LearnOptions(), None, folder / "model.upcl")
    compute, _ = feature_extractor(spec, None, CPU)

    def decode(path: Path) -> np.ndarray:
        image = read_image(path, lambda width, height: min(width, height) / spec.size)
        return np.array(fit_square(image, spec.size))

    def look() -> None:
        paths = sorted((folder / "photos").glob("*/*.jpg"))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            decoded = list(pool.map(decode, paths))
        for start in range(0, len(decoded), BATCH_SIZE):
            compute(torch.from_numpy(np.stack(decoded[start : start + BATCH_SIZE])).permute(0, 3, 1, 2))

    return look


def make_model(num_classes: int, per_class: int) -> Bundle:
    """A model that learned random features.

    Args:
        num_classes: number of classes.
        per_class: photos of each class, a tenth of which are held out.

    Example:
        >>> make_model(3, 20).state.class_names
        ['0', '1', '2']
    """
    spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", frozen=True, features=True)
    return _learned(None, spec, range(num_classes), per_class)


def adding_a_class(num_classes: int, per_class: int) -> Workload:
    """Learn one more class.

    Args:
        num_classes: number of classes before.
        per_class: photos of each class.

    Example:
        >>> adding_a_class(3, 20)().state.class_names
        ['0', '1', '2', '3']
    """
    bundle = make_model(num_classes, per_class)
    return lambda: _learned(bundle, bundle.spec, [num_classes], per_class)


def file_bytes(num_classes: int, per_class: int) -> float:
    """Size of the file of a model that learned random features.

    Args:
        num_classes: number of classes.
        per_class: photos of each class.

    Example:
        >>> file_bytes(3, 20) > 3 * 20 * 2 * DIM
        True
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.upcl"
        save(make_model(num_classes, per_class), path)
        return float(path.stat().st_size)


def _learned(bundle: Bundle | None, spec: ModelSpec, classes: range | list[int], per_class: int) -> Bundle:
    names = [str(k) for k in classes for _ in range(per_class)]
    digests = [f"{k:08x}{i:08x}" for k in classes for i in range(per_class)]
    held_out = [i % 10 == 0 for i in range(len(names))]

    def part(held: bool) -> tuple[Tensor, list[str], list[str]]:
        rows = [i for i, out in enumerate(held_out) if out is held]
        return features[rows], [names[i] for i in rows], [digests[i] for i in rows]

    features = torch.cat([_cloud(k, per_class) for k in classes])
    train, test = part(False), part(True)
    images = NewImages(*train[:2], *test[:2], (train[2], test[2]))
    options = LearnOptions(max_forgetting=None)
    return apply_update(plan_update(Path("model.upcl"), bundle, images, options, CPU, spec))


def _cloud(label: int, num: int) -> Tensor:
    generator = torch.Generator().manual_seed(label)
    centre = torch.rand(DIM, generator=generator)
    return (centre + 0.5 * torch.rand(num, DIM, generator=generator)).half()
