"""Who is served: access is decided from the headers of a request, before its body is read."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from upcl.core.errors import UserError

from .addresses import is_loopback, parse_host

PAGE = "/"  # any site may link to it
OPEN_PATHS = (PAGE, "/health", "/openapi.json")  # need no token
MAX_TOKEN = 1024  # bytes


class AccessControl:
    """ASGI middleware that answers only those who may use the service.

    Pages of other origins get nothing but a link to the page. Without a token, requests must address this machine by a
    loopback address or as `localhost`, which protects against DNS rebinding.

    Args:
        app: the application.
        token: what clients must send as a bearer token.
        open_paths: files of the page, which need no token.

    Example:
        >>> from fastapi import FastAPI
        >>> from fastapi.testclient import TestClient
        >>> client = TestClient(AccessControl(FastAPI(), token="secret"))
        >>> client.post("/api/predict", headers={"Origin": "https://evil.example"}).json()
        {'detail': 'requests of pages of other sites are not answered'}
        >>> client.post("/api/predict", content=b"is not read").json()
        {'detail': 'missing or invalid token'}
    """

    def __init__(self, app: ASGIApp, token: str | None = None, open_paths: tuple[str, ...] = ()) -> None:
        self.app, self.token, self.open_paths = app, token, (*OPEN_PATHS, *open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse one request, or hand it on.

        Args:
            scope: the headers and the path, which decide.
            receive: reads the body; called by the application only.
            send: sends a part of the response.
        """
        refusal = self._refusal(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> JSONResponse | None:
        host = _only(headers, "host")
        if not self.token and not is_loopback(parse_host(host) or ""):
            message = f"without a token, only this machine is served, not {host[:100] or 'a request without a host'}"
            return JSONResponse({"detail": message}, 403)
        if path != PAGE and is_foreign(headers):
            return JSONResponse({"detail": "requests of pages of other sites are not answered"}, 403)
        if self.token and path not in self.open_paths:
            scheme, _, given = _only(headers, "authorization").partition(" ")
            if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), self.token.encode()):
                return JSONResponse({"detail": "missing or invalid token"}, 401, {"WWW-Authenticate": "Bearer"})
        return None


def is_foreign(headers: Headers) -> bool:
    """Whether a browser sends a request on behalf of a page of another origin.

    `Sec-Fetch-Site` decides where there is one, since a proxy may change `Host`; older browsers, and all of them on
    plain HTTP to other machines, send `Origin` alone. Programs other than browsers send neither.

    Args:
        headers: the headers of the request.

    Example:
        >>> [is_foreign(Headers({"Sec-Fetch-Site": site})) for site in ("cross-site", "same-site", "same-origin")]
        [True, True, False]
        >>> is_foreign(Headers({"Host": "localhost", "Origin": "http://localhost:3000"})), is_foreign(Headers({}))
        (True, False)
    """
    if sites := headers.getlist("sec-fetch-site"):
        return sites not in (["same-origin"], ["none"])
    host, origins = _only(headers, "host"), headers.getlist("origin")
    same_origin = parse_host(host) and origins in ([f"http://{host}"], [f"https://{host}"])
    return bool(origins) and not same_origin


def _only(headers: Headers, name: str) -> str:
    """The value of a header, empty if it is missing or repeated."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def check_token(token: str) -> str:
    """Return a token without spaces around it.

    Args:
        token: the text chosen by the user.

    Raises:
        UserError: if clients could not send it in a header.

    Example:
        >>> check_token("secret\\n")
        'secret'
    """
    token = token.strip()
    if not re.fullmatch(r"[!-~]*", token) or len(token) > MAX_TOKEN:
        raise UserError(f"the token must consist of up to {MAX_TOKEN:,} visible ASCII characters, without spaces")
    return token


def read_token(path: Path) -> str:
    """Read a token from a file.

    Args:
        path: a file that holds nothing else.

    Raises:
        UserError: if the file is empty or cannot be a token.
        OSError: if it cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "token"
        >>> _ = path.write_text("secret\\n")
        >>> read_token(path)
        'secret'
    """
    with path.open("rb") as file:
        token = check_token(file.read(MAX_TOKEN + 2).decode("latin-1"))
    if not token:
        raise UserError(f"{path} is empty: write a token into it")
    return token
