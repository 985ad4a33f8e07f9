from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.conftest import Invoke
from tests.cli.models import FIRST, make_bundle
from upcl.model import learner
from upcl.model.calibration import UNCALIBRATED, Calibration
from upcl.model.predictor import ImagePrediction, Prediction

CAT = Prediction(("cat", "dog"), (0.9, 0.1), familiarity=0.8, known=True)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A model that sees a cat in every image but those named broken."""

    def predict_files(sources: list[Path], *, top: int) -> list[ImagePrediction]:
        fake.top = top
        return [
            ImagePrediction(path, error="is broken") if path.stem == "broken" else ImagePrediction(path, CAT)
            for path in sources
        ]

    fake = SimpleNamespace(bundle=make_bundle(FIRST), predictor=SimpleNamespace(predict_files=predict_files))
    fake.require_bundle = lambda: fake.bundle

    def make_learner(_: Path, **options: Any) -> SimpleNamespace:
        fake.options = options
        return fake

    monkeypatch.setattr(learner, "Learner", make_learner)
    return fake


def test_options_reach_the_model(model: SimpleNamespace, invoke: Invoke) -> None:
    done = invoke("predict", "--model", "m.upcl", "a.png", "--top", "2", "--device", "cpu")
    assert done.exit_code == 0
    assert (model.top, model.options) == (2, {"device": "cpu"})


def test_table_ends_with_the_rate_of_false_alarms(model: SimpleNamespace, invoke: Invoke) -> None:
    calibration = Calibration(**{**vars(UNCALIBRATED), "num_images": 30, "false_alarm_rate": 2 / 30})
    model.bundle = make_bundle(FIRST, calibration=calibration)
    done = invoke("predict", "--model", "m.upcl", "a.png")
    assert done.stderr == 'false alarms of "none of these": 6.7% of 30 held-out images of known classes\n'
    assert invoke("predict", "--model", "m.upcl", "a.png", "--format", "json").stderr == ""


def test_missing_calibration_is_noted(model: SimpleNamespace, invoke: Invoke) -> None:
    assert model.bundle.state.calibration.num_images == 0
    done = invoke("predict", "--model", "m.upcl", "a.png")
    assert done.stderr == 'note: no image is held out: confidence is not calibrated, "none of these" disabled\n'


@pytest.mark.parametrize("kind", ["table", "csv", "json"])
def test_unreadable_files_exit_with_1(kind: str, model: SimpleNamespace, invoke: Invoke) -> None:  # noqa: ARG001
    done = invoke("predict", "--model", "m.upcl", "a.png", "broken.png", "--format", kind)
    assert done.exit_code == 1
    assert "cat" in done.stdout, "the others are classified"
    assert "is broken" in done.output


def test_names_from_elsewhere_cannot_steer_the_terminal(
    model: SimpleNamespace, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = Prediction(("=\x1b]0;t\x07\x9b\u202e", "[red]"), (0.9, 0.1), familiarity=0.8, known=True)
    found = [ImagePrediction(Path("a.jpg"), hostile), ImagePrediction(Path("b.jpg"), error="is \x1b[31m broken")]
    monkeypatch.setattr(model.predictor, "predict_files", lambda *_, **__: found)
    for words in (["--format", "table"], ["--format", "csv", "--spreadsheet-safe"], ["--format", "json"]):
        done = invoke("predict", "--model", "m.upcl", "a.jpg", *words)
        assert done.exit_code == 1 and "[red]" in done.stdout
        assert not set(done.output) & set("\x1b\x07\x9b\u202e\r")
    done = invoke("predict", "--model", "m.upcl", "a.jpg", "--format", "csv", "--spreadsheet-safe")
    assert "a.jpg,'=\\x1b]0;t\\x07\\u009b\\u202e," in done.stdout
