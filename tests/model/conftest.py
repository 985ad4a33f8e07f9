"""Shared by the tests of the model: photos on disk and one small model, learned once in two steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.model.photos import QUICK, write_photos
from upcl.model.bundle import Bundle
from upcl.model.file import load
from upcl.model.learner import Learner


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `first`, `second` and `extra`; do not change them."""
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def model_file(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learned `first` and then `second`; do not change it."""
    path = tmp_path_factory.mktemp("model") / "kinds.upcl"
    Learner(path).learn(photos / "first", QUICK)
    Learner(path).learn(photos / "second", QUICK)
    return path


@pytest.fixture
def bundle(model_file: Path) -> Bundle:
    return load(model_file)


@pytest.fixture
def own_copy(model_file: Path, tmp_path: Path) -> Path:
    """A copy of the model that the test may change."""
    return Path(shutil.copy(model_file, tmp_path / "copy.upcl"))
