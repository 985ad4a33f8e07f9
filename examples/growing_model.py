"""A model that grows: digits arrive as folders of images in three lots, and one file learns them all.

Plain fine-tuning learns the same images in the same way, to see what it forgets.

python examples/growing_model.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

import upcl
from upcl.learner import Asked

LOTS = {"first": "0123", "second": "456", "third": "789"}
EPOCHS = 10


def write_photos(root: Path) -> list[Path]:
    """The built-in digits as image files: LOT/DIGIT/*.png, and some that are not learned from in look/."""
    digits = upcl.load_dataset("digits")
    for lot, names in LOTS.items():
        for name in names:
            folder = root / lot / name
            folder.mkdir(parents=True)
            for place, image in enumerate(digits.train.inputs[digits.train.labels == int(name)][:60]):
                Image.fromarray(image[0].numpy()).save(folder / f"{place}.png")
    (root / "look").mkdir()
    for label, image in zip(digits.test.labels[:20].tolist(), digits.test.inputs[:20], strict=True):
        Image.fromarray(image[0].numpy()).save(root / "look" / f"{label}-{len(list((root / 'look').iterdir()))}.png")
    return sorted((root / "look").iterdir())


def grow(path: Path, root: Path, method: str) -> upcl.Learner:
    """A model that learns lot after lot; held-out images tell how it does."""
    learner = upcl.Learner(path)
    for lot in LOTS:
        learner.learn(root / lot, Asked(method=method, epochs=EPOCHS, backbone="small", most_lost=None))
        step = learner.whole().history[-1]
        right, first = step.right_on(step.by_class), step.right_on(LOTS["first"])
        known = len(learner.classes)
        print(f"{method}, {lot} lot: {right:.0f} % right on {known} digits, {first:.0f} % on the first four")
    return learner


def main(root: Path) -> float:
    photos = write_photos(root)
    grow(root / "finetune.upcl", root, "finetune")
    learner = grow(root / "digits.upcl", root, "upcl")
    named = learner.predict(photos)
    hits = sum(bool(name == photo.name[0]) for name, photo in zip(named, photos, strict=True))
    print(f"{hits} of {len(photos)} new images were named right; try: upcl info {learner.path}")
    return hits / len(photos)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
