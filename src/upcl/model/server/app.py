"""The service: a JSON interface with its description in /openapi.json, limits, a token, and one page."""

from __future__ import annotations

import asyncio
import io
import ipaddress
import secrets
import socket
import threading
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import Depends, FastAPI, File, HTTPException, Query, Request, Security, UploadFile
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from torch import Tensor

from upcl.data.io.images import BrokenImageError, data_url, read_square
from upcl.model.learner import Learner
from upcl.model.predictor import Prediction

MOST_IMAGES = 16
MOST_NAMES = 20  # of one image
MOST_PIXELS = 50_000_000  # of one image
MOST_BYTES = 20 * 2**20  # of one request
SECONDS = 30.0  # for a request to arrive, and again to be answered
AT_ONCE = 2  # requests whose images are in memory
NEAREST = 3


class GuessResponse(BaseModel):
    name: str
    confidence: float


class ExemplarResponse(BaseModel):
    name: str
    nearness: float
    image: str


class ImageResponse(BaseModel):
    """One image: what it shows, or why it could not be read."""

    file: str
    name: str | None = None
    known: bool | None = None
    familiarity: float | None = None
    top: list[GuessResponse] = []
    nearest: list[ExemplarResponse] = []
    error: str | None = None


class HistoryResponse(BaseModel):
    when: str
    added: list[str]
    accuracy: float | None


class ModelResponse(BaseModel):
    classes: list[str]
    size: int
    false_alarm_rate: float
    history: list[HistoryResponse]


class Service:
    """The model and what is asked of it. A request whose caller gave up keeps its turn until it is done."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.reader = learner, learner.reader
        self.turns, self.lock = threading.BoundedSemaphore(AT_ONCE), threading.Lock()

    def told(self) -> ModelResponse:
        bundle = self.learner.require_bundle()
        steps = [
            HistoryResponse(
                when=step.when,
                added=list(step.added),
                accuracy=max((value for value in step.accuracy.values() if value is not None), default=None),
            )
            for step in bundle.history
        ]
        return ModelResponse(
            classes=self.learner.classes,
            size=bundle.spec.size,
            false_alarm_rate=bundle.state.calibration.false_alarm_rate,
            history=steps,
        )

    def name(self, contents: list[tuple[str, bytes]], top: int) -> list[ImageResponse]:
        with self.turns:
            return self._name(contents, top)

    def _name(self, contents: list[tuple[str, bytes]], top: int) -> list[ImageResponse]:
        spec = self.learner.require_bundle().spec
        squares: dict[int, Tensor] = {}
        found = [ImageResponse(file=name) for name, _ in contents]
        for place, (_, content) in enumerate(contents):
            try:
                square = read_square(io.BytesIO(content), spec.size, spec.channels, MOST_PIXELS)
                squares[place] = torch.from_numpy(square)
            except BrokenImageError as error:
                found[place].error = str(error)
        if squares:
            with self.lock:
                seen = self.reader.look(torch.stack(list(squares.values())))
            for place, answer, unit in zip(squares, self.reader.answers(seen, top), seen.unit, strict=True):
                found[place] = self._named(found[place].file, answer, unit)
        return found

    def _named(self, file: str, answer: Prediction, unit: Tensor) -> ImageResponse:
        nearness, places = (self.reader.exemplars @ unit).topk(min(NEAREST, len(self.reader.exemplars)))
        state = self.reader.state
        nearest = [
            ExemplarResponse(
                name=str(state.classes[int(state.exemplars.labels[k])]),
                nearness=round(float(near), 4),
                image=data_url(np.asarray(state.exemplars.inputs[k])),
            )
            for near, k in zip(nearness, places.tolist(), strict=True)
        ]
        guesses = [
            GuessResponse(name=n, confidence=round(c, 6)) for n, c in zip(answer.names, answer.confidence, strict=True)
        ]
        return ImageResponse(
            file=file,
            name=answer.name,
            known=answer.known,
            familiarity=round(answer.familiarity, 4),
            top=guesses,
            nearest=nearest,
        )


class Limit:
    """Refuses, before they are stored, requests that are too large, said or not, or arrive too slowly."""

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self.app, self.most, self.seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        too_much = JSONResponse({"detail": f"more than {self.most:,} bytes"}, 413)
        if not length.isdigit() or int(length) > self.most:
            await too_much(scope, receive, send)
            return
        taken, arriving = 0, True
        deadline = asyncio.get_running_loop().time() + self.seconds

        async def counted() -> Message:
            nonlocal taken, arriving
            try:
                async with asyncio.timeout_at(deadline if arriving else None):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request did not arrive within {self.seconds:g} seconds") from None
            taken += len(message.get("body", b""))
            arriving = message.get("more_body", False)
            if taken > self.most:
                raise HTTPException(413, f"more than {self.most:,} bytes")
            return message

        await self.app(scope, counted, send)


def is_this_machine(host: str) -> bool:
    """Whether a host's name or number stands for the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(host: str, port: int) -> str:
    """Where a browser finds the page of a service that listens on this host."""
    if host in ("0.0.0.0", "::"):  # every address of this machine
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The token is missing or wrong."},
    403: {"description": "Without a token, only this machine may call."},
}


LIMITS: dict[int | str, dict[str, Any]] = {
    408: {"description": "The request did not arrive in time."},
    413: {"description": "Too many bytes or images."},
    503: {"description": "No answer in time: too many ask at once."},
}


def make_app(learner: Learner, token: str | None = None, seconds: float = SECONDS) -> FastAPI:
    """The application. With a token every address below /api asks for it; without, only this machine may call.

    Pages of other sites cannot call either: their host name is not this machine's, and no site is allowed in.
    """
    service, page = Service(learner), (files(__package__) / "page.html").read_text(encoding="utf-8")
    app = FastAPI(title="upcl", version=version("upcl"), docs_url=None, redoc_url=None)
    app.add_middleware(Limit, most=MOST_BYTES, seconds=seconds)

    def allowed(
        request: Request,
        sent: Annotated[HTTPAuthorizationCredentials | None, Security(HTTPBearer(auto_error=False))],
    ) -> None:
        given = sent.credentials.encode() if sent else b""
        if token and not secrets.compare_digest(given, token.encode()):
            raise HTTPException(401, "this service asks for its token", {"WWW-Authenticate": "Bearer"})
        if not token and not is_this_machine(request.url.hostname or ""):
            raise HTTPException(403, f"this service answers on this machine only, not as {request.url.hostname}")

    @app.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse, include_in_schema=False)
    def show() -> HTMLResponse:
        policy = (
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
            "connect-src 'self'"
        )
        return HTMLResponse(page, headers={"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"})

    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    def health() -> dict[str, Any]:
        """Whether the service is up."""
        return {"status": "ok", "classes": len(learner.classes)}

    @app.get("/api/model", dependencies=[Depends(allowed)], responses=REFUSALS)
    def model() -> ModelResponse:
        """The classes known, and the history of the model."""
        return service.told()

    @app.post("/api/predict", dependencies=[Depends(allowed)], responses={**REFUSALS, **LIMITS})
    async def predict(
        images: Annotated[list[UploadFile], File()], top: Annotated[int, Query(ge=1, le=MOST_NAMES)] = 5
    ) -> list[ImageResponse]:
        """Name what is in up to 16 images: confidence is calibrated, `known` is false for what is unlike anything."""
        if len(images) > MOST_IMAGES:
            raise HTTPException(413, f"{len(images)} images are more than {MOST_IMAGES}")
        contents = [(image.filename or "image", await image.read()) for image in images]
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.to_thread(service.name, contents, top)
        except TimeoutError:
            raise HTTPException(503, f"no answer within {seconds:g} seconds: too many ask at once") from None

    return app
