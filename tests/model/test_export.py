from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from tests.full_disk import files_up_to
from tests.model.photos import QUICK
from upcl.data.io.images import fit_square
from upcl.model.export import export_onnx, export_torch, middle_square, to_grey
from upcl.model.learner import Learner
from upcl.model.predictor import Predictions
from upcl.model.sources import decode_image

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter


def predicted(learner: Learner, images: list[np.ndarray]) -> Predictions:
    spec = learner.require_bundle().spec
    return learner.predictor.predict(torch.stack([decode_image(image, spec) for image in images]))


def test_exports_give_the_predictions_of_the_model(model_file: Path, photos: Path, tmp_path: Path) -> None:
    import onnx
    import onnxruntime

    learner = Learner(model_file)
    export_onnx(learner, tmp_path / "m.onnx")
    export_torch(learner, tmp_path / "m.pt2")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    extra = {"upcl.json": ""}
    program = torch.export.load(str(tmp_path / "m.pt2"), extra_files=extra).module()
    learned = [np.asarray(Image.open(path)) for path in sorted((photos / "first" / "kind 0").iterdir())[:7]]
    photo = load_sample_images().images[0]  # 427 x 640
    for images in (learned, learned[:1], [photo, photo[::-1]], [photo[:, :300]], [photo[50:53, 90:94]]):
        expected = predicted(learner, images)
        confidence, familiarity = session.run(None, {"images": np.stack(images)})
        by_torch = program(torch.from_numpy(np.stack(images)))
        assert np.allclose(confidence, expected.confidence, atol=1e-4)
        assert np.allclose(by_torch[0], expected.confidence, atol=1e-4)
        assert np.allclose(familiarity, expected.familiarity, atol=1e-4)
        assert np.allclose(by_torch[1], expected.familiarity, atol=1e-4)
        assert (confidence.argmax(1) == expected.confidence.argmax(1).numpy()).all()
    in_onnx = {prop.key: prop.value for prop in onnx.load(tmp_path / "m.onnx").metadata_props}
    for metadata in (in_onnx, json.loads(extra["upcl.json"])):
        assert json.loads(metadata["classes"]) == learner.classes and "any height and width" in metadata["input"]
        assert float(metadata["threshold"]) == learner.require_bundle().state.calibration.threshold


def test_two_exports_at_a_time(model_file: Path, tmp_path: Path) -> None:
    learners, paths = [Learner(model_file), Learner(model_file)], [tmp_path / "a.pt2", tmp_path / "b.pt2"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(export_torch, learners, paths))
    images = torch.zeros(2, 8, 8, 3, dtype=torch.uint8)
    first, second = (torch.export.load(str(path)).module()(images)[0] for path in paths)
    assert torch.equal(first, second)


def test_removed_classes_have_no_column(own_copy: Path, tmp_path: Path) -> None:
    learner = Learner(own_copy).forget("kind 1")
    export_torch(learner, tmp_path / "m.pt2")
    extra = {"upcl.json": ""}
    program = torch.export.load(str(tmp_path / "m.pt2"), extra_files=extra).module()
    photo = load_sample_images().images[0]
    confidence, _ = program(torch.from_numpy(photo[None]))
    expected = predicted(learner, [photo]).confidence[:, [0, 2, 3, 4, 5]]
    assert json.loads(json.loads(extra["upcl.json"])["classes"]) == [f"kind {k}" for k in (0, 2, 3, 4, 5)]
    assert confidence.dtype == torch.float32 and torch.allclose(confidence.double(), expected, atol=1e-4)


def test_exports_read_the_head_as_the_method_does(photos: Path, tmp_path: Path) -> None:
    options = dataclasses.replace(QUICK, method="fetril", options={"classifier": "svm"})  # normalises its features
    learner = Learner(tmp_path / "m.upcl").learn(photos / "first", options)
    assert learner.require_bundle().state.reading == "head"
    export_torch(learner, tmp_path / "m.pt2")
    photo = load_sample_images().images[0]
    confidence, _ = torch.export.load(str(tmp_path / "m.pt2")).module()(torch.from_numpy(photo[None]))
    assert torch.allclose(confidence.double(), predicted(learner, [photo]).confidence, atol=1e-4)


@pytest.mark.parametrize("size", [8, 64, 224])
@pytest.mark.parametrize(
    "shape", [(427, 640), (427, 301), (426, 640), (224, 224), (64, 48), (20, 31), (2, 3), (1, 1), (7, 640), (427, 99)]
)
def test_resizing_in_the_graph_equals_pillow(shape: tuple[int, int], size: int) -> None:
    photo = load_sample_images().images[1][: shape[0], : shape[1]]
    expected = torch.from_numpy(np.array(fit_square(Image.fromarray(photo), size))).permute(2, 0, 1)[None]
    found = middle_square(torch.from_numpy(photo.copy()).permute(2, 0, 1)[None], size)
    assert torch.equal(found, expected.float())
    in_grey = np.array(Image.fromarray(expected[0].permute(1, 2, 0).numpy()).convert("L"))
    assert torch.equal(to_grey(found)[0, 0], torch.from_numpy(in_grey).float())


def test_a_full_disk_is_an_error_that_names_the_file(model_file: Path, tmp_path: Path) -> None:
    """PyTorch's own writer of files would end the process."""
    learner = Learner(model_file)
    with pytest.raises(OSError, match="File too large") as caught, files_up_to(100_000):
        export_torch(learner, tmp_path / "m.pt2")
    assert caught.value.filename == str(tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []
