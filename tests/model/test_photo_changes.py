"""Photos that come, go, or change their class, in one step."""

from __future__ import annotations

import pytest
import torch

from tests.model.feature_models import CPU, NAMES, Lot, assert_same_model, digest, feature, grow, spec
from upcl.core.errors import UserError
from upcl.model.photo_changes import PhotoChange, change_photos, settle
from upcl.model.quick_steps import find_known
from upcl.model.spec import copy_weights

ALL: Lot = {name: range(12) for name in NAMES}
TESTED: Lot = {name: range(100, 104) for name in NAMES}


def test_any_changes_give_the_model_that_would_have_learned_the_result_at_once() -> None:
    expected = grow(None, ALL, TESTED)
    bundle = grow(None, {"ant": range(12), "bull": [*range(1, 12)], "cat": range(12)}, {"ant": range(100, 104)})
    bundle = change_photos(
        bundle, [PhotoChange(digest("ant", 0), "bull"), PhotoChange(digest("ant", 1), None)], "", CPU
    ).bundle
    changes = [PhotoChange(digest("ant", 0), "ant"), PhotoChange(digest("ant", 1), "ant", feature("ant", 1))]
    changes += [PhotoChange(digest(n, p), n, feature(n, p)) for n in ("dog", "eel") for p in range(12)]
    changes += [PhotoChange(digest("bull", 0), "bull", feature("bull", 0))]
    changes += [PhotoChange(digest(n, p), n, feature(n, p), held_out=True) for n in NAMES[1:] for p in range(100, 104)]
    changed = change_photos(bundle, changes, "all of it", CPU).bundle
    assert changed.history[-1].added == ("dog", "eel") and changed.history[-1].note == "all of it"
    assert_same_model(changed, expected)


def test_a_class_without_photos_disappears_and_one_with_held_out_photos_learns_from_them() -> None:
    bundle = grow(None, {"ant": [1, 2], "bull": [1, 2], "cat": [1, 2]}, {"bull": [100]})
    gone = [PhotoChange(digest(name, photo), None) for name in ("bull", "cat") for photo in (1, 2)]
    state = change_photos(bundle, gone, "", CPU).bundle.state
    assert state.classes == ("ant", "bull", None)
    assert state.trained["bull"] == (digest("bull", 100),) and len(state.held_out) == 0
    everything = [PhotoChange(d, None) for digests in bundle.state.trained.values() for d in digests]
    with pytest.raises(UserError, match="no photo would be left"):
        change_photos(bundle, [*everything, PhotoChange(digest("bull", 100), None)], "", CPU)
    with pytest.raises(UserError, match="has not learned this photo"):
        change_photos(bundle, [PhotoChange("0" * 16, "ant")], "", CPU)


@pytest.mark.parametrize("method", ["ncm", "slda", "ridge", "ranpac"])
def test_a_quick_step_is_the_whole_one_but_for_what_settling_chooses(method: str) -> None:
    bundle = grow(None, ALL, TESTED, spec(method))
    change = [PhotoChange(digest("ant", 200), "ant", feature("ant", 200))]
    whole = change_photos(bundle, change, "more", CPU).bundle
    quick, fitted = change_photos(bundle, change, "more", CPU, find_known(bundle, CPU))
    torch.testing.assert_close(copy_weights(fitted)["head.weight"], quick.state.weights["head.weight"])
    assert quick.state.calibration == bundle.state.calibration and quick.state.trained == whole.state.trained
    torch.testing.assert_close(quick.state.weights["head.weight"], whole.state.weights["head.weight"])
    settled = settle(quick, CPU).bundle
    assert len(settled.history) == len(quick.history) and settled.history[-1].note == "more"
    assert_same_model(settled, whole)
