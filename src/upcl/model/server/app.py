"""The application: routes of the JSON API, and the page."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, File, HTTPException, Query, Request, Security, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPBearer

from upcl.model.learner import Learner

from .access import AccessControl
from .limits import MAX_BYTES, MAX_IMAGES, MAX_TOP, TIMEOUT, RequestLimits
from .schemas import HealthResponse, ImageResponse, ModelResponse
from .served_model import ServedModel
from .service import Upload

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
)
ACCESS_ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The token is missing or wrong."},
    403: {"description": "The page of another site asks, or without a token the request is not to a loopback address."},
}
LIMIT_ERRORS: dict[int | str, dict[str, Any]] = {
    408: {"description": "The request did not arrive in time."},
    413: {"description": "Too many bytes or images."},
    503: {"description": "Server overloaded: no response in time."},
}


def make_app(learner: Learner, token: str | None = None, timeout: float = TIMEOUT) -> FastAPI:
    """Build the application.

    Access is decided and sizes are limited before the body of a request is read. The model is read again when its file
    has been replaced.

    Args:
        learner: the model.
        token: what callers of `/api` must send as a bearer token; without one, only this machine may call.
        timeout: seconds for a request to arrive, and again for the response.

    Example:
        >>> app = make_app(Learner("birds.upcl"), token="secret")  # doctest: +SKIP
        >>> uvicorn.run(app, port=8000)  # doctest: +SKIP
    """
    served, page = ServedModel(learner), (files(__package__) / "page.html").read_text(encoding="utf-8")
    app = FastAPI(title="upcl", version=version("upcl"), docs_url=None, redoc_url=None)
    app.add_middleware(RequestLimits, max_bytes=MAX_BYTES, timeout=timeout)
    app.add_middleware(AccessControl, token=token)  # comes first
    app.add_exception_handler(RequestValidationError, explain_validation)
    access = [Security(HTTPBearer(auto_error=False))]  # describes it in the schema

    @app.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse, include_in_schema=False)
    def show_page() -> HTMLResponse:
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(page, headers=headers)

    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    def health() -> HealthResponse:
        """Check whether the service is up."""
        return HealthResponse(status="ok", classes=len(served.latest().learner.classes))

    @app.get("/api/model", dependencies=access, responses=ACCESS_ERRORS)
    def model() -> ModelResponse:
        """Describe the model: its classes and its history."""
        return served.latest().describe()

    @app.post("/api/predict", dependencies=access, responses={**ACCESS_ERRORS, **LIMIT_ERRORS})
    async def predict(
        images: Annotated[list[UploadFile], File()], top: Annotated[int, Query(ge=1, le=MAX_TOP)] = 5
    ) -> list[ImageResponse]:
        """Predict what up to 16 images show. Confidence is calibrated; `known` is false for "none of these"."""
        if len(images) > MAX_IMAGES:
            raise HTTPException(413, f"{len(images)} images exceed the limit of {MAX_IMAGES}")
        uploads = [Upload(printable_name(image.filename or "image"), image.file) for image in images]
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.to_thread(lambda: served.latest().predict(uploads, top))
        except TimeoutError:
            raise HTTPException(503, f"server overloaded: no response within {timeout:g} seconds") from None

    return app


def explain_validation(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """What is wrong, without the input itself, which may be long and need not be valid text.

    Args:
        request: the request, which is not repeated.
        error: what FastAPI raised.

    Example:
        >>> app.add_exception_handler(RequestValidationError, explain_validation)  # doctest: +SKIP
    """
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": [{key: e[key] for key in ("type", "loc", "msg")} for e in error.errors()]}, 422)


def printable_name(name: str) -> str:
    """A file name as JSON can hold it: clients choose its encoding, and some have half characters.

    Args:
        name: the name that a client sent.

    Example:
        >>> printable_name("7.jpg")
        '7.jpg'
    """
    return name.encode(errors="replace").decode()
