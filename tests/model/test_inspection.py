"""Likely wrong labels, near-duplicates and outliers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.model.feature_models import CPU, NAMES, feature, grow
from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.io.scan import scan_folder
from upcl.model.bundle import Bundle
from upcl.model.inspection import doubtful_labels, inspect_photos, near_duplicates, unlike_all_others

NUM = 20


def clouds() -> Samples:
    """Twenty photos of each of five classes."""
    features = torch.stack([feature(name, photo) for name in NAMES for photo in range(NUM)])
    return Samples(features, torch.arange(len(NAMES)).repeat_interleave(NUM))


def test_swapped_labels_are_found_first() -> None:
    samples = clouds()
    swapped = [3, 27, 55, 80, 99]
    samples.labels[swapped] = (samples.labels[swapped] + 1) % len(NAMES)
    doubts = doubtful_labels(samples, len(NAMES))
    assert {doubt.row for doubt in doubts[:5]} == set(swapped)
    for doubt in doubts[:5]:
        assert doubt.given == (doubt.likely + 1) % len(NAMES) and doubt.probability < 0.5
    assert [doubt.probability for doubt in doubts] == sorted(doubt.probability for doubt in doubts)
    assert all(doubt.given != doubt.likely for doubt in doubts)


def test_correct_labels_are_not_doubted() -> None:
    assert doubtful_labels(clouds(), len(NAMES)) == []


def test_what_cannot_be_judged_is_not_doubted() -> None:
    samples = clouds()
    assert doubtful_labels(samples[samples.labels == 0], len(NAMES)) == []
    assert doubtful_labels(samples[:0], len(NAMES)) == []
    singles = samples[::NUM]
    assert doubtful_labels(singles, len(NAMES)) == []
    with_single = samples[samples.labels < 2] + samples[samples.labels == 4][:1]
    assert all(doubt.given != 4 for doubt in doubtful_labels(with_single, len(NAMES)))


def test_near_duplicates_are_found_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = clouds()
    features = torch.cat([samples.inputs, 3 * samples.inputs[[7, 60]]])
    expected = [(60, 101), (7, 100)]
    for chunk in (1024, 7):
        monkeypatch.setattr("upcl.model.inspection.CHUNK", chunk)
        found = near_duplicates(features, min_cosine=0.999)
        assert sorted((first, second) for first, second, _ in found) == sorted(expected)
        assert all(cosine == pytest.approx(1.0, abs=1e-3) for _, _, cosine in found)
    cosines = [cosine for *_, cosine in near_duplicates(features, min_cosine=0.5)]
    assert len(cosines) > 2 and cosines == sorted(cosines, reverse=True)


def test_outliers_resemble_no_class() -> None:
    samples = clouds()
    samples.inputs[42] = 0
    samples.inputs[42, 100:] = 1
    found = unlike_all_others(samples, len(NAMES))
    assert found[0][0] == 42 and found[0][1] < 0.1 and len(found) <= 5
    assert unlike_all_others(samples[:0], len(NAMES)) == []


def test_a_folder_is_inspected_by_the_network_of_a_model(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "first", tmp_path / "photos")
    (tmp_path / "photos" / "kind 0" / "3.png").rename(tmp_path / "photos" / "kind 1" / "wrong.png")
    _, files = scan_folder(tmp_path / "photos")
    bundle = grow(None, {"ant": range(4), "cat": range(4)})
    found = inspect_photos(bundle, tmp_path / "photos", files, CPU)
    assert found.doubtful_labels[0][:3] == ("kind 1/wrong.png", "kind 1", "kind 0")
    assert found.to_json().keys() == {"doubtful_labels", "near_duplicates", "outliers"}


def test_copies_of_a_file_are_no_near_duplicates(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "first", tmp_path / "photos")
    shutil.copy(tmp_path / "photos" / "kind 0" / "0.png", tmp_path / "photos" / "kind 0" / "copy.png")
    _, files = scan_folder(tmp_path / "photos")
    found = inspect_photos(grow(None, {"ant": range(4), "cat": range(4)}), tmp_path / "photos", files, CPU)
    pairs = {frozenset(pair[:2]) for pair in found.near_duplicates}
    assert frozenset({"kind 0/0.png", "kind 0/copy.png"}) not in pairs


def test_a_trained_network_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs a model on features"):
        inspect_photos(bundle, tmp_path, [], CPU)
