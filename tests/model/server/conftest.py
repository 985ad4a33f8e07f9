"""Shared by the tests of the service: clients of one application, and images to send."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from upcl.model.learner import Learner
from upcl.model.server.app import make_app


@pytest.fixture(scope="session")
def learner(model_file: Path) -> Learner:
    return Learner(model_file)


@pytest.fixture(scope="session")
def client(learner: Learner) -> TestClient:
    return TestClient(make_app(learner), base_url="http://127.0.0.1")


@pytest.fixture(scope="session")
def photo(photos: Path) -> bytes:
    return (photos / "first" / "kind 0" / "3.png").read_bytes()
