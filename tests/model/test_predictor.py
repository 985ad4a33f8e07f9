from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.model.known_method import SPEC, known_method, known_state, samples
from tests.model.model_files import rewrite_weights
from tests.model.photos import noise
from upcl.core.errors import TrainingError
from upcl.core.types import Samples
from upcl.data.io.decoding import decode_images
from upcl.model.calibration import Calibration
from upcl.model.learner import Learner
from upcl.model.predictor import BATCH_SIZE, NONE_OF_THESE, Predictor
from upcl.model.sources import ImageSource

NOTHING = samples([], [])
IMAGES = samples([(3, 4, 0), (0, 0, 7), (1, 1, 1)], [0, 0, 0]).inputs


def calibrated(threshold: float) -> Calibration:
    return Calibration(temperature=1.0, threshold=threshold, false_alarm_rate=0.0, num_images=1)


@pytest.fixture(scope="module")
def predictor(model_file: Path) -> Predictor:
    return Learner(model_file).predictor


def test_weights_that_are_too_large_to_compute_with_are_an_error(model_file: Path, tmp_path: Path) -> None:
    def large(name: str, value: torch.Tensor) -> torch.Tensor:
        stem = name.startswith("backbone.stem") and value.is_floating_point()
        return torch.full_like(value, 3e38) if stem else value

    path = rewrite_weights(model_file, tmp_path / "m.upcl", large)
    with pytest.raises(TrainingError, match="scores of the model are not finite"):
        Learner(path).predictor.predict(noise(2))


def test_images_below_the_threshold_are_none_of_these() -> None:
    state = known_state(NOTHING, reading="nme", calibration=calibrated(0.7))
    predictions = Predictor(known_method(), SPEC, state).predict(IMAGES)
    assert predictions.known.tolist() == [True, True, False], "the largest cosines are 0.8, 1 and 0.58"
    assert [prediction.name for prediction in predictions.top(2)] == ["dog", "owl", NONE_OF_THESE]
    exact = known_state(NOTHING, reading="nme", calibration=calibrated(float(predictions.familiarity[0])))
    assert Predictor(known_method(), SPEC, exact).predict(IMAGES).known.tolist() == [True, True, False]


def test_top_lists_the_most_likely_classes_and_skips_removed_ones() -> None:
    state = known_state(NOTHING, classes=("cat", None, "owl"), reading="head", calibration=calibrated(-1.0))
    predictions = Predictor(known_method(), SPEC, state).predict(IMAGES)
    first, second, _ = predictions.top(5)
    assert first.names == ("cat", "owl") and second.names == ("owl", "cat")
    assert first.confidence == pytest.approx((1 / (1 + np.exp(-3)), 1 / (1 + np.exp(3))))
    assert [len(prediction.names) for prediction in predictions.top(1)] == [1, 1, 1] and len(predictions) == 3


def test_images_of_another_shape_are_refused(predictor: Predictor) -> None:
    for shape in ((2, 1, 8, 8), (2, 3, 9, 9)):
        with pytest.raises(ValueError, match=r"expected images of shape \(3, 8, 8\)"):
            predictor.predict(torch.zeros(shape, dtype=torch.uint8))


def test_most_noise_is_none_of_these_and_most_photos_are_not(predictor: Predictor, photos: Path) -> None:
    paths = sorted((photos / "first").rglob("*.png"))
    known = predictor.predict(decode_images(paths, 8, 3, "photos")).known.double().mean()
    assert known > 0.8
    assert predictor.predict(noise(64)).known.double().mean() < known


def test_files_are_predicted_in_order_and_errors_do_not_stop_the_others(predictor: Predictor, photos: Path) -> None:
    paths = sorted(photos.rglob("*.png"))
    assert len(paths) > BATCH_SIZE
    sources: list[ImageSource] = [*paths[:70], b"words", *paths[70:], Path("missing.png")]
    results = list(predictor.predict_files(sources, top=3, num_workers=2))
    assert [result.source for result in results] == sources
    failed = [result for result in results if result.prediction is None]
    assert [result.source for result in failed] == [b"words", Path("missing.png")]
    assert all(result.error and result.features is None for result in failed)
    expected = predictor.predict(decode_images(paths, 8, 3, "photos")).top(3)
    found = [result.prediction for result in results if result.prediction]
    assert [prediction.names for prediction in found] == [prediction.names for prediction in expected]
    for prediction, other in zip(found, expected, strict=True):
        assert prediction.confidence == pytest.approx(other.confidence, abs=1e-5)


def test_predictions_are_made_while_sources_arrive(predictor: Predictor, photos: Path) -> None:
    taken = 0

    def endless() -> object:
        nonlocal taken
        while True:
            taken += 1
            yield photos / "first" / "kind 0" / "0.png"

    results = predictor.predict_files(endless())  # type: ignore[arg-type]
    assert next(results).prediction and taken == BATCH_SIZE


def test_large_images_are_refused(predictor: Predictor) -> None:
    (result,) = predictor.predict_files([np.zeros((20, 20, 3), np.uint8)], max_pixels=399)
    assert result.prediction is None and "399" in result.error


def test_nearest_exemplars_are_found_by_cosine(predictor: Predictor) -> None:
    exemplars = predictor.state.exemplars
    features = predictor.predict(exemplars.inputs[5:6]).features[0]
    nearest = predictor.nearest_exemplars(features, 3)
    assert nearest[0][0] == 5 and nearest[0][1] == pytest.approx(1.0, abs=1e-5)
    cosines = F.normalize(predictor.exemplar_features) @ features
    assert [index for index, _ in nearest] == cosines.argsort(descending=True)[:3].tolist()
    assert len(predictor.nearest_exemplars(features, 1000)) == len(exemplars)


def test_threads_run_one_forward_pass_at_a_time() -> None:
    method, inside, most = known_method(), threading.Semaphore(1), []
    extract = method.extract

    def slow(images: Samples) -> torch.Tensor:
        most.append(inside.acquire(blocking=False))
        features = extract(images)
        inside.release()
        return features

    predictor = Predictor(method, SPEC, known_state(NOTHING))
    method.extract = slow  # type: ignore[assignment, method-assign]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: predictor.predict(IMAGES), range(50)))
    assert len(most) == 50 and all(most)


def test_the_content_of_a_broken_image_is_not_kept(predictor: Predictor) -> None:
    content = b"not an image, but possibly large"
    gc.disable()  # what it would find later may fill the memory until then
    try:
        before = sys.getrefcount(content)
        assert [result.prediction for result in predictor.predict_files([content])] == [None]
        assert sys.getrefcount(content) == before
    finally:
        gc.enable()
