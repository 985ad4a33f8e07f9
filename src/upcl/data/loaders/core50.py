"""CORe50 (Lomonaco and Maltoni, 2017): videos of 50 objects in the hand, in 11 sessions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upcl.core.errors import UserError, unknown_choice
from upcl.core.options import format_options, option
from upcl.data.dataset import Dataset
from upcl.data.defaults import CROP_SCALE
from upcl.data.io.layouts import Layout
from upcl.data.subset import SubsetOptions

from .listed import LabelledPaths, class_images, count_notes, photo_dataset

LAYOUT = Layout("core50", "CORe50", ("core50_128x128", "core50/core50_128x128"), ("s1", "s11"))
NUM_IMAGES = 164_866
SIZE = 128
SESSIONS, TEST_SESSIONS = range(1, 12), (3, 7, 10)
OBJECTS_PER_CATEGORY = 5
CATEGORIES: tuple[str, ...] = (
    "plug adapter",
    "mobile phone",
    "scissors",
    "light bulb",
    "can",
    "glass",
    "ball",
    "marker",
    "cup",
    "remote control",
)
TASKS = {"object": (10, *[5] * 8), "category": 5}  # the former: the benchmark's scenario of new classes (NC)


@dataclass(frozen=True, kw_only=True)
class Core50Options(SubsetOptions):
    """What the classes are, and how many images of each to use.

    Args:
        train: number of training images per class, the first ones in the order of the files; 0 for all.
        test: number of test images per class; 0 for all.
        num_classes: number of classes, the first ones; 0 for all.
        held_out: share of the training images of each class that take the place of the test images.
        label: "object" (50 classes) or "category" (10 classes of five objects each).

    Example:
        >>> Core50Options(label="categories")
        Traceback (most recent call last):
        upcl.core.errors.UserError: unknown label of core50 'categories': did you mean category?
    """

    label: str = option("object", "what a class is: 'object' (50 classes) or 'category' (10 classes of five objects)")

    def __post_init__(self) -> None:
        if self.label not in TASKS:
            raise unknown_choice("label of core50", self.label, TASKS)


def load_core50(root: Path, options: Core50Options) -> Dataset:
    """Load the images of 128 x 128 pixels. Sessions 3, 7 and 10 are for testing, as in the benchmark.

    Args:
        root: the folder that holds `core50_128x128/` or `core50_128x128.zip`.
        options: what a class is, and the number of images per class.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_core50(Path("data"), Core50Options()).classes[:2]  # doctest: +SKIP
        ('plug adapter 1', 'plug adapter 2')
    """
    folder = LAYOUT.find(root)
    objects = [f"o{k}" for k in range(1, len(CATEGORIES) * OBJECTS_PER_CATEGORY + 1)]
    train: LabelledPaths = []
    test: LabelledPaths = []
    for session in SESSIONS:
        if not (folder / f"s{session}").is_dir():
            raise UserError(f"{folder} has no folder s{session}: the copy is incomplete, unpack the archive again")
        (test if session in TEST_SESSIONS else train).extend(class_images(folder / f"s{session}", objects))
    notes = count_notes("core50", len(train) + len(test), NUM_IMAGES)
    if options.label == "category":
        train, test = ([(path, k // OBJECTS_PER_CATEGORY) for path, k in files] for files in (train, test))
        classes = CATEGORIES
    else:
        classes = tuple(f"{name} {k}" for name in CATEGORIES for k in range(1, OBJECTS_PER_CATEGORY + 1))
    name = f"core50{format_options(Core50Options(label=options.label)).replace(',', ':', 1)}"
    crops = {"crop_fraction": 1.0, "scale": CROP_SCALE}  # the objects fill the images
    tasks = TASKS[options.label]
    dataset = photo_dataset(name, folder, train, test, classes, size=SIZE, crops=crops, tasks=tasks, notes=notes)
    return options.of_any_data().apply(dataset)
