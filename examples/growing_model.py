"""A model that grows: digits arrive as folders of images in three lots, and one file learns them all.

Plain fine-tuning learns the same images in the same way, to see what it forgets. Then the grown model names new images,
as it is, as an ONNX file, and as a service (which need the extras `export` and `serve`).

python examples/growing_model.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

import upcl
from upcl.model.export import to_onnx
from upcl.model.predictor import NONE_OF_THESE

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
        learner.learn(root / lot, method=method, epochs=EPOCHS, backbone="small", max_forgetting=None)
        step = learner.require_bundle().history[-1]
        right, first = step.right_on(step.by_class), step.right_on(LOTS["first"])
        known = len(learner.classes)
        print(f"{method}, {lot} lot: {right:.0f} % right on {known} digits, {first:.0f} % on the first four")
    return learner


def named_by_onnx(path: Path, photos: list[Path]) -> list[str]:
    """What the exported file says, without upcl: pixels in, confidence of each class out."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    pixels = np.stack([np.asarray(Image.open(photo).convert("RGB")) for photo in photos])
    confidence, _ = session.run(None, {"images": pixels})
    return [classes[k] for k in confidence.argmax(1)]


def named_by_service(learner: upcl.Learner, photo: Path) -> str:
    """What `upcl serve` answers; curl -F images=@PHOTO asks the same."""
    import uvicorn

    from upcl.model.server.app import make_app

    server = uvicorn.Server(uvicorn.Config(make_app(learner), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    head = b'--cut\r\nContent-Disposition: form-data; name="images"; filename="photo.png"\r\n\r\n'
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/predict",
        head + photo.read_bytes() + b"\r\n--cut--\r\n",
        {"Content-Type": "multipart/form-data; boundary=cut"},
    )
    with urllib.request.urlopen(request) as answer:
        name: str = json.load(answer)[0]["top"][0]["name"]
    server.should_exit = True
    thread.join()
    return name


def main(root: Path) -> float:
    photos = write_photos(root)
    grow(root / "finetune.upcl", root, "finetune")
    learner = grow(root / "digits.upcl", root, "upcl")
    named = learner.predict(photos)
    hits = sum(bool(name == photo.name[0]) for name, photo in zip(named, photos, strict=True))
    refused = sum(bool(name == NONE_OF_THESE) for name in named)
    print(f"{hits} of {len(photos)} new images were named right, {refused} as {NONE_OF_THESE}")
    try:
        to_onnx(learner, root / "digits.onnx")
        exported, served = named_by_onnx(root / "digits.onnx", photos[:5]), named_by_service(learner, photos[0])
        print(f"five images show {' '.join(photo.name[0] for photo in photos[:5])}", end="; ")
        print(f"the ONNX file says {' '.join(exported)}, the service says {served} of the first")
    except (upcl.UserError, ImportError) as error:
        print(f"left out: {error}")
    return hits / len(photos)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
        print(f"try: upcl info {Path(sys.argv[1]) / 'digits.upcl'}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
