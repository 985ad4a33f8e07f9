"""The application: routes of the JSON API, access control, and the page."""

from __future__ import annotations

import asyncio
import secrets
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, File, HTTPException, Query, Request, Security, UploadFile
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from upcl.model.learner import Learner

from .addresses import is_loopback
from .limits import MAX_BYTES, MAX_IMAGES, MAX_TOP, TIMEOUT, RequestLimits
from .schemas import HealthResponse, ImageResponse, ModelResponse
from .service import Service, Upload

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'"
)
ACCESS_ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The token is missing or wrong."},
    403: {"description": "Without a token, only requests to a loopback address are answered."},
}
LIMIT_ERRORS: dict[int | str, dict[str, Any]] = {
    408: {"description": "The request did not arrive in time."},
    413: {"description": "Too many bytes or images."},
    503: {"description": "Server overloaded: no response in time."},
}


def make_app(learner: Learner, token: str | None = None, timeout: float = TIMEOUT) -> FastAPI:
    """Build the application.

    Pages of other sites cannot use it: no other origin is allowed, and without a token only requests to a loopback
    address are answered, which protects against DNS rebinding.

    Args:
        learner: the model.
        token: what callers of `/api` must send as a bearer token; without one, only this machine may call.
        timeout: seconds for a request to arrive, and again for the response.

    Example:
        >>> app = make_app(Learner("birds.upcl"), token="secret")  # doctest: +SKIP
        >>> uvicorn.run(app, port=8000)  # doctest: +SKIP
    """
    service, page = Service(learner), (files(__package__) / "page.html").read_text(encoding="utf-8")
    app = FastAPI(title="upcl", version=version("upcl"), docs_url=None, redoc_url=None)
    app.add_middleware(RequestLimits, max_bytes=MAX_BYTES, timeout=timeout)
    access = [Depends(_access_control(token))]

    @app.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse, include_in_schema=False)
    def show_page() -> HTMLResponse:
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(page, headers=headers)

    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    def health() -> HealthResponse:
        """Check whether the service is up."""
        return HealthResponse(status="ok", classes=len(learner.classes))

    @app.get("/api/model", dependencies=access, responses=ACCESS_ERRORS)
    def model() -> ModelResponse:
        """Describe the model: its classes and its history."""
        return service.describe()

    @app.post("/api/predict", dependencies=access, responses={**ACCESS_ERRORS, **LIMIT_ERRORS})
    async def predict(
        images: Annotated[list[UploadFile], File()], top: Annotated[int, Query(ge=1, le=MAX_TOP)] = 5
    ) -> list[ImageResponse]:
        """Predict what up to 16 images show. Confidence is calibrated; `known` is false for "none of these"."""
        if len(images) > MAX_IMAGES:
            raise HTTPException(413, f"{len(images)} images exceed the limit of {MAX_IMAGES}")
        uploads = [Upload(image.filename or "image", await image.read()) for image in images]
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.to_thread(service.predict, uploads, top)
        except TimeoutError:
            raise HTTPException(503, f"server overloaded: no response within {timeout:g} seconds") from None

    return app


def _access_control(token: str | None) -> Any:
    """A dependency that lets callers with the token in, or without a token those on this machine."""

    def check_access(
        request: Request,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Security(HTTPBearer(auto_error=False))],
    ) -> None:
        given = credentials.credentials.encode() if credentials else b""
        if token and not secrets.compare_digest(given, token.encode()):
            raise HTTPException(401, "missing or invalid token", {"WWW-Authenticate": "Bearer"})
        if not token and not is_loopback(request.url.hostname or ""):
            raise HTTPException(403, f"without a token, only this machine is served, not {request.url.hostname}")

    return check_access
