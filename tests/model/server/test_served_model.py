from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from upcl.model.learner import Learner
from upcl.model.server.app import make_app
from upcl.model.server.served_model import ServedModel

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_model_that_is_replaced_is_read_again(own_copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = TestClient(make_app(Learner(own_copy)), base_url="http://127.0.0.1")
    assert "kind 0" in client.get("/api/model").json()["classes"]
    Learner(own_copy).rename("kind 0", "first kind")
    assert "first kind" in client.get("/api/model").json()["classes"]
    Learner(own_copy).forget("kind 1")
    assert client.get("/health").json()["classes"] == 5
    (response,) = client.post("/api/predict?top=20", files=[("images", b"no image")]).json()
    assert response["error"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{own_copy} has changed: the new model is served"
    ] * 2


def test_requests_keep_the_model_that_they_began_with(own_copy: Path) -> None:
    model = ServedModel(Learner(own_copy))
    before = model.latest()
    assert model.latest() is before, "a file that has not changed is not read again"
    Learner(own_copy).rename("kind 0", "first kind")
    assert model.latest() is not before
    assert "kind 0" in before.describe().classes and "first kind" in model.latest().describe().classes


def test_a_change_between_reading_and_serving_is_noticed(own_copy: Path) -> None:
    learner = Learner(own_copy)
    Learner(own_copy).rename("kind 0", "first kind")
    assert "first kind" in ServedModel(learner).latest().describe().classes


@pytest.mark.parametrize("damage", ["empty", "half", "missing", "folder"])
def test_a_broken_file_leaves_the_old_model_in_service(
    damage: str, own_copy: Path, model_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = ServedModel(Learner(own_copy))
    before, content = model.latest(), own_copy.read_bytes()
    own_copy.unlink()
    if damage == "folder":
        own_copy.mkdir()
    elif damage != "missing":
        own_copy.write_bytes(content[: len(content) // 2 if damage == "half" else 0])
    assert model.latest() is before and model.latest() is before
    (notice,) = caplog.records
    assert "cannot be read; the model read before is still served: " in notice.getMessage()
    if damage == "folder":
        own_copy.rmdir()
    shutil.copy(model_file, own_copy)
    os.utime(own_copy, ns=(1, 1))
    assert model.latest() is not before and model.latest().describe() == before.describe()
