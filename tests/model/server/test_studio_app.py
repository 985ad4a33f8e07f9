"""What the page asks for: answers, changes, downloads, and who may ask."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.model.server.uploads import SVG
from tests.model.studio.taught import needs_photos
from upcl.model.file import load
from upcl.model.server.studio_app import make_studio_app
from upcl.model.studio.teacher import Teacher

pytestmark = [needs_photos, pytest.mark.filterwarnings("ignore:.*LeafSpec")]  # of PyTorch's exporter


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(make_studio_app(Teacher(tmp_path / "kinds.upcl")), base_url="http://127.0.0.1") as client:
        yield client


def send(page: TestClient, folder: Path, num: int, first: int = 0) -> list[str]:
    digests = []
    for file in sorted(folder.iterdir())[first : first + num]:
        found = page.post("/api/studio/photos", files={"images": (f"{folder.name}/{file.name}", file.read_bytes())})
        digests.append(found.json()[0]["digest"])
    return digests


def change(page: TestClient, path: str, **body: Any) -> dict[str, Any]:
    response = page.post(f"/api/studio/{path}", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_from_nothing_to_a_download(page: TestClient, photos: Path, tmp_path: Path) -> None:
    assert page.get("/api/studio").json()["classes"] == []
    assert page.get("/api/studio/download/model").status_code == 409
    change(page, "class", name="kind 0")
    for kind in range(3):
        state = change(page, "label", digests=send(page, photos / "first" / f"kind {kind}", 8), name=f"kind {kind}")
    assert [part["learned"] + part["held_out"] for part in state["classes"]] == [8, 8, 8]
    mixed = send(page, photos / "first" / "kind 0", 4, first=10) + send(page, photos / "first" / "kind 1", 4, first=10)
    answers = page.get("/api/studio/photos").json()
    expected = ["kind 0"] * 4 + ["kind 1"] * 4
    assert sum(answer["answer"] == name for answer, name in zip(answers, expected, strict=True)) >= 6
    groups = page.get("/api/studio/groups?num=2").json()
    assert sorted(digest for group in groups for digest in group["digests"]) == sorted(mixed)
    assert {group["name"] for group in groups} <= {"group 1", "group 2", "kind 0", "kind 1"}
    parts = page.post("/api/studio/groups", json={"digests": mixed[:4], "num": 2}).json()
    assert len(parts) == 2 and sorted(parts[0]["digests"] + parts[1]["digests"]) == sorted(mixed[:4])
    suggested = page.get("/api/studio/suggestions?num=3").json()
    assert len(suggested) == 3 and suggested[0]["gain"] >= suggested[2]["gain"]
    photo = page.get(f"/api/studio/photo/{mixed[0]}").json()
    assert photo["top"][0]["name"] == "kind 0" and len(photo["nearest"]) == 6
    why = page.get(f"/api/studio/why/{mixed[0]}").json()
    assert why["name"] == "kind 0" and why["picture"].startswith("data:image/jpeg")
    assert page.get(f"/api/studio/picture/{mixed[0]}").content[:2] == b"\xff\xd8"
    assert page.get("/api/studio/review").json()["needs"]
    change(page, "confirm", digests=send(page, photos / "first" / "kind 0", 1))
    state = change(page, "label", digests=mixed[:1], name="kind 2")
    assert state["unlabelled"] == 7
    assert change(page, "undo", step=state["undo"]["step"])["unlabelled"] == 8
    change(page, "rename", name="kind 2", new="two")
    change(page, "merge", name="kind 1", into="kind 0")
    change(page, "forget", name="two")
    change(page, "discard", digests=mixed[:1])
    rows = list(csv.DictReader(io.StringIO(page.get("/api/studio/download/answers").text)))
    assert len(rows) == 7 + 16 and {row["label"] for row in rows} == {"", "kind 0"}
    assert page.get("/api/studio/download/card").text.startswith("# kinds")
    assert b"kind 0" in page.get("/api/studio/download/onnx").content
    (tmp_path / "copy.upcl").write_bytes(page.get("/api/studio/download/model").content)
    assert load(tmp_path / "copy.upcl").state.class_names == ["kind 0"]
    last = page.get("/api/studio").json()["history"][-1]["step"]
    assert change(page, "rollback", step=last)["history"][-1]["step"] == last


def test_mistakes_are_explained_and_change_nothing(page: TestClient) -> None:
    found = page.post("/api/studio/photos", files={"images": ("x.svg", SVG)}).json()
    assert found[0]["digest"] is None and "format" in found[0]["error"]
    many = [("images", (f"{k}.png", b"")) for k in range(17)]
    assert page.post("/api/studio/photos", files=many).status_code == 413
    for path, body, status, message in (
        ("label", {"digests": ["0" * 16], "name": "ant"}, 409, "no such photo"),
        ("label", {"digests": ["../x"], "name": "ant"}, 409, "there is no such photo"),
        ("label", {"digests": ["0" * 16], "name": " "}, 409, "needs a name"),
        ("undo", {"step": 0}, 409, "changed in the meantime"),
        ("merge", {"name": "ant", "into": "bee"}, 409, "no class 'ant'"),
        ("rename", {"name": "ant", "new": "bee"}, 409, "no model"),
    ):
        response = page.post(f"/api/studio/{path}", json=body)
        assert response.status_code == status and message in response.text, response.text
    assert page.get(f"/api/studio/picture/{'0' * 16}").status_code == 404
    assert page.get(f"/api/studio/why/{'0' * 16}").status_code == 404
    assert page.get("/teacher.py").status_code == page.get("/..%2fapp.py").status_code == 404
    assert page.get("/api/studio").json()["classes"] == []


def test_formulas_in_file_names_are_not_executed_by_spreadsheets(page: TestClient, photos: Path) -> None:
    content = (photos / "first" / "kind 0" / "0.png").read_bytes()
    page.post("/api/studio/photos", files={"images": ("=cmd()|x.png", content)})
    assert "'=cmd()|x.png" in page.get("/api/studio/download/answers").text


def test_only_the_page_itself_may_ask(tmp_path: Path) -> None:
    teacher = Teacher(tmp_path / "kinds.upcl")
    client = TestClient(make_studio_app(teacher, token="secret"), base_url="http://192.0.2.1")
    for path in ("/", "/studio.js", "/studio.css", "/health"):
        assert client.get(path).status_code == 200, "the page asks for the token"
    assert client.get("/api/studio").status_code == 401
    assert client.get("/api/studio", headers={"Authorization": "Bearer secret"}).status_code == 200
    local = TestClient(make_studio_app(teacher), base_url="http://127.0.0.1")
    evil = {"Origin": "https://evil.example"}
    assert local.post("/api/studio/forget", json={"name": "ant"}, headers=evil).status_code == 403
    assert local.get("/studio.js", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    headers = local.get("/").headers
    assert "script-src 'self'" in headers["Content-Security-Policy"] and headers["Permissions-Policy"].startswith(
        "camera=(self)"
    )
    assert TestClient(make_studio_app(teacher), base_url="http://evil.example").get("/").status_code == 403


def test_a_full_disk_is_named(page: TestClient, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("upcl.model.studio.workspace.write_atomic", fail)
    client = TestClient(page.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    files = {"images": ("a.png", (photos / "first" / "kind 0" / "0.png").read_bytes())}
    response = client.post("/api/studio/photos", files=files)
    assert response.status_code == 500 and "No space left on device" in response.json()["detail"]
