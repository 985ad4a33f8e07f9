"""Limits of the service: sizes, times and concurrency, and the middleware that enforces them on requests."""

from __future__ import annotations

import asyncio
import threading

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_IMAGES = 16  # per request
MAX_TOP = 20  # classes per image
MAX_PIXELS = 50_000_000  # per image
MAX_BYTES = 20 * 2**20  # per request
MAX_BYTES_IN_FLIGHT = 64 * 2**20  # of all requests that have not been answered
TIMEOUT = 30.0  # seconds for a request to arrive, and again for the response
HEADER_TIMEOUT = 10  # seconds for the headers, from the connection or the previous response
MAX_CONCURRENT = 2  # requests whose images are in memory
DECODING = threading.BoundedSemaphore(MAX_CONCURRENT)  # held while images are decoded: all requests share the memory
MAX_CONNECTIONS = 128
MAX_CONNECTIONS_PER_CLIENT = 64


class RequestLimits:
    """ASGI middleware that rejects requests that are too large or arrive too slowly, before they are stored.

    Bytes are counted as they arrive, since a request need not declare its length. While unanswered requests hold more
    than `max_bytes_in_flight` together, only the oldest one is read on; the others wait.

    Args:
        app: the application.
        max_bytes: size of the body.
        timeout: seconds for the body to arrive.
        max_bytes_in_flight: size of all bodies that are in memory at the same time.

    Example:
        >>> from fastapi import FastAPI
        >>> from fastapi.testclient import TestClient
        >>> client = TestClient(RequestLimits(FastAPI(), max_bytes=8))
        >>> client.post("/", content=b"nine bytes").json()
        {'detail': 'the request is larger than 8 bytes'}
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int = MAX_BYTES,
        timeout: float = TIMEOUT,
        max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
    ) -> None:
        self.app, self.max_bytes, self.timeout, self.max_bytes_in_flight = app, max_bytes, timeout, max_bytes_in_flight
        self._in_flight: dict[object, int] = {}  # bytes of each request, in the order in which they began to arrive
        self._answered = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Args:
            scope: what the server knows about the connection.
            receive: returns the next part of the request.
            send: sends a part of the response.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 20 or int(length) > self.max_bytes:
            await JSONResponse({"detail": self._too_large}, 413)(scope, receive, send)
            return
        request = object()
        try:
            await self.app(scope, self._limited(receive, request), send)
        finally:
            if self._in_flight.pop(request, None):
                self._answered.set()
                self._answered = asyncio.Event()

    def _limited(self, receive: Receive, request: object) -> Receive:
        arriving = True
        deadline = asyncio.get_running_loop().time() + self.timeout

        async def limited() -> Message:
            nonlocal arriving
            if not arriving:
                return await receive()
            await self._wait_for_room(request, deadline)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request did not arrive within {self.timeout:g} seconds") from None
            arriving = message.get("more_body", False)
            if body := message.get("body"):
                self._in_flight[request] = self._in_flight.get(request, 0) + len(body)
                if self._in_flight[request] > self.max_bytes:
                    raise HTTPException(413, self._too_large)
            return message

        return limited

    async def _wait_for_room(self, request: object, deadline: float) -> None:
        """The oldest request never waits, so that one is always answered and makes room for the others."""
        try:
            async with asyncio.timeout_at(deadline):
                while sum(self._in_flight.values()) >= self.max_bytes_in_flight:
                    if request is next(iter(self._in_flight)):
                        return
                    await self._answered.wait()
        except TimeoutError:
            message = f"server overloaded: other requests left no room for {self.timeout:g} seconds"
            raise HTTPException(503, message) from None

    @property
    def _too_large(self) -> str:
        return f"the request is larger than {self.max_bytes:,} bytes"
