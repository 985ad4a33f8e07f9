"""Limits of the service: sizes, times and concurrency, and the middleware that enforces them on requests."""

from __future__ import annotations

import asyncio

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_IMAGES = 16  # per request
MAX_TOP = 20  # classes per image
MAX_PIXELS = 50_000_000  # per image
MAX_BYTES = 20 * 2**20  # per request
TIMEOUT = 30.0  # seconds for a request to arrive, and again for the response
MAX_CONCURRENT = 2  # requests whose images are in memory


class RequestLimits:
    """ASGI middleware that rejects requests that are too large or arrive too slowly, before they are stored.

    Bytes are counted as they arrive, since a request need not declare its length.

    Args:
        app: the application.
        max_bytes: size of the body.
        timeout: seconds for the body to arrive.

    Example:
        >>> from fastapi import FastAPI
        >>> from fastapi.testclient import TestClient
        >>> client = TestClient(RequestLimits(FastAPI(), max_bytes=8))
        >>> client.post("/", content=b"nine bytes").json()
        {'detail': 'the request is larger than 8 bytes'}
    """

    def __init__(self, app: ASGIApp, max_bytes: int = MAX_BYTES, timeout: float = TIMEOUT) -> None:
        self.app, self.max_bytes, self.timeout = app, max_bytes, timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        Args:
            scope: what the server knows about the connection.
            receive: returns the next part of the request.
            send: sends a part of the response.
        """
        if scope["type"] == "http":
            length = dict(scope["headers"]).get(b"content-length", b"0")
            if not length.isdigit() or int(length) > self.max_bytes:
                response = JSONResponse({"detail": self._too_large}, 413)
                await response(scope, receive, send)
                return
            receive = self._limited(receive)
        await self.app(scope, receive, send)

    def _limited(self, receive: Receive) -> Receive:
        num_bytes, arriving = 0, True
        deadline = asyncio.get_running_loop().time() + self.timeout

        async def limited() -> Message:
            nonlocal num_bytes, arriving
            try:
                async with asyncio.timeout_at(deadline if arriving else None):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request did not arrive within {self.timeout:g} seconds") from None
            num_bytes += len(message.get("body", b""))
            arriving = message.get("more_body", False)
            if num_bytes > self.max_bytes:
                raise HTTPException(413, self._too_large)
            return message

        return limited

    @property
    def _too_large(self) -> str:
        return f"the request is larger than {self.max_bytes:,} bytes"
