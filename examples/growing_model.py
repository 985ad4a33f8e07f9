"""A growing model: digits arrive in three batches of folders, and one file learns them all.

Plain fine-tuning learns the same images in the same way, to show how much it forgets. The grown model then classifies
new images directly, as an ONNX file, and as a service (the latter two need the extras `export` and `serve`).

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
from upcl.cli.quiet import quiet_export
from upcl.model.export import export_onnx
from upcl.model.predictor import NONE_OF_THESE

BATCHES = {"first": "0123", "second": "456", "third": "789"}
EPOCHS = 10


def write_photos(root: Path) -> list[Path]:
    """Write the built-in digits as image files, BATCH/DIGIT/*.png, and 20 images that are not learned to new/."""
    digits = upcl.load_dataset("digits")
    for batch, names in BATCHES.items():
        for name in names:
            folder = root / batch / name
            folder.mkdir(parents=True)
            for number, image in enumerate(digits.train.inputs[digits.train.labels == int(name)][:60]):
                Image.fromarray(image[0].numpy()).save(folder / f"{number}.png")
    (root / "new").mkdir()
    for number in range(20):
        label = int(digits.test.labels[number])
        Image.fromarray(digits.test.inputs[number, 0].numpy()).save(root / "new" / f"{label}-{number}.png")
    return sorted((root / "new").iterdir())


def grow(path: Path, root: Path, method: str) -> upcl.Learner:
    """Learn batch after batch, and print the accuracy on held-out images."""
    learner = upcl.Learner(path)
    for batch in BATCHES:
        learner.learn(root / batch, method=method, epochs=EPOCHS, backbone="small", max_forgetting=None)
        entry = learner.require_bundle().history[-1]
        total, first = entry.mean_accuracy(entry.by_class), entry.mean_accuracy(BATCHES["first"])
        print(
            f"{method}, {batch} batch: {total:.0f} % on {len(learner.classes)} digits, {first:.0f} % on the first four"
        )
    return learner


def predict_with_onnx(path: Path, photos: list[Path]) -> list[str]:
    """Classify images with the exported file, without upcl: pixels in, confidence of each class out."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    pixels = np.stack([np.asarray(Image.open(photo).convert("RGB")) for photo in photos])
    confidence, _ = session.run(None, {"images": pixels})
    return [classes[k] for k in confidence.argmax(1)]


def predict_with_service(learner: upcl.Learner, photo: Path) -> str:
    """Classify an image over HTTP, as `upcl serve` and `curl -F images=@PHOTO` do."""
    import uvicorn

    from upcl.model.server.app import make_app

    server = uvicorn.Server(uvicorn.Config(make_app(learner), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    head = b'--boundary\r\nContent-Disposition: form-data; name="images"; filename="photo.png"\r\n\r\n'
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/predict",
        head + photo.read_bytes() + b"\r\n--boundary--\r\n",
        {"Content-Type": "multipart/form-data; boundary=boundary"},
    )
    with urllib.request.urlopen(request) as response:
        name: str = json.load(response)[0]["top"][0]["name"]
    server.should_exit = True
    thread.join()
    return name


def main(root: Path) -> float:
    photos = write_photos(root)
    grow(root / "finetune.upcl", root, "finetune")
    learner = grow(root / "digits.upcl", root, "upcl")
    predicted = learner.predict(photos)
    num_correct = sum(bool(name == photo.name[0]) for name, photo in zip(predicted, photos, strict=True))
    num_rejected = sum(bool(name == NONE_OF_THESE) for name in predicted)
    print(f'{num_correct} of {len(photos)} new images are classified correctly, {num_rejected} as "{NONE_OF_THESE}"')
    try:
        with quiet_export():
            export_onnx(learner, root / "digits.onnx")
        by_onnx = predict_with_onnx(root / "digits.onnx", photos[:5])
        by_service = predict_with_service(learner, photos[0])
        print(f"digits on five images: {' '.join(photo.name[0] for photo in photos[:5])}")
        print(f"predicted with ONNX:   {' '.join(by_onnx)}")
        print(f"by the service:        {by_service}")
    except (upcl.UserError, ImportError) as error:
        print(f"skipped: {error}")
    return num_correct / len(photos)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
        print(f"try: upcl info {Path(sys.argv[1]) / 'digits.upcl'}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
