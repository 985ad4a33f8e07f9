"""CIFAR-10 and CIFAR-100 from their Python files, read without executing what a pickle asks for."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.io.paths import find_folder
from upcl.data.transforms import Brightness, Flip, PadCrop, Transform

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)  # PyCIL, for both sets
TRANSFORM = Transform(MEAN, STD, (PadCrop(4), Flip(0.5), Brightness(63 / 255)))
KINDS = {"u1": np.uint8, "i4": np.int32, "i8": np.int64, "b1": np.bool_}


class _Kind:
    """Stands for numpy's dtype while a file is read: plain numbers in this machine's order only."""

    def __init__(self, name: str | bytes, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else str(name)

    def __setstate__(self, state: Any) -> None:
        if self.name not in KINDS or state[1] not in ("<", "|", b"<", b"|") or any(state[2:5]):
            raise pickle.UnpicklingError(f"it holds an array of {self.name}")


class _Array:
    """Stands for an array while a file is read; becomes one of the numbers, the shape and the bytes it was given."""

    array: np.ndarray

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_column, content = state
        if not isinstance(kind, _Kind) or not isinstance(content, bytes) or by_column:
            raise pickle.UnpicklingError("it holds an array that is not plain numbers")
        self.array = np.frombuffer(content, KINDS[kind.name]).reshape(shape)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding}")
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _latin1,
}


class ArraysOnly(pickle.Unpickler):
    """Builds plain arrays, lists, dicts, numbers and strings; whatever else a file names is refused.

    Nothing of numpy is called with what the file says: stand-ins take it, look at it, and make the arrays.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _STAND_INS[module, name]


def read_pickle(path: Path) -> dict[str, Any]:
    """The mapping in one of CIFAR's files, with plain string keys."""
    try:
        with path.open("rb") as file:
            content = ArraysOnly(file, encoding="bytes").load()
    except FileNotFoundError:
        raise UserError(f"{path} is missing: remove the folder and unpack the archive again") from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise UserError(f"{path} is damaged or not a file of CIFAR and was not loaded: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a file of CIFAR")
    names = {key.decode("latin1") if isinstance(key, bytes) else str(key): key for key in content}
    return {name: _made(content[key]) for name, key in names.items()}


def _made(value: Any) -> Any:
    return value.array if isinstance(value, _Array) else value


@dataclass(frozen=True)
class Layout:
    """How one of the two sets is stored."""

    title: str
    folder: str
    archive: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    meta: str
    names: str
    labels: str
    tasks: int


CIFAR100 = Layout(
    "CIFAR-100",
    "cifar-100-python",
    "cifar-100-python.tar.gz",
    ("train",),
    ("test",),
    "meta",
    "fine_label_names",
    "fine_labels",
    tasks=10,
)


CIFAR10 = Layout(
    "CIFAR-10",
    "cifar-10-batches-py",
    "cifar-10-python.tar.gz",
    tuple(f"data_batch_{i}" for i in range(1, 6)),
    ("test_batch",),
    "batches.meta",
    "label_names",
    "labels",
    tasks=5,
)


def load_cifar(layout: Layout, name: str, root: Path) -> Dataset:
    how = f"`upcl data get {name}` downloads it"
    folder = find_folder(root, layout.folder, [layout.archive], layout.title, how)
    names = read_pickle(folder / layout.meta).get(layout.names)
    if not isinstance(names, list):
        raise UserError(f"{folder / layout.meta} does not hold the class names ({layout.names})")

    def samples(files: tuple[str, ...]) -> Samples:
        parts = [read_pickle(folder / file) for file in files]
        try:
            pixels = np.concatenate([part["data"] for part in parts]).reshape(-1, 3, 32, 32)
            labels = np.concatenate([part[layout.labels] for part in parts])
        except (KeyError, ValueError) as error:
            raise UserError(f"{folder / files[0]} does not hold 32x32 colour images with labels: {error}") from None
        if len(pixels) != len(labels) or not np.issubdtype(labels.dtype, np.integer):
            raise UserError(f"{folder / files[0]} holds {len(pixels)} images and {len(labels)} labels")
        return Samples(torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(labels))

    return Dataset(
        name=name,
        train=samples(layout.train),
        test=samples(layout.test),
        classes=tuple(n.decode() if isinstance(n, bytes) else n for n in names),
        transform=TRANSFORM,
        backbone="resnet18",
        recipe="own",
        memory="2000",
        tasks=layout.tasks,
    )
