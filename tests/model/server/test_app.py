from __future__ import annotations

import base64

import pytest
from fastapi.testclient import TestClient

from tests.model.server.uploads import SVG, decompression_bomb, send
from upcl.model.learner import Learner
from upcl.model.server.app import make_app
from upcl.model.server.limits import MAX_IMAGES, MAX_TOP
from upcl.model.sources import decode_image

pytestmark = pytest.mark.filterwarnings("ignore")


def test_responses_are_the_predictions_of_the_model(client: TestClient, learner: Learner, photo: bytes) -> None:
    (response,) = send(client, ("a.png", photo)).json()
    image = decode_image(photo, learner.require_bundle().spec)
    (expected,) = learner.predictor.predict(image[None]).top(5)
    assert response["file"] == "a.png" and response["error"] is None
    assert response["name"] == expected.name and response["known"] == expected.known
    assert response["familiarity"] == pytest.approx(expected.familiarity, abs=1e-4)
    assert [guess["name"] for guess in response["top"]] == list(expected.names)
    assert [guess["confidence"] for guess in response["top"]] == pytest.approx(list(expected.confidence), abs=1e-5)
    assert len(response["nearest"]) == 3
    assert response["nearest"][0]["image"].startswith("data:image/png;base64,")
    base64.b64decode(response["nearest"][0]["image"].partition(",")[2], validate=True)


def test_bad_images_are_reported_and_do_not_stop_the_others(client: TestClient, photo: bytes) -> None:
    files = ("x.svg", SVG), ("text.jpg", b"words"), ("big.png", decompression_bomb()), ("good.png", photo)
    responses = send(client, *files).json()
    assert [bool(response["error"]) for response in responses] == [True, True, True, False]
    assert [response["file"] for response in responses] == [name for name, _ in files]
    assert "pixels" in responses[2]["error"] and responses[0]["name"] is None


def test_numbers_of_images_and_classes_are_limited(client: TestClient) -> None:
    too_many = send(client, *[("a", b"x")] * (MAX_IMAGES + 1))
    assert too_many.status_code == 413 and too_many.json()["detail"] == "17 images exceed the limit of 16"
    assert client.post("/api/predict").status_code == 422
    for top, status in ((0, 422), (1, 200), (MAX_TOP, 200), (MAX_TOP + 1, 422)):
        assert client.post(f"/api/predict?top={top}", files=[("images", b"x")]).status_code == status


def test_the_model_is_described(client: TestClient, learner: Learner) -> None:
    assert client.get("/health").json() == {"status": "ok", "classes": 6}
    described = client.get("/api/model").json()
    assert described["classes"] == [f"kind {label}" for label in range(6)] and described["size"] == 8
    history = learner.require_bundle().history
    assert [entry["accuracy"] for entry in described["history"]] == [entry.best_accuracy for entry in history]
    assert [entry["added"] for entry in described["history"]] == [list(entry.added) for entry in history]


def test_the_api_is_described_with_its_errors(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {"/health", "/api/model", "/api/predict"}
    assert schema["components"]["securitySchemes"]
    assert {"401", "403", "408", "413", "503"} <= set(schema["paths"]["/api/predict"]["post"]["responses"])


def test_a_token_is_required_where_one_is_set(learner: Learner, photo: bytes) -> None:
    guarded = TestClient(make_app(learner, token="secret"))
    assert guarded.get("/health").status_code == 200
    assert guarded.get("/api/model").status_code == 401
    wrong = send(guarded, ("a.png", photo), Authorization="Bearer wrong")
    assert wrong.status_code == 401 and wrong.json()["detail"] == "missing or invalid token"
    assert send(guarded, ("a.png", photo), Authorization="Bearer secret").status_code == 200
    assert send(guarded, ("a.png", photo), Authorization="bearer secret").status_code == 200, "schemes ignore case"
    strange = guarded.get("/api/model", headers={b"Authorization": "Bearer \u00e9".encode("latin-1")})
    assert strange.status_code == 401


@pytest.mark.parametrize("encoding", ["raw_unicode_escape", "utf-7", "zlib", "undefined", "idna", "no such"])
@pytest.mark.parametrize("header", ['name="images"; filename="\\ud800+2AA-"', 'name="images"'], ids=["file", "text"])
def test_clients_may_choose_a_strange_encoding(encoding: str, header: str, client: TestClient) -> None:
    body = f"--b\r\nContent-Disposition: form-data; {header}\r\n\r\n\\ud800+2AA-\r\n--b--\r\n"
    headers = {"Content-Type": f"multipart/form-data; boundary=b; charset={encoding}"}
    response = client.post("/api/predict", content=body, headers=headers)
    assert response.status_code in (200, 400, 422)


def test_the_page_allows_no_foreign_content(client: TestClient) -> None:
    assert [client.head(path).status_code for path in ("/", "/health")] == [200, 200]
    page = client.get("/")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert "http://" not in page.text.replace("http://www.w3.org/2000/svg", "") and "https://" not in page.text


def test_an_overloaded_server_responds_with_503(
    learner: Learner, photo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from upcl.model.server.service import Service

    monkeypatch.setattr(Service, "_predict", lambda *_: time.sleep(0.5))
    slow = TestClient(make_app(learner, timeout=0.1), base_url="http://127.0.0.1")
    response = send(slow, ("a.png", photo))
    assert response.status_code == 503
    assert response.json()["detail"] == "server overloaded: no response within 0.1 seconds"
