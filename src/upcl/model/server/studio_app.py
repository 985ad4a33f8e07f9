"""The application of `upcl studio`: the page on which people teach, and what it asks for."""

from __future__ import annotations

import csv
import dataclasses
import io
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import torch
from fastapi import FastAPI, File, HTTPException, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from upcl.core.errors import UpclError
from upcl.data.io.images import BrokenImageError
from upcl.model.card import write_card
from upcl.model.explanation import explain
from upcl.model.export import export_onnx
from upcl.model.file import load
from upcl.model.pictures import picture_url
from upcl.model.predictor import NONE_OF_THESE
from upcl.model.studio.description import describe, describe_photo
from upcl.model.studio.grouping import propose_groups
from upcl.model.studio.review import review
from upcl.model.studio.teacher import Teacher
from upcl.model.suggestions import suggest_photos

from .access import AccessControl
from .app import explain_validation, printable_name
from .limits import DECODING, MAX_BYTES, MAX_IMAGES, MAX_PIXELS, TIMEOUT, RequestLimits
from .studio_schemas import (
    MAX_NAME,
    ConfirmRequest,
    GroupsRequest,
    LabelRequest,
    MergeRequest,
    NameRequest,
    PhotosRequest,
    RenameRequest,
    StepRequest,
)

PAGE_FILES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; "
        "connect-src 'self'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'"
    ),
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NUM_SUGGESTIONS = 12


def make_studio_app(teacher: Teacher, token: str | None = None, timeout: float = TIMEOUT) -> FastAPI:
    """Build the application.

    Access is decided and sizes are limited as by `make_app`.

    Args:
        teacher: the model and its photos.
        token: what callers must send as a bearer token; without one, only this machine may call.
        timeout: seconds for a request to arrive.

    Example:
        >>> app = make_studio_app(Teacher(Path("birds.upcl")))  # doctest: +SKIP
        >>> uvicorn.run(app, port=8000)  # doctest: +SKIP
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=teacher.settle_when_quiet, args=(stop,), daemon=True)
        thread.start()
        yield
        stop.set()

    page = {
        entry.name: entry.read_bytes()
        for entry in (files(__package__) / "studio").iterdir()
        if entry.name.rpartition(".")[2] in PAGE_FILES
    }
    app = FastAPI(title="upcl studio", version=version("upcl"), docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(RequestLimits, max_bytes=MAX_BYTES, timeout=timeout)
    app.add_middleware(AccessControl, token=token, open_paths=("/health", *(f"/{name}" for name in page)))
    app.add_exception_handler(RequestValidationError, explain_validation)
    for kind in (UpclError, BrokenImageError):
        app.add_exception_handler(kind, _explain_error)
    app.add_exception_handler(OSError, _explain_failure)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    def show_page() -> Response:
        return Response(page["index.html"], media_type="text/html", headers=HEADERS)

    @app.get("/health")
    def health() -> dict[str, str]:
        """Check whether the service is up."""
        return {"status": "ok"}

    _add_questions(app, teacher)
    _add_proposals(app, teacher)
    _add_changes(app, teacher)
    _add_downloads(app, teacher)

    @app.get("/{name}", include_in_schema=False)
    def show_file(name: str) -> Response:
        if name not in page:
            raise HTTPException(404, "there is no such page")
        return Response(page[name], media_type=PAGE_FILES[name.rpartition(".")[2]], headers=HEADERS)

    return app


def _explain_error(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409)


def _explain_failure(_: Request, error: Exception) -> JSONResponse:
    """The disk is full, or a file is gone."""
    reason = error.strerror if isinstance(error, OSError) else None
    return JSONResponse({"detail": f"a file could not be read or written: {reason or error}"}, 500)


def _add_questions(app: FastAPI, teacher: Teacher) -> None:
    @app.get("/api/studio")
    def overview() -> dict[str, Any]:
        """The classes, the history, and how accurate the model is."""
        return describe(teacher)

    @app.get("/api/studio/photos")
    def photos(name: Annotated[str | None, Query(alias="class")] = None) -> list[dict[str, Any]]:
        """The photos of a class, or those without a label, with the answers of the model."""
        return [dataclasses.asdict(answer) for answer in teacher.answers(name)]

    @app.get("/api/studio/picture/{digest}")
    def picture(digest: str) -> Response:
        """A small picture of a photo."""
        with DECODING:
            content = teacher.picture(digest)
        if content is None:
            raise HTTPException(404, "there is no picture of this photo")
        return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=31536000"})

    @app.get("/api/studio/photo/{digest}")
    def photo(digest: str) -> dict[str, Any]:
        """What the model sees in a photo, and the photos that resemble it most."""
        return describe_photo(teacher, digest)

    @app.get("/api/studio/why/{digest}")
    def why(digest: str, name: Annotated[str | None, Query(alias="class")] = None) -> dict[str, Any]:
        """Where in a photo an answer comes from, as a picture."""
        stored = teacher.workspace.photos.get(digest)
        if stored is None or teacher.bundle is None:
            raise HTTPException(404, "the photo itself is not stored here, so its answer cannot be explained")
        with DECODING:
            found = explain(teacher.learner.predictor, stored.path, name)
        buffer = io.BytesIO()
        found.picture().save(buffer, "JPEG", quality=85)
        return {"name": found.name, "exact": found.exact, "picture": picture_url(buffer.getvalue())}


def _add_proposals(app: FastAPI, teacher: Teacher) -> None:
    @app.get("/api/studio/groups")
    def groups(
        name: Annotated[str | None, Query(alias="class")] = None, num: Annotated[int | None, Query(ge=2, le=50)] = None
    ) -> list[dict[str, Any]]:
        """Photos of a class, or without a label, grouped by similarity, with a proposed name each."""
        return [dataclasses.asdict(group) for group in propose_groups(teacher, teacher.answers(name), num)]

    @app.post("/api/studio/groups", operation_id="split")
    def split(request: GroupsRequest) -> list[dict[str, Any]]:
        """Some photos, grouped by similarity."""
        chosen = set(request.digests)
        answers = [answer for name in teacher.names_of(chosen) for answer in teacher.answers(name)]
        found = [answer for answer in answers if answer.digest in chosen]
        return [dataclasses.asdict(group) for group in propose_groups(teacher, found, request.num)]

    @app.get("/api/studio/suggestions")
    def suggestions(num: Annotated[int, Query(ge=1, le=100)] = NUM_SUGGESTIONS) -> list[dict[str, Any]]:
        """Photos to label next, with the expected gain."""
        answers = teacher.answers(None)
        bundle, digests = teacher.bundle, [answer.digest for answer in answers]
        if not digests:
            return []
        features = teacher.features(digests)
        sure = torch.tensor([0.0 if a.answer in (None, NONE_OF_THESE) else a.confidence for a in answers])
        labelled = bundle.state.exemplars.inputs if bundle else features[:0]
        chosen = suggest_photos(features, 1 - sure, labelled, num)
        return [{**dataclasses.asdict(answers[s.row]), "gain": round(s.gain, 1)} for s in chosen]

    @lru_cache(maxsize=1)
    def reviewed(_: str) -> dict[str, Any]:
        return dataclasses.asdict(review(teacher))

    @app.get("/api/studio/review")
    def show_review() -> dict[str, Any]:
        """What to look at next: doubtful labels, wrong answers, near-duplicates, outliers, classes that need photos."""
        return reviewed(teacher.version)


def _add_changes(app: FastAPI, teacher: Teacher) -> None:
    @app.post("/api/studio/photos")
    def add(
        images: Annotated[list[UploadFile], File()],
        intended: Annotated[str | None, Query(alias="class", min_length=1, max_length=MAX_NAME)] = None,
    ) -> list[dict[str, Any]]:
        """Store up to 16 photos and compute their features. They have no label until `label` follows, or until their
        upload for a class seems to be interrupted."""
        if len(images) > MAX_IMAGES:
            raise HTTPException(413, f"{len(images)} images exceed the limit of {MAX_IMAGES}")
        found: list[dict[str, Any]] = []
        stored = []
        for image in images:
            name = printable_name(image.filename or "photo")
            try:
                with DECODING:
                    photo = teacher.add(name, image.file.read(), MAX_PIXELS, intended)
            except BrokenImageError as error:
                found.append({"file": name, "digest": None, "error": str(error)})
            else:
                stored.append(photo)
                found.append({"file": name, "digest": photo.digest, "error": None})
        teacher.extract(stored)
        return found

    def change(path: str, action: Callable[[Any], None], body: type) -> None:
        def handle(request: Any) -> dict[str, Any]:
            action(request)
            return describe(teacher)

        handle.__annotations__ = {"request": body, "return": dict[str, Any]}
        handle.__doc__ = f"Change the model: {path}."
        app.post(f"/api/studio/{path}", operation_id=path)(handle)

    change("label", lambda request: teacher.label(request.digests, request.name), LabelRequest)
    change("class", lambda request: teacher.plan_class(request.name), NameRequest)
    change("rename", lambda request: teacher.rename(request.name, request.new), RenameRequest)
    change("merge", lambda request: teacher.merge(request.name, request.into), MergeRequest)
    change("forget", lambda request: teacher.forget(request.name), NameRequest)
    change("confirm", lambda request: teacher.confirm(request.digests), ConfirmRequest)
    change("discard", lambda request: teacher.discard(request.digests), PhotosRequest)
    change("undo", lambda request: teacher.undo(request.step), StepRequest)
    change("rollback", lambda request: teacher.rollback(request.step), StepRequest)


def _add_downloads(app: FastAPI, teacher: Teacher) -> None:
    def attachment(content: bytes, name: str) -> Response:
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @app.get("/api/studio/download/model")
    def model() -> Response:
        """The model file."""
        teacher.learner.require_bundle()
        return attachment(teacher.learner.path.read_bytes(), "model.upcl")

    @app.get("/api/studio/download/onnx")
    def onnx() -> Response:
        """The model as an ONNX file."""
        teacher.learner.require_bundle()
        with tempfile.TemporaryDirectory(prefix="upcl-") as folder:
            export_onnx(teacher.learner, Path(folder) / "model.onnx")
            return attachment((Path(folder) / "model.onnx").read_bytes(), "model.onnx")

    @app.get("/api/studio/download/card")
    def card() -> Response:
        """The model card, in Markdown."""
        teacher.learner.require_bundle()
        path = teacher.learner.path
        return attachment(write_card(load(path), path).encode(), "card.md")  # the file names the versions that wrote it

    @app.get("/api/studio/download/answers")
    def answers() -> Response:
        """A table of all photos with their labels and answers (CSV)."""
        rows = io.StringIO()
        table = csv.writer(rows)
        table.writerow(["photo", "file", "label", "held_out", "answer", "confidence"])
        for name in (None, *teacher.learner.classes):
            for answer in teacher.answers(name):
                cells = (answer.file, answer.label or "", answer.held_out, answer.answer or "", answer.confidence)
                table.writerow([_cell(cell) for cell in (answer.digest, *cells)])
        return attachment(rows.getvalue().encode(), "answers.csv")


def _cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
