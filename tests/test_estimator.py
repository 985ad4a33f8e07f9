"""In the manner of scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import estimator_checks

from upcl import GrowingClassifier, Learner

CHECKS = [  # those that ask nothing of how well noise in a few columns is told apart
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
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_estimator_checks_that_make_sense(name: str) -> None:
    estimator = GrowingClassifier(epochs=1, memory="2/class")
    getattr(estimator_checks, name)("GrowingClassifier", estimator)


def test_digits_grow_from_arrays(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)  # noqa: N806
    first = y < 3
    model = GrowingClassifier(str(tmp_path / "digits.upcl"), epochs=8, memory="10/class")
    model.partial_fit(X[first][:240], y[first][:240])
    assert model.classes_.tolist() == [0, 1, 2]
    more = (y >= 3) & (y < 6)
    model.partial_fit(X[more][:240], y[more][:240])
    seen = y < 6
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert model.score(X[seen][-200:], y[seen][-200:]) > 0.7
    sure = model.predict_proba(X[seen][-200:])
    assert sure.shape == (200, 6) and np.allclose(sure.sum(1), 1)
    assert model.predict(X[seen][-5:]).dtype == y.dtype
    assert Learner(tmp_path / "digits.upcl").classes == ["0", "1", "2", "3", "4", "5"]
    later = GrowingClassifier(str(tmp_path / "digits.upcl"), epochs=2, memory="10/class")
    last = (y >= 6) & (y < 8)
    later.partial_fit(X[last][:100], y[last][:100])
    assert later.classes_.tolist() == [0, 1, 2, 3, 4, 5, 6, 7] and later.classes_.dtype == y.dtype
    with pytest.raises(ValueError, match="no labels of the kind of y"):
        GrowingClassifier(str(tmp_path / "birds.upcl")).fit(X[:40], np.where(y[:40] > 4, "robin", "wren")).partial_fit(
            X[:40], y[:40]
        )
    again = GrowingClassifier(epochs=8, memory="10/class").fit(X[first][:240], y[first][:240])
    assert again.classes_.tolist() == [0, 1, 2]


def test_a_stored_model_reads_arrays_as_it_did(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)  # noqa: N806
    some = y < 3
    labels = y[some] * 5  # 0, 5, 10: in the order of numbers, not of words
    model = GrowingClassifier(str(tmp_path / "m.upcl"), epochs=2).fit(X[some][:150], labels[:150])
    assert model.classes_.tolist() == [0, 5, 10]
    sure = model.predict_proba(X[some][150:])
    assert np.mean(model.classes_[sure.argmax(1)] == labels[150:]) > 0.8
    stored = GrowingClassifier(str(tmp_path / "m.upcl"))
    assert np.allclose(stored.predict_proba(X[some][150:] + 0.0), sure)
    assert np.allclose(stored.predict_proba(X[some][150:].astype(np.uint8)), sure), "whatever the type of the numbers"
    half = X[some][150:][:, :] / 2
    assert not np.allclose(stored.predict_proba(half), sure), "the range is the first call's"


@pytest.mark.parametrize("shape", [(10, 4, 6), (10, 4, 4, 4), (10, 4, 4, 3, 1)])
def test_images_that_are_not_square_or_have_other_channels_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square images"):
        GrowingClassifier(epochs=1).fit(np.zeros(shape, np.uint8), np.arange(10) % 2)
