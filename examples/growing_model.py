"""A model that grows: digits arrive as folders of images in three lots, and one file learns them all.

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


def main(root: Path) -> float:
    photos = write_photos(root)
    learner = upcl.Learner(root / "digits.upcl")
    for lot in LOTS:
        learner.learn(root / lot, Asked(epochs=EPOCHS, backbone="small"))
        step = learner.whole().history[-1]
        old = [value for name, value in step.by_class.items() if name in LOTS["first"] and value is not None]
        right = max(value for value in step.accuracy.values() if value is not None)
        print(
            f"{lot}: {len(learner.classes)} digits known, {right:.0f} % right; of the first four {sum(old) / 4:.0f} %"
        )
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
