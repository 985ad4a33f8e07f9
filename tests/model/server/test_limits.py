from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from tests.model.server.uploads import send
from upcl.model.learner import Learner
from upcl.model.server.app import make_app
from upcl.model.server.limits import MAX_BYTES, RequestLimits

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

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"multipart/form-data; boundary=b")]
    scope = {"type": "http", "method": "POST", "path": "/api/predict", "headers": headers, "query_string": b""}
    scope |= {"server": ("127.0.0.1", 80), "scheme": "http"}
    asyncio.run(app(scope, receive, collect))
    assert messages[0]["status"] == 408 and b"did not arrive within 0.2 seconds" in messages[1]["body"]


@pytest.mark.parametrize("length", [b"-1", b"x", b"", b"9" * 5000, "\u00b2".encode("latin-1")])
def test_a_length_that_is_no_number_is_refused(length: bytes, client: TestClient) -> None:
    assert client.post("/api/predict", headers={b"content-length": length}).status_code == 413


class Request:
    """A request whose body arrives in parts of 10 bytes, each when `arrive` is called."""

    def __init__(self, limits: RequestLimits) -> None:
        self.parts: asyncio.Queue[Message] = asyncio.Queue()
        self.answered = asyncio.create_task(limits({"type": "http", "headers": []}, self.parts.get, self.send))

    async def send(self, message: Message) -> None:
        raise AssertionError(message)

    async def arrive(self, *, last: bool = False) -> int:
        """The number of parts that wait to be read."""
        self.parts.put_nowait({"type": "http.request", "body": bytes(10), "more_body": not last})
        for _ in range(10):
            await asyncio.sleep(0)
        return self.parts.qsize()


async def read_all(_: Scope, receive: Receive, __: Send) -> None:
    while (await receive()).get("more_body"):
        pass


def test_bodies_of_all_requests_together_are_limited() -> None:
    async def check() -> None:
        limits = RequestLimits(read_all, max_bytes_in_flight=20)
        oldest, other = Request(limits), Request(limits)
        assert await oldest.arrive() == await other.arrive() == 0, "there is room for both"
        assert await other.arrive() == 1, "the younger one waits"
        assert await oldest.arrive() == 0, "the oldest one does not"
        assert await oldest.arrive(last=True) == 0 and oldest.answered.done()
        assert await other.arrive(last=True) == 0 and other.answered.done()
        assert await Request(limits).arrive(last=True) == 0, "nothing is left of answered requests"

    asyncio.run(check())


def test_requests_that_find_no_room_are_refused() -> None:
    async def check() -> None:
        limits = RequestLimits(read_all, max_bytes_in_flight=10, timeout=0.1)
        oldest, other = Request(limits), Request(limits)
        assert await oldest.arrive() == 0 and await other.arrive() == 1
        refused = await asyncio.gather(oldest.answered, other.answered, return_exceptions=True)
        assert [error.status_code for error in refused if isinstance(error, HTTPException)] == [408, 503]
        assert await Request(limits).arrive(last=True) == 0, "nothing is left of refused requests"

    asyncio.run(check())
