"""The HTTP server: connections with time limits, and a limited number of them for each client."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from .addresses import network_of
from .limits import HEADER_TIMEOUT, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_CLIENT, TIMEOUT

REQUEST_TIMEOUT = 3 * TIMEOUT  # seconds from the headers to the end of the response; the application has shorter limits


class LimitedConnection(H11Protocol):
    """A connection that does not wait for its client forever.

    uvicorn itself limits only the pause between two requests. Here, the headers must be complete in time, no matter
    how many bytes arrive, and a client that does not read its response is cut off. If there are too many connections,
    the one that has waited for its client for the longest time is closed, so that half-open connections and slow
    senders lock nobody out.

    Args:
        args: as uvicorn's.
        kwargs: as uvicorn's.

    Example:
        >>> uvicorn.Config(app, http=LimitedConnection)  # doctest: +SKIP
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.network, self.waiting_since = "", 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has to send or to read something, as opposed to the application."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, and close a connection if there are too many.

        Args:
            transport: the connection.
        """
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else ""
        self._close_after(HEADER_TIMEOUT)
        connections = cast("set[LimitedConnection]", self.connections)
        for limit, networks in ((MAX_CONNECTIONS_PER_CLIENT, [self.network]), (MAX_CONNECTIONS, None)):
            counted = [other for other in connections if networks is None or other.network in networks]
            if len(counted) > limit:
                waiting = [other for other in counted if other.waits_for_client]  # at least this one
                longest = min(waiting, key=lambda other: other.waiting_since)
                connections.discard(longest)
                longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting.

        Args:
            exc: what went wrong, if anything.
        """
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Give a request whose headers are complete the time for its body and its response."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._close_after(REQUEST_TIMEOUT)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._close_after(HEADER_TIMEOUT)
        super().on_response_complete()

    def _close_after(self, seconds: float) -> None:
        if self._timer:
            self._timer.cancel()
        self.waiting_since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if self.transport.is_closing():  # the client does not read what it was sent
            self.transport.abort()
        else:
            self.transport.close()
            self._close_after(HEADER_TIMEOUT)


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Build the server of an application.

    Args:
        app: the application.

    Example:
        >>> make_server(app).run(sockets=[listen("127.0.0.1", 8000)])  # doctest: +SKIP
    """
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # clients cannot fill the log with their mistakes
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=LimitedConnection,
            ws="none",
            proxy_headers=False,
            log_level="error",
            timeout_keep_alive=HEADER_TIMEOUT,
        )
    )
