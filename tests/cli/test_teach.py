"""Commands that help to teach: label, explain, card, and data check with a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.conftest import Invoke
from tests.model.conftest import model_file, photos
from tests.model.feature_models import grow
from upcl.model.file import save

__all__ = ["model_file", "photos"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    save(grow(None, {"ant": range(6), "cat": range(6)}), tmp_path / "m.upcl")
    return "m.upcl"


def test_label_prints_photos_with_proposals(invoke: Invoke, model: str, photos: Path) -> None:
    table = invoke("label", str(photos / "first"), "--model", model, "--suggest", "3")
    assert table.exit_code == 0, table.output
    assert "label these next" in table.stdout and table.stdout.count(".png") == 3
    found = json.loads(invoke("label", str(photos / "first"), "--model", model, "--suggest", "3", "--json").stdout)
    assert [photo["path"] in table.stdout for photo in found] == [True] * 3


def test_explain_writes_a_picture(invoke: Invoke, model: str, photos: Path, tmp_path: Path) -> None:
    photo = str(next((photos / "first").rglob("*.png")))
    done = invoke("explain", photo, "--model", model, "--class", "cat", "-o", "cat.png")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("cat, confidence ") and "cat.png shows where it comes from (exact)" in done.stdout
    with Image.open(tmp_path / "cat.png") as image:
        assert image.format == "PNG" and image.size == (448, 448)


def test_explain_names_what_is_wrong(invoke: Invoke, model: str, photos: Path, tmp_path: Path) -> None:
    photo = str(next((photos / "first").rglob("*.png")))
    wrong = invoke("explain", photo, "--model", model, "--class", "cta")
    assert wrong.exit_code == 2 and "did you mean cat?" in wrong.stderr
    missing = invoke("explain", "missing.jpg", "--model", model)
    assert missing.exit_code == 2 and "missing.jpg cannot be read" in missing.stderr
    assert not (tmp_path / "why.png").exists()


def test_card_is_printed_or_written(invoke: Invoke, model: str, tmp_path: Path) -> None:
    printed = invoke("card", model)
    assert printed.exit_code == 0 and printed.stdout.startswith("# m\n")
    written = invoke("card", model, "-o", "card.md")
    assert written.stdout == "written to card.md\n"
    assert (tmp_path / "card.md").read_text() == printed.stdout


def test_data_check_inspects_photos_by_a_model(invoke: Invoke, model: str, photos: Path) -> None:
    plain = invoke("data", "check", str(photos / "first"))
    done = invoke("data", "check", str(photos / "first"), "--model", model)
    assert done.exit_code == 0 and done.stdout.startswith(plain.stdout)
    for kind in ("doubtful labels", "near-duplicates", "photos unlike all others"):
        assert kind in done.stdout and kind not in plain.stdout
    found = json.loads(invoke("data", "check", str(photos / "first"), "--model", model, "--json").stdout)
    assert {"classes", "doubtful_labels", "near_duplicates", "outliers"} <= found.keys()


def test_data_check_needs_a_model_on_features(invoke: Invoke, model_file: Path, photos: Path) -> None:
    refused = invoke("data", "check", str(photos / "first"), "--model", str(model_file))
    assert refused.exit_code == 2 and "needs a model on features" in refused.stderr
