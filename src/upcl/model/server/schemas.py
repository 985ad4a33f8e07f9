"""Responses of the JSON API; `/openapi.json` is generated from them, with docstrings up to the form feed."""

from __future__ import annotations

from pydantic import BaseModel


class HealthResponse(BaseModel):
    """That the service is up, and how many classes it knows.\f

    Attributes:
        status: `ok`.
        classes: number of classes.

    Example:
        >>> HealthResponse(status="ok", classes=3).model_dump_json()
        '{"status":"ok","classes":3}'
    """

    status: str
    classes: int


class ClassResponse(BaseModel):
    """A class with its calibrated probability.\f

    Attributes:
        name: name of the class.
        confidence: its probability.

    Example:
        >>> ClassResponse(name="cat", confidence=0.93).model_dump()
        {'name': 'cat', 'confidence': 0.93}
    """

    name: str
    confidence: float


class ExemplarResponse(BaseModel):
    """A learned image that resembles the given one; `nearness` is a cosine, `image` a data URL if it is stored.\f

    Attributes:
        name: class of the stored image.
        nearness: cosine between the features of the two images.
        image: the stored image as a data URL; None if the model stores features only.

    Example:
        >>> ExemplarResponse(name="cat", nearness=0.98, image="data:image/png;base64,").nearness
        0.98
    """

    name: str
    nearness: float
    image: str | None


class ImageResponse(BaseModel):
    """What one image shows, or the error with which it could not be decoded.\f

    Attributes:
        file: name of the uploaded file.
        name: the most likely class, or "none of these".
        known: whether the image resembles anything learned.
        familiarity: the largest cosine to the mean of a class's exemplars.
        top: the most likely classes, the best first.
        nearest: the most similar exemplars, the nearest first.
        error: why the image could not be decoded; None if it was.

    Example:
        >>> ImageResponse(file="notes.txt", error="not a supported image format").model_dump(exclude_defaults=True)
        {'file': 'notes.txt', 'error': 'not a supported image format'}
    """

    file: str
    name: str | None = None
    known: bool | None = None
    familiarity: float | None = None
    top: list[ClassResponse] = []
    nearest: list[ExemplarResponse] = []
    error: str | None = None


class HistoryResponse(BaseModel):
    """One step of the model; `accuracy` is in percent of the held-out images.\f

    Attributes:
        when: date and time in UTC, ISO 8601.
        added: names of the new classes.
        accuracy: percent by the better reading; None if nothing was held out.

    Example:
        >>> HistoryResponse(when="2026-01-01", added=["cat", "dog"], accuracy=95.0).added
        ['cat', 'dog']
    """

    when: str
    added: list[str]
    accuracy: float | None


class ModelResponse(BaseModel):
    """What the model knows, and its history.\f

    Attributes:
        classes: names of the classes, in the order in which they were learned.
        size: height and width that images are resized to, in pixels.
        false_alarm_rate: share of held-out images of known classes that count as "none of these".
        history: one entry per step.

    Example:
        >>> ModelResponse(classes=["cat", "dog"], size=64, false_alarm_rate=0.05, history=[]).classes
        ['cat', 'dog']
    """

    classes: list[str]
    size: int
    false_alarm_rate: float
    history: list[HistoryResponse]
