from __future__ import annotations

import dataclasses

from tests.cli.models import FIRST, SECOND, make_bundle, rows_of
from tests.model.feature_models import grow
from upcl.cli.model import describe_model, history_table
from upcl.model.bundle import HistoryEntry
from upcl.model.calibration import UNCALIBRATED, Calibration

REMOVED = HistoryEntry(
    "2026-01-03T10:00:00", by_class={"cat": 90.0}, accuracy={"head": 90.0}, note="a class was removed"
)


def test_history_lists_every_step() -> None:
    assert rows_of(history_table(make_bundle(FIRST, REMOVED))) == [
        ["0", "2026-01-01", "new: cat, dog", "40", "75 %", "75 %", "12 s", "no"],
        ["1", "2026-01-03", "a class was removed", "0", "90 %", "90 %", "0 s", "yes"],
    ]
    (_, second, *_) = rows_of(history_table(make_bundle(FIRST, SECOND)))
    assert second[2] == "new: [owl]; more of: dog"


def test_history_names_some_of_many_classes() -> None:
    names = tuple(f"class {k}" for k in range(5000))
    (cell,) = history_table(make_bundle(dataclasses.replace(FIRST, added=names))).columns[2].cells
    assert str(cell).startswith("new: class 0, class 1, ") and str(cell).endswith(", class 99 and 4900 more")


def test_a_model_is_described_in_words() -> None:
    bundle = make_bundle(FIRST)
    about = describe_model(bundle)
    assert about["method"].startswith("UPCL")
    assert about["network"] == "small, 0 parameters"
    assert about["images"] == "8 x 8, grey; mean 0.5, std 0.25"
    assert about["memory"] == "20/class: 0 exemplars, 0 held-out images"
    assert about["predicts by"] == "the classifier head"
    assert about["none of these"] == "disabled: no image is held out"
    assert about["written by"].startswith("upcl 0.1.0; format ")


def test_changed_options_and_pretrained_weights_are_described() -> None:
    calibration = Calibration(
        **{**vars(UNCALIBRATED), "num_images": 30, "threshold": 0.925, "false_alarm_rate": 2 / 30}
    )
    bundle = make_bundle(FIRST, reading="nme", calibration=calibration)
    spec = dataclasses.replace(bundle.spec, options={"tau": 0.2}, channels=3, pretrained="r18.pth", frozen=True)
    about = describe_model(dataclasses.replace(bundle, spec=spec))
    assert about["method"] == "UPCL, tau=0.2"
    assert about["network"] == "small, 0 parameters, pretrained: r18.pth, backbone frozen"
    assert about["images"].startswith("8 x 8, colour")
    assert about["predicts by"] == "the nearest mean of exemplars"
    assert about["none of these"] == "familiarity below 0.925; false alarms on held-out images: 6.7% of 30"


def test_without_held_out_images_the_calibration_error_is_unknown() -> None:
    assert describe_model(make_bundle(FIRST))["confidence"].endswith(
        "expected calibration error unknown: no image is held out"
    )
    calibration = Calibration(**{**vars(UNCALIBRATED), "num_images": 30, "calibration_error": 0.05})
    assert describe_model(make_bundle(FIRST, calibration=calibration))["confidence"].endswith("error 5.0%")


def test_sums_and_familiarity_are_no_parameters() -> None:
    bundle = grow(None, {"ant": range(4), "bull": range(4)})
    weights = bundle.state.weights
    layers = sum(value.numel() for name, value in weights.items() if name.startswith("backbone."))
    assert describe_model(bundle)["network"].startswith(f"small, {layers + 2 * 128 + 2:,} parameters")
