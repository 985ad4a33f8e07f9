"""Quick steps are settled when nothing changes, and no click waits for what they need."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.model.studio.taught import add_photos, needs_photos, teach
from upcl.model.file import load
from upcl.model.studio import settling
from upcl.model.studio import teacher as teacher_module

pytestmark = needs_photos


def test_quick_steps_are_settled_when_nothing_changes(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teacher_module, "QUIET_SECONDS", 0.0)
    teacher = teach(tmp_path / "kinds.upcl", photos)
    stop = threading.Event()
    thread = threading.Thread(target=teacher.settle_when_quiet, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: teacher._known is not None)
        version = teacher.version
        photo = add_photos(teacher, photos / "first" / "kind 0", 1, first=10)
        before = load(tmp_path / "kinds.upcl").state.calibration
        with teacher._lock:
            teacher.label(photo, "kind 0")
            assert load(tmp_path / "kinds.upcl").state.calibration == before, "quick: as the step before"
        wait_until(lambda: teacher._settled and teacher._known is not None)
        assert teacher.version != version and len(teacher.learner.require_bundle().history) == 4
    finally:
        stop.set()
        thread.join()


def test_no_click_waits_for_cross_validation_after_a_step_was_settled(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    teacher._find_known()
    teacher.label(add_photos(teacher, photos / "first" / "kind 0", 1, first=10), "kind 0")
    add_photos(teacher, photos / "second" / "kind 3", 1)
    teacher._settle_once()
    for name in ("find_known", "stored_known"):
        monkeypatch.setattr(settling, name, None)
    teacher.label([teacher.unlabelled()[0].digest], "kind 1")
    monkeypatch.setattr(teacher_module, "MANY_PHOTOS", 20)
    teacher.label(add_photos(teacher, photos / "second" / "kind 4", 2), "a new class")
    assert teacher.learner.classes[-1] == "a new class" and not teacher._settled


def wait_until(condition: object) -> None:
    until = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.05)
