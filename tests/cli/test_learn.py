from __future__ import annotations

import pytest

from tests.cli.models import FIRST, SECOND, make_bundle, rows_of
from upcl.cli.learn import accuracy_table, update_summary
from upcl.model.bundle import HistoryEntry
from upcl.model.calibration import UNCALIBRATED, Calibration


def test_first_update_lists_the_accuracy_of_new_classes() -> None:
    assert rows_of(accuracy_table(make_bundle(FIRST))) == [["cat", "100 %", "new"], ["dog", "50 %", "new"]]


def test_later_updates_compare_with_the_accuracy_before() -> None:
    assert rows_of(accuracy_table(make_bundle(FIRST, SECOND))) == [
        ["cat", "90 %", "100 %", ""],
        ["dog", "60 %", "50 %", "more images"],
        ["[owl]", "-", "-", "new"],
        ["mean of known classes", "75 %", "75 %", ""],
        ["mean of new classes", "-", "-", ""],
    ]


def test_summary_names_extra_images_notes_and_accuracy() -> None:
    calibration = Calibration(**{**vars(UNCALIBRATED), "num_images": 9})
    bundle = make_bundle(FIRST, SECOND, reading="head", calibration=calibration)
    assert list(update_summary(bundle)) == [
        "7 more images of dog, a class known before",
        "accuracy on 9 held-out images: 80.0 % (by the classifier head)",
    ]


@pytest.mark.parametrize("accuracy", [{}, {"head": None, "nme": None}])
def test_summary_claims_no_accuracy_without_held_out_images(accuracy: dict[str, float | None]) -> None:
    entry = HistoryEntry("2026-01-01", added=("cat",), accuracy=accuracy, by_class={"cat": None}, note="A remark.")
    assert list(update_summary(make_bundle(entry))) == [
        "A remark.",
        "Accuracy unknown: holding out an image needs at least two per class.",
    ]
