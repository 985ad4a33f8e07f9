"""Responses of the JSON API; `/openapi.json` is generated from them."""

from __future__ import annotations

from pydantic import BaseModel


class HealthResponse(BaseModel):
    """That the service is up, and how many classes it knows."""

    status: str
    classes: int


class ClassResponse(BaseModel):
    """A class with its calibrated probability."""

    name: str
    confidence: float


class ExemplarResponse(BaseModel):
    """A stored image that resembles the given one; `nearness` is a cosine, `image` a data URL."""

    name: str
    nearness: float
    image: str


class ImageResponse(BaseModel):
    """What one image shows, or the error with which it could not be decoded."""

    file: str
    name: str | None = None
    known: bool | None = None
    familiarity: float | None = None
    top: list[ClassResponse] = []
    nearest: list[ExemplarResponse] = []
    error: str | None = None


class HistoryResponse(BaseModel):
    """One step of the model; `accuracy` is in percent of the held-out images."""

    when: str
    added: list[str]
    accuracy: float | None


class ModelResponse(BaseModel):
    """What the model knows, and its history."""

    classes: list[str]
    size: int
    false_alarm_rate: float
    history: list[HistoryResponse]
