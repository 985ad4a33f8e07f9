from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from tests.model.server.uploads import send
from upcl.model.learner import Learner
from upcl.model.server.app import make_app
from upcl.model.server.limits import MAX_BYTES

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_declared_length_is_checked(client: TestClient) -> None:
    response = send(client, ("a", b"x" * (MAX_BYTES + 1)))
    assert response.status_code == 413 and response.json()["detail"] == "the request is larger than 20,971,520 bytes"
    assert client.get("/health", headers={"Content-Length": "-1"}).status_code in (400, 413)


def test_bytes_without_a_declared_length_are_counted(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        for _ in range(MAX_BYTES // 2**20 + 2):
            yield b"x" * 2**20

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    assert client.post("/api/predict", content=chunks(), headers=headers).status_code in (400, 413)


def test_a_request_that_arrives_too_slowly_is_refused(learner: Learner) -> None:
    app = make_app(learner, timeout=0.2)

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    messages: list[Message] = []

    async def collect(message: Message) -> None:
        messages.append(message)

    headers = [(b"content-type", b"multipart/form-data; boundary=b"), (b"content-length", b"10")]
    scope = {"type": "http", "method": "POST", "path": "/api/predict", "headers": headers, "query_string": b""}
    scope |= {"server": ("127.0.0.1", 80), "scheme": "http"}
    asyncio.run(app(scope, receive, collect))
    assert messages[0]["status"] == 408 and b"did not arrive within 0.2 seconds" in messages[1]["body"]
