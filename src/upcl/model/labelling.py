"""Photos without a label: which of a folder's photos a model would learn most from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.errors import UserError
from upcl.data.io.listing import ImageFile
from upcl.data.io.paths import printable_path

from .inspection import photo_features
from .learner import Learner
from .photo_features import DIGEST_DIGITS
from .predictor import NONE_OF_THESE
from .sources import images_in_folder
from .suggestions import suggest_photos


@dataclass(frozen=True)
class PhotoToLabel:
    """A photo that a model would learn much from.

    Attributes:
        path: the file, relative to its folder.
        proposal: the class that the model sees, or "none of these".
        confidence: the probability of the most likely class.
        gain: as in `Suggestion`.

    Example:
        >>> PhotoToLabel("7.jpg", "robin", 0.41, gain=3.2).proposal
        'robin'
    """

    path: str
    proposal: str
    confidence: float
    gain: float


def photos_to_label(learner: Learner, folder: Path, num: int) -> list[PhotoToLabel]:
    """Choose photos of a folder to label next. Photos that the model knows already are left out.

    Args:
        learner: the model.
        folder: the photos, also in sub-folders.
        num: number of photos, if there are as many.

    Raises:
        UserError: if the model does not work on features of a frozen network, or no photo can be read.

    Example:
        >>> photos_to_label(Learner("birds.upcl"), Path("unsorted"), num=10)[0].proposal  # doctest: +SKIP
        'robin'
    """
    bundle = learner.require_bundle()
    photos = photo_features(bundle, [ImageFile(path, "", "train") for path in images_in_folder(folder)], learner.device)
    known = {
        digest for found in (bundle.state.trained, bundle.state.tested) for row in found.values() for digest in row
    }
    readable = photos.readable
    rows = [row for row, file in enumerate(readable) if file.digest[:DIGEST_DIGITS] not in known]
    if not rows:
        reason = "the model knows all its photos" if readable else "none of its photos can be read"
        raise UserError(f"nothing to label in {printable_path(folder)}: {reason}")
    features = photos.features[rows]
    predictions = learner.predictor.predict(features)
    best = predictions.confidence.max(1).values
    uncertainty = torch.where(predictions.known, 1 - best, 1.0)
    labelled = bundle.state.exemplars.inputs
    found = []
    for suggestion in suggest_photos(features, uncertainty, labelled, num):
        label = int(predictions.confidence[suggestion.row].argmax())
        proposal = str(bundle.state.classes[label]) if predictions.known[suggestion.row] else NONE_OF_THESE
        path = printable_path(readable[rows[suggestion.row]].path.relative_to(folder))
        found.append(PhotoToLabel(path, proposal, round(float(best[suggestion.row]), 4), round(suggestion.gain, 2)))
    return found
