"""The model behind the service: answers to requests, a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
from torch import Tensor

from upcl.data.io.images import data_url
from upcl.model.bundle import Bundle
from upcl.model.closed_form import photo_rows
from upcl.model.learner import Learner
from upcl.model.pictures import picture_url
from upcl.model.predictor import ImagePrediction

from .limits import DECODING, MAX_PIXELS
from .schemas import ClassResponse, ExemplarResponse, HistoryResponse, ImageResponse, ModelResponse

NUM_NEAREST = 3


class Upload(NamedTuple):
    """An uploaded file: its name and its content.

    Attributes:
        name: the file name that the client sent.
        file: the content, which is read when it is needed.

    Example:
        >>> import io
        >>> upload = Upload("cat.png", io.BytesIO(b"PNG"))
        >>> upload.name, upload.file.read()
        ('cat.png', b'PNG')
    """

    name: str
    file: BinaryIO


class Service:
    """Answers requests with one model.

    Args:
        learner: the model.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> service = Service(learner)
        >>> service.describe().classes
        ['cat', 'dog']
        >>> [response.file for response in service.predict([Upload("notes.txt", io.BytesIO(b"no image"))], top=1)]
        ['notes.txt']
    """

    def __init__(self, learner: Learner) -> None:
        self.learner, self.predictor = learner, learner.predictor
        self._pictures = _find_pictures(learner.require_bundle())

    def describe(self) -> ModelResponse:
        """Describe the model: its classes and its history."""
        bundle = self.learner.require_bundle()
        return ModelResponse(
            classes=self.learner.classes,
            size=bundle.spec.size,
            false_alarm_rate=bundle.state.calibration.false_alarm_rate,
            history=[
                HistoryResponse(when=entry.when, added=list(entry.added), accuracy=entry.best_accuracy)
                for entry in bundle.history
            ],
        )

    def predict(self, uploads: Sequence[Upload], top: int) -> list[ImageResponse]:
        """Predict what uploaded images show; waits while too many requests are being processed.

        Memory is bounded: files are read only while a slot is held, and decoded one after the other. The slot is held
        until the work is done, even if the caller has given up.

        Args:
            uploads: the images.
            top: number of classes per image.
        """
        with DECODING:
            return self._predict(uploads, top)

    def _predict(self, uploads: Sequence[Upload], top: int) -> list[ImageResponse]:
        results = self.predictor.predict_files((u.file.read() for u in uploads), top=top, max_pixels=MAX_PIXELS)
        return [self._respond(upload.name, result) for upload, result in zip(uploads, results, strict=True)]

    def _respond(self, file: str, result: ImagePrediction) -> ImageResponse:
        prediction = result.prediction
        if prediction is None or result.features is None:
            return ImageResponse(file=file, error=result.error)
        ranked = zip(prediction.names, prediction.confidence, strict=True)
        return ImageResponse(
            file=file,
            name=prediction.name,
            known=prediction.known,
            familiarity=round(prediction.familiarity, 4),
            top=[ClassResponse(name=name, confidence=round(value, 6)) for name, value in ranked],
            nearest=self._nearest(result.features),
        )

    def _nearest(self, features: Tensor) -> list[ExemplarResponse]:
        state, among = self.predictor.state, list(self._pictures) or None
        return [
            ExemplarResponse(
                name=str(state.classes[int(state.exemplars.labels[index])]),
                nearness=round(cosine, 4),
                image=self._image(index),
            )
            for index, cosine in self.predictor.nearest_exemplars(features, NUM_NEAREST, among)
        ]

    def _image(self, index: int) -> str | None:
        if self.predictor.spec.features:
            return self._pictures.get(index)
        return data_url(np.asarray(self.predictor.state.exemplars.inputs[index]))


def _find_pictures(bundle: Bundle) -> dict[int, str]:
    """Pictures as URLs, by position of the photo's features among the exemplars."""
    rows = photo_rows(bundle.state.trained, bundle.state.classes) if bundle.pictures else {}
    return {row: picture_url(bundle.pictures[digest]) for (_, digest), row in rows.items() if digest in bundle.pictures}
