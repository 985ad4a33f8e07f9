from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import estimator_checks

from upcl import GrowingClassifier, Learner, UserError
from upcl.model.bundle import Arrays
from upcl.model.estimator import _split
from upcl.training.pretrained import default_pretrained

CHECKS = [  # all but those that require accuracy on noise in a few columns
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimators_unfitted",
    "check_fit_score_takes_y",
    "check_estimators_dtypes",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_classifiers_regression_target",
    "check_estimators_nan_inf",
    "check_fit2d_1feature",
    "check_dict_unchanged",
    "check_dtype_object",
    "check_classifiers_classes",
    "check_estimators_pickle",
]
X, Y = load_digits(return_X_y=True)


def digits(*labels: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.isin(Y, labels)
    return X[chosen], Y[chosen]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn_pass(name: str) -> None:
    estimator = GrowingClassifier(epochs=1, memory="2/class")
    getattr(estimator_checks, name)("GrowingClassifier", estimator)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> GrowingClassifier:
    """Learned digits 0 to 2, then 3 to 5."""
    path = tmp_path_factory.mktemp("digits") / "digits.upcl"
    model = GrowingClassifier(str(path), epochs=8, memory="10/class")
    for labels in ((0, 1, 2), (3, 4, 5)):
        images, targets = digits(*labels)
        model.partial_fit(images[:240], targets[:240])
        assert set(labels) <= set(model.classes_.tolist())
    return model


def test_digits_grow_from_arrays(grown: GrowingClassifier) -> None:
    images, labels = digits(0, 1, 2, 3, 4, 5)
    assert grown.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert grown.score(images[-200:], labels[-200:]) > 0.7
    probabilities = grown.predict_proba(images[-200:])
    assert probabilities.shape == (200, 6) and np.allclose(probabilities.sum(1), 1)
    predicted = grown.predict(images[-200:])
    assert predicted.dtype == Y.dtype and (predicted == grown.classes_[probabilities.argmax(1)]).all()
    assert Learner(str(grown.path)).classes == ["0", "1", "2", "3", "4", "5"]


def test_another_process_continues_with_the_file(grown: GrowingClassifier, tmp_path: Path) -> None:
    path = tmp_path / "copy.upcl"
    path.write_bytes(Path(str(grown.path)).read_bytes())
    later = GrowingClassifier(str(path), epochs=2, memory="10/class")
    images, labels = digits(6, 7)
    later.partial_fit(images[:100], labels[:100])
    assert later.classes_.tolist() == [0, 1, 2, 3, 4, 5, 6, 7] and later.classes_.dtype == Y.dtype


def test_fit_starts_from_scratch(grown: GrowingClassifier, tmp_path: Path) -> None:
    path = tmp_path / "copy.upcl"
    path.write_bytes(Path(str(grown.path)).read_bytes())
    images, labels = digits(8, 9)
    again = GrowingClassifier(str(path), epochs=1).fit(images[:60], labels[:60])
    assert (
        again.classes_.tolist()
        == [8, 9]
        == GrowingClassifier(str(path)).fit(images[:60], labels[:60]).classes_.tolist()
    )
    assert len(again.learner_.require_bundle().history) == 1


def test_labels_of_another_type_are_refused(tmp_path: Path) -> None:
    birds = GrowingClassifier(str(tmp_path / "birds.upcl"), epochs=1)
    birds.fit(X[:40], np.where(Y[:40] > 4, "robin", "wren"))
    assert birds.classes_.tolist() == ["robin", "wren"]
    with pytest.raises(ValueError, match=r"the labels in y have another type than the classes .* \(robin, wren\)"):
        birds.partial_fit(X[:40], Y[:40])


def test_classes_are_sorted_as_numbers_and_a_stored_model_needs_no_fit(tmp_path: Path) -> None:
    images, labels = digits(0, 1, 2)
    labels = labels * 5  # 0, 5, 10: sorted as numbers, not as words
    model = GrowingClassifier(str(tmp_path / "m.upcl"), epochs=2).fit(images[:150], labels[:150])
    assert model.classes_.tolist() == [0, 5, 10]
    probabilities = model.predict_proba(images[150:])
    assert np.mean(model.classes_[probabilities.argmax(1)] == labels[150:]) > 0.8
    stored = GrowingClassifier(str(tmp_path / "m.upcl"))
    assert np.allclose(stored.predict_proba(images[150:]), probabilities)
    assert np.allclose(stored.predict_proba(images[150:].astype(np.uint8)), probabilities), "whatever the number type"
    assert not np.allclose(stored.predict_proba(images[150:] / 2), probabilities), "the range is that of the first call"


def test_the_same_images_again_change_nothing(tmp_path: Path) -> None:
    images, labels = digits(0, 1)
    model = GrowingClassifier(str(tmp_path / "m.upcl"), epochs=1).fit(images[:40], labels[:40])
    before = (tmp_path / "m.upcl").read_bytes()
    model.partial_fit(images[:40], labels[:40])
    assert (tmp_path / "m.upcl").read_bytes() == before and model.classes_.tolist() == [0, 1]


def test_methods_without_exemplars_refuse_more_images_of_known_classes() -> None:
    images, labels = digits(0, 1)
    model = GrowingClassifier(method="finetune", epochs=1).fit(images[:40], labels[:40])
    with pytest.raises(UserError, match="keeps no exemplars"):
        model.partial_fit(images[40:80], labels[40:80])


def test_a_fifth_is_held_out_and_equal_images_stay_together() -> None:
    images = np.repeat(np.arange(20, dtype=np.uint8), 2)[:, None, None].repeat(4, 1).repeat(4, 2)
    offered = _split(images, np.repeat([0, 1], 20), Arrays(0, 255, "i"))
    held_out = set(offered.held_out[:, 0, 0, 0].tolist())
    assert offered.held_out_names == ["0"] * 4 + ["1"] * 4
    assert held_out.isdisjoint(offered.train[:, 0, 0, 0].tolist()) and len(held_out) == 4
    few = _split(images[:4], np.array([0, 0, 1, 1]), Arrays(0, 255, "i"))
    assert len(few.held_out) == 0, "too few images of each class"


def test_a_pickled_classifier_predicts_the_same(grown: GrowingClassifier) -> None:
    again = pickle.loads(pickle.dumps(grown))
    assert np.allclose(again.predict_proba(X[:5]), grown.predict_proba(X[:5]))


@pytest.mark.parametrize("shape", [(10, 4, 6), (10, 4, 4, 4), (10, 4, 4, 3, 1)])
def test_images_that_are_not_square_or_have_other_channels_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square images"):
        GrowingClassifier(epochs=1).fit(np.zeros(shape, np.uint8), np.arange(10) % 2)


@pytest.mark.skipif(default_pretrained() is None, reason="pip install 'upcl[photos]'")
def test_a_pretrained_backbone_grows_in_closed_form(tmp_path: Path) -> None:
    digits = load_digits()
    few = np.concatenate([np.flatnonzero(digits.target == k)[:12] for k in range(4)])
    images, labels = digits.images[few], digits.target[few]
    path = str(tmp_path / "digits.upcl")
    classifier = GrowingClassifier(path, backbone="efficientnet-lite0")
    classifier.fit(images[labels < 2], labels[labels < 2]).partial_fit(images[labels >= 2], labels[labels >= 2])
    spec = classifier.learner_.require_bundle().spec
    assert spec.features and spec.automatic and spec.size == 224 and classifier.classes_.tolist() == [0, 1, 2, 3]
    assert np.mean(classifier.predict(images) == labels) > 0.8
    again = GrowingClassifier(path)
    assert np.allclose(again.predict_proba(images[:3]), classifier.predict_proba(images[:3]))
