from __future__ import annotations

from pathlib import Path

from upcl.research.report.figures import group_stored_runs
from upcl.research.report.galleries import error_gallery, exemplar_gallery, find_illustrated_run
from upcl.research.report.load import StoredRun


def test_images_of_upcl_are_preferred(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    groups = group_stored_runs(stored_runs)
    assert find_illustrated_run(groups) is stored_runs[2]
    assert find_illustrated_run({"iCaRL": stored_runs[:2]}) is stored_runs[1]
    assert find_illustrated_run({"UPCL": [StoredRun(tmp_path, stored_runs[2].record)]}) is None


def test_exemplars_have_a_row_per_class(stored_runs: list[StoredRun]) -> None:
    gallery, num_classes = exemplar_gallery(stored_runs[2])
    assert [name for name, _ in gallery.rows] == stored_runs[2].record.classes and num_classes == 6
    assert [len(pictures) for _, pictures in gallery.rows] == [2] * 6, "12 exemplars of 6 classes"
    assert all(p.source.startswith("data:image/png;base64,") for _, pictures in gallery.rows for p in pictures)


def test_errors_name_the_class_and_the_prediction(stored_runs: list[StoredRun]) -> None:
    run = stored_runs[2]
    assert run.sketch is not None
    classes = run.record.classes
    pairs = zip(run.sketch["error_labels"].tolist(), run.sketch["error_taken"].tolist(), strict=True)
    expected = list(dict.fromkeys(f"{classes[label]} predicted as {classes[taken]}" for label, taken in pairs))
    gallery = error_gallery(run)
    assert expected and [name for name, _ in gallery.rows] == expected
    assert all(picture.alt == name for name, pictures in gallery.rows for picture in pictures)
