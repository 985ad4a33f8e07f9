"""The server in a thread, with a small application and clients that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from upcl.model.server import connections
from upcl.model.server.addresses import listen
from upcl.model.server.connections import LimitedConnection, make_server
from upcl.model.server.limits import MAX_CONNECTIONS_PER_CLIENT

pytestmark = pytest.mark.filterwarnings("ignore")

REQUEST = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SLOW_BODY = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n."
LARGE = 30_000_000  # more than the buffers of the operating system


class Served:
    """A running server; `/work` is answered when `finish` is called."""

    def __init__(self, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.server: uvicorn.Server = make_server(self)
        self.working, self.done = threading.Event(), threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        if scope["path"] == "/work":
            self.working.set()
            await asyncio.to_thread(self.done.wait, 30)
        body = bytes(LARGE if scope["path"] == "/large" else 2)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        client.sendall(sent)
        return client

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.01)

    def wait_until_closed(self) -> None:
        self.wait_until(lambda: not self.server.server_state.connections)


@pytest.fixture
def served() -> Iterator[Served]:
    with listen("127.0.0.1", 0) as listener:
        served = Served(listener)
        thread = threading.Thread(target=served.server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield served
        served.done.set()
        served.server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.1)
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT", 0.1)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_connection_without_complete_headers_is_closed(sent: bytes, served: Served) -> None:
    with served.connect(sent) as client:
        assert client.recv(100) == b""


@pytest.mark.usefixtures("hurried")
def test_bytes_that_arrive_slowly_do_not_prolong_the_time(served: Served) -> None:
    num_sent = 0
    with served.connect(b"GET / HTTP/1.1\r\nX: ") as client, contextlib.suppress(ConnectionError):
        while num_sent < 1000:
            client.sendall(b"x")
            num_sent += 1
            time.sleep(0.01)
    assert num_sent < 1000


@pytest.mark.usefixtures("hurried")
def test_the_next_request_must_arrive_in_time_too(served: Served) -> None:
    with served.connect(REQUEST % b"") as client:
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(ConnectionError):
            client.sendall(b"GET / HT")
            while client.recv(100):
                pass


@pytest.mark.usefixtures("hurried")
def test_a_client_that_does_not_read_is_cut_off(served: Served) -> None:
    with served.connect((REQUEST % b"large") * 3):
        served.wait_until(lambda: served.server.server_state.total_requests > 0)
        served.wait_until_closed()


@pytest.mark.usefixtures("hurried")
def test_a_request_that_takes_too_long_is_cut_off(served: Served) -> None:
    with served.connect(REQUEST % b"work") as client:
        assert client.recv(100) == b""


def test_the_time_for_headers_ends_with_the_headers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.1)
    with served.connect(REQUEST % b"work") as client:
        assert served.working.wait(30)
        time.sleep(0.2)
        served.done.set()
        assert client.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", SLOW_BODY, REQUEST % b""], ids=["silent", "half", "slow", "idle"])
def test_connections_that_wait_for_their_clients_lock_nobody_out(sent: bytes, served: Served) -> None:
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(140):
            clients.append(stack.enter_context(served.connect(sent)))
            if sent == REQUEST % b"":
                clients[-1].recv(1000)  # until it is answered, the client does not let the server wait
        with served.connect(REQUEST % b"") as honest:
            assert honest.recv(100).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(ConnectionError):
            while clients[0].recv(1000):
                pass
        assert len(served.server.server_state.connections) <= MAX_CONNECTIONS_PER_CLIENT


def test_requests_that_are_being_answered_are_not_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS_PER_CLIENT", 1)
    with served.connect(REQUEST % b"work") as busy:
        assert served.working.wait(30)
        with served.connect() as other, contextlib.suppress(ConnectionError):
            assert other.recv(100) == b""
        served.done.set()
        assert busy.recv(100).startswith(b"HTTP/1.1 200")


def test_connections_of_all_clients_together_are_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(connections, "network_of", lambda _: str(time.monotonic_ns()))
    with served.connect() as first, served.connect(REQUEST % b"") as second:
        assert second.recv(100).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(ConnectionError):
            assert first.recv(100) == b""


def test_hundreds_of_requests_at_once_on_one_connection_are_answered(served: Served) -> None:
    received = b""
    with served.connect((REQUEST % b"") * 500 + b"GET / HTTP/1.0\r\n\r\n") as client:
        while part := client.recv(2**16):
            received += part
    assert received.count(b"HTTP/1.1 200") == 501


@pytest.mark.parametrize("sent", [b"\0\1\2\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 300_000], ids=["noise", "huge"])
def test_malformed_requests_are_refused_without_a_line_in_the_log(
    sent: bytes, served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    with served.connect() as client, contextlib.suppress(ConnectionError):
        client.sendall(sent)
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    served.wait_until_closed()
    assert capfd.readouterr() == ("", "")


def test_a_websocket_is_a_request_like_any_other() -> None:
    with listen("127.0.0.1", 0) as listener:
        server = Served(listener).server
    server.config.load()
    assert server.config.ws_protocol_class is None and server.config.http_protocol_class is LimitedConnection
