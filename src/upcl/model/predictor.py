"""Predictions: the one path from an image to class names with confidence, for `predict`, `serve` and scikit-learn."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.errors import TrainingError
from upcl.core.types import Samples
from upcl.data.io.images import BrokenImageError
from upcl.methods import Method

from .bundle import ModelSpec, ModelState
from .scoring import Scoring
from .sources import ImageSource, decode_image, split_images

NONE_OF_THESE = "none of these"
BATCH_SIZE = 64
NUM_COMPARED = 4096  # exemplars that are compared with an image at a time


@dataclass(frozen=True)
class Prediction:
    """What one image shows.

    Attributes:
        names: names of classes, the most likely first.
        confidence: their calibrated probabilities.
        familiarity: how much the image resembles the nearest class, a cosine.
        known: whether the image resembles anything learned: its familiarity reaches the threshold, and the most likely
            class is not one of other things, which is called "none of these" itself.

    Example:
        >>> Prediction(("cat", "dog"), (0.6, 0.4), familiarity=0.2, known=False).name
        'none of these'
    """

    names: tuple[str, ...]
    confidence: tuple[float, ...]
    familiarity: float
    known: bool

    @property
    def name(self) -> str:
        """The most likely class, or "none of these" for an image that resembles nothing learned."""
        return self.names[0] if self.known else NONE_OF_THESE


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for N images, over the C labels of a model.

    Attributes:
        features: features of unit length (N x d).
        scores: scores by reading, `head` and `nme` (N x C); -inf for removed classes.
        confidence: calibrated probabilities (N x C); 0 for removed classes.
        familiarity: how much an image resembles the nearest class, a cosine (N).
        known: whether an image resembles anything learned (N).
        classes: names of the classes by label; None for a removed class.

    Example:
        >>> scores = torch.tensor([[2.0, 1.0]])
        >>> predictions = Predictions(
        ...     features=torch.tensor([[1.0, 0.0]]),
        ...     scores={"head": scores, "nme": scores},
        ...     confidence=scores.softmax(1),
        ...     familiarity=torch.tensor([0.9]),
        ...     known=torch.tensor([True]),
        ...     classes=("cat", "dog"),
        ... )
        >>> predictions.top(1)[0].name
        'cat'
    """

    features: Tensor
    scores: dict[str, Tensor]
    confidence: Tensor
    familiarity: Tensor
    known: Tensor
    classes: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.features)

    def top(self, k: int = 5) -> list[Prediction]:
        """Return the `k` most likely classes of each image, or all classes if there are fewer.

        Args:
            k: the number of classes.
        """
        num_present = sum(name is not None for name in self.classes)
        values, labels = self.confidence.topk(min(k, num_present), 1)
        rows = zip(labels.tolist(), values.tolist(), self.familiarity.tolist(), self.known.tolist(), strict=True)
        found = []
        for row, sure, familiarity, known in rows:
            names = tuple(str(self.classes[label]) for label in row)
            found.append(Prediction(names, tuple(sure), familiarity, known and names[0] != NONE_OF_THESE))
        return found


@dataclass(frozen=True, eq=False)
class ImagePrediction:
    """The prediction for one image source, or the reason why it could not be decoded.

    Attributes:
        source: the image as it was given.
        prediction: what it shows; None if it could not be decoded.
        features: its features of unit length (d), for `Predictor.nearest_exemplars`.
        error: why it could not be decoded.

    Example:
        >>> failed = ImagePrediction(b"plain text", error="not a supported image format")
        >>> failed.prediction is None, failed.error
        (True, 'not a supported image format')
    """

    source: ImageSource
    prediction: Prediction | None = None
    features: Tensor | None = None
    error: str = ""


class Predictor:
    """A model ready to predict. Several threads may share it: one forward pass runs at a time.

    Args:
        method: the method with the weights of the state.
        spec: what the model was created with: the size and the channels of its images.
        state: classes, exemplars, reading and calibration.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> classifier = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4)
        >>> predictor = classifier.learner_.predictor
        >>> predictions = predictor.predict(torch.from_numpy(images[:, None]))
        >>> predictions.confidence.shape, sorted(predictions.top(2)[0].names)
        (torch.Size([8, 2]), ['cat', 'dog'])
        >>> [result.prediction is None for result in predictor.predict_files([images[0], b"not an image"])]
        [False, True]
    """

    @torch.no_grad()
    def __init__(self, method: Method[Any], spec: ModelSpec, state: ModelState) -> None:
        self.method, self.spec, self.state = method, spec, state
        features = (
            state.exemplars.inputs.to(method.setting.device) if spec.features else method.extract(state.exemplars)
        )
        self.scoring = Scoring(method, state, features)
        self.exemplar_features = features.cpu()
        self._lock = threading.Lock()

    @torch.no_grad()
    def predict(self, images: Tensor) -> Predictions:
        """Predict from decoded images.

        Args:
            images: uint8 images (N x C x size x size), or features of the model's frozen backbone (N x d).

        Raises:
            ValueError: if the images have another shape than the model's.
            TrainingError: if the weights are finite, but too large to compute with.
        """
        expected = (self.spec.channels, self.spec.size, self.spec.size)
        if images.shape[1:] != expected and not (self.spec.features and images.ndim == 2):
            raise ValueError(f"expected images of shape {expected}, got {tuple(images.shape[1:])}")
        with self._lock:
            parts = (Samples(part, torch.zeros(len(part), dtype=torch.int64)) for part in split_images(images))
            features = torch.cat([self.method.extract(part) for part in parts])
            scores = self.scoring(features)
        if not bool(scores.confidence.isfinite().all() and scores.familiarity.isfinite().all()):
            raise TrainingError("the scores of the model are not finite: its weights are too large to compute with")
        familiarity = scores.familiarity.cpu()
        return Predictions(
            features=F.normalize(features).cpu(),
            scores={"head": scores.head.cpu(), "nme": scores.nme.cpu()},
            confidence=scores.confidence.cpu(),
            familiarity=familiarity,
            known=familiarity.double() >= self.state.calibration.threshold,
            classes=self.state.classes,
        )

    def predict_files(
        self, sources: Iterable[ImageSource], *, top: int = 5, max_pixels: int | None = None, num_workers: int = 1
    ) -> Iterator[ImagePrediction]:
        """Decode images and predict in batches; an image that cannot be decoded does not stop the others.

        Args:
            sources: files, contents of files, or arrays of pixels.
            top: number of classes per image.
            max_pixels: reject larger images; by default the limit of `upcl.data.io.images`.
            num_workers: number of threads that decode.

        Yields:
            One result per source, in the given order.
        """
        waiting = iter(sources)
        with ThreadPoolExecutor(num_workers) as pool:
            while batch := list(islice(waiting, BATCH_SIZE)):
                decoded = pool.map(lambda source: self._decode(source, max_pixels), batch)
                yield from self._predict_batch(batch, list(decoded), top)

    def _decode(self, source: ImageSource, max_pixels: int | None) -> Tensor | str:
        """The image, or what is wrong with it: an error itself would keep the content in memory by its traceback."""
        try:
            return decode_image(source, self.spec, max_pixels)
        except BrokenImageError as error:
            return str(error)

    def _predict_batch(
        self, sources: Sequence[ImageSource], decoded: Sequence[Tensor | str], top: int
    ) -> Iterator[ImagePrediction]:
        images = [image for image in decoded if isinstance(image, Tensor)]
        if images:
            predictions = self.predict(torch.stack(images))
            results = zip(predictions.top(top), predictions.features, strict=True)
        for source, image in zip(sources, decoded, strict=True):
            if isinstance(image, Tensor):
                yield ImagePrediction(source, *next(results))
            else:
                yield ImagePrediction(source, error=image)

    def nearest_exemplars(
        self, features: Tensor, k: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Find the stored exemplars that resemble an image most.

        Args:
            features: features of unit length of one image (d).
            k: the number of exemplars, if there are as many.
            among: positions of the exemplars to choose from; by default all.

        Returns:
            Positions in `state.exemplars` with cosines, the largest first.
        """
        positions = torch.arange(len(self.exemplar_features)) if among is None else torch.tensor(among).long()
        parts = [F.normalize(self.exemplar_features[part].float()) @ features for part in positions.split(NUM_COMPARED)]
        cosines, indices = torch.cat(parts).topk(min(k, len(positions)))
        return list(zip(positions[indices].tolist(), cosines.tolist(), strict=True))
