"""CIFAR-10 and CIFAR-100 from their Python files, without executing code that a pickle may contain."""

from __future__ import annotations

import pickle
import pickletools
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from upcl.core.errors import UserError
from upcl.core.pickles import check_nesting
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.io.download import find_dataset
from upcl.data.transforms import Brightness, Flip, PadCrop, Transform

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)  # PyCIL, for both sets
TRANSFORM = Transform(MEAN, STD, (PadCrop(4), Flip(0.5), Brightness(63 / 255)))
DTYPES = {"u1": np.uint8, "i4": np.int32, "i8": np.int64, "b1": np.bool_}


@dataclass(frozen=True)
class CifarLayout:
    """Files and keys in which one of the two data sets is stored.

    Args:
        name: the data set's name in the registry.
        train: the files of training images.
        test: the files of test images.
        meta: the file of class names.
        names_key: the key of the class names in `meta`.
        labels_key: the key of the labels in the other files.
        tasks: the default number of tasks.

    Example:
        >>> CIFAR100.labels_key
        'fine_labels'
    """

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    meta: str
    names_key: str
    labels_key: str
    tasks: int


CIFAR100 = CifarLayout("cifar100", ("train",), ("test",), "meta", "fine_label_names", "fine_labels", tasks=10)
CIFAR10 = CifarLayout(
    "cifar10",
    tuple(f"data_batch_{i}" for i in range(1, 6)),
    ("test_batch",),
    "batches.meta",
    "label_names",
    "labels",
    tasks=5,
)


def load_cifar(layout: CifarLayout, root: Path) -> Dataset:
    """Load CIFAR-10 or CIFAR-100.

    Args:
        layout: `CIFAR10` or `CIFAR100`.
        root: the folder that holds the unpacked data set or its archive.

    Raises:
        UserError: the files are missing or damaged.

    Example:
        >>> load_cifar(CIFAR100, Path("data")).train.inputs.shape  # doctest: +SKIP
        torch.Size([50000, 3, 32, 32])
    """
    folder = find_dataset(layout.name, root)
    return Dataset(
        name=layout.name,
        train=_read_samples(folder, layout.train, layout.labels_key),
        test=_read_samples(folder, layout.test, layout.labels_key),
        classes=_read_names(folder / layout.meta, layout.names_key),
        transform=TRANSFORM,
        backbone="resnet18",
        recipe="own",
        memory="2000",
        tasks=layout.tasks,
    )


def _read_names(path: Path, key: str) -> tuple[str, ...]:
    names = read_cifar_file(path).get(key)
    try:
        if not isinstance(names, list):
            raise ValueError("not a list")
        return tuple(_as_text(name) for name in names)
    except ValueError as error:
        raise UserError(f"{path} does not contain the class names ({key}): {error}") from None


def _as_text(name: Any) -> str:
    if not isinstance(name, str | bytes):
        raise ValueError("a name is not text")
    return name.decode() if isinstance(name, bytes) else name


def _read_samples(folder: Path, files: tuple[str, ...], labels_key: str) -> Samples:
    parts = [read_cifar_file(folder / file) for file in files]
    try:
        pixels = np.concatenate([_as_array(part["data"]) for part in parts]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([_as_array(part[labels_key]) for part in parts])
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder / files[0]} does not contain 32x32 colour images with labels: {error}") from None
    if labels.shape != pixels.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        raise UserError(f"{folder / files[0]} contains {len(pixels)} images but {len(labels)} integer labels")
    return Samples(torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(labels))


def _as_array(values: Any) -> np.ndarray:
    """An array, or a list of numbers as one. Nested lists are refused: shared ones may be vast when written out."""
    if isinstance(values, list) and all(isinstance(value, int | float) for value in values):
        values = np.array(values)
    if not isinstance(values, np.ndarray):
        raise ValueError("neither an array nor a list of numbers")
    return values


def read_cifar_file(path: Path) -> dict[str, Any]:
    """Read the mapping in one of CIFAR's pickle files.

    Args:
        path: the file.

    Returns:
        The mapping, with `str` keys.

    Raises:
        UserError: the file is missing, damaged, or contains anything but plain arrays, lists, numbers and strings.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "meta"
        >>> _ = path.write_bytes(pickle.dumps({b"label_names": ["cat", "dog"]}))
        >>> read_cifar_file(path)
        {'label_names': ['cat', 'dog']}
    """
    try:
        with path.open("rb") as file:
            for check in (check_nesting, partial(_check_memo, size=path.stat().st_size)):
                check(file)
                file.seek(0)
            content = RestrictedUnpickler(file, encoding="bytes").load()
    except FileNotFoundError:
        raise UserError(f"{path} is missing: delete the folder and unpack the archive again") from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise UserError(f"{path} was not loaded: damaged or not a CIFAR file ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} was not loaded: not a CIFAR file")
    names = {key.decode("latin1") if isinstance(key, bytes) else str(key): key for key in content}
    values = {name: content[key] for name, key in names.items()}
    return {name: value.array if isinstance(value, _Array) else value for name, value in values.items()}


def _check_memo(file: IO[bytes], size: int) -> None:
    """Refuse a pickle that would take more than a multiple of its size in memory or time, before it is loaded.

    The unpickler allocates as many entries as the highest position at which the file stores an object; and a tuple of
    shared tuples takes as long to hash as if it were written out. Files of CIFAR share strings, types and the like.
    """
    shareable: dict[int, bool] = {}  # by position
    is_plain = False
    for opcode, argument, _ in pickletools.genops(file):
        name, position = opcode.name, argument if isinstance(argument, int) else len(shareable)
        if name == "DUP" or (name.endswith("GET") and not shareable.get(position)):
            raise pickle.UnpicklingError("a shared list or tuple")
        if name.endswith("PUT") or name == "MEMOIZE":
            if position > size:
                raise pickle.UnpicklingError(f"object number {position}")
            shareable[position] = is_plain
        elif name not in ("PROTO", "FRAME"):
            is_plain = any(kind in name for kind in ("STRING", "UNICODE", "BYTES", "GLOBAL", "REDUCE"))


class _Dtype:
    """Replaces numpy's dtype while a file is read: plain numbers in the byte order of this machine only."""

    def __init__(self, name: str | bytes, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else str(name)

    def __setstate__(self, state: Any) -> None:
        if self.name not in DTYPES or state[1] not in ("<", "|", b"<", b"|") or any(state[2:5]):
            raise pickle.UnpicklingError(f"array of {self.name}")


class _Array:
    """Replaces numpy's array while a file is read; builds one from the dtype, shape and bytes it is given."""

    array: np.ndarray | None = None

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes) or is_fortran:
            raise pickle.UnpicklingError("array that is not of plain numbers")
        self.array = np.frombuffer(content, DTYPES[dtype.name]).reshape(shape)


def _encode_latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding}")
    return text.encode("latin1")


_REPLACEMENTS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode_latin1,
}


class RestrictedUnpickler(pickle.Unpickler):
    """Unpickler for plain arrays, lists, dicts, numbers and strings; everything else is refused.

    Nothing in numpy is called with arguments from the file: replacements receive them, check them and build the arrays.

    Example:
        >>> import io
        >>> RestrictedUnpickler(io.BytesIO(pickle.dumps(print))).load()
        Traceback (most recent call last):
        _pickle.UnpicklingError: builtins.print is not allowed
    """

    def find_class(self, module: str, name: str) -> Any:
        """Look up a name used in the file; only what CIFAR's files need is allowed.

        Args:
            module: the module that the file names.
            name: the class or function in it.
        """
        if (module, name) not in _REPLACEMENTS:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return _REPLACEMENTS[module, name]
