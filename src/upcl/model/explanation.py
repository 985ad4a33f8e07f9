"""Where in a photo an answer comes from, as a map over its places.

Features are averages over the places of the network's last map. A linear classifier of unit features is therefore a sum
over places, and the class activation map is exact. For other classifiers it is a linear approximation.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from upcl.core.errors import UserError, unknown_choice
from upcl.nets.extractors import MapExtractor
from upcl.nets.statistics_head import StatisticsHead

from .predictor import Predictor
from .sources import ImageSource, decode_image

DIMMED = 0.35  # brightness of places without evidence
TINT = np.array([255.0, 140.0, 0.0])  # of places with evidence
MAX_TINT = 0.3
MIN_SIDE = 448  # of the picture, in pixels


@dataclass(frozen=True, eq=False)
class Explanation:
    """The evidence for a class in a photo.

    Attributes:
        name: the class.
        confidence: its calibrated probability.
        evidence: what each place adds to the score of the class, in comparison with the mean score of all classes (h x
            w); the mean over the places is the whole difference of scores, but for the bias.
        exact: whether the evidence is exact, or a linear approximation.
        image: the square that the network saw, uint8 (C x size x size).

    Example:
        >>> image = torch.zeros(3, 8, 8, dtype=torch.uint8)
        >>> explanation = Explanation("cat", 0.9, torch.tensor([[1.0, 0.0], [0.0, -1.0]]), exact=True, image=image)
        >>> explanation.picture().size
        (448, 448)
    """

    name: str
    confidence: float
    evidence: Tensor
    exact: bool
    image: Tensor

    def picture(self) -> Image.Image:
        """Draw the photo: places that speak for the class are bright and tinted, the others dimmed."""
        side = max(MIN_SIDE, self.image.shape[-1])
        strength = self.evidence.clamp(min=0) / self.evidence.max().clamp(min=1e-9)
        smooth = F.interpolate(strength[None, None], (side, side), mode="bicubic")[0, 0].clamp(0, 1).numpy()[..., None]
        colours = self.image.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
        photo = np.asarray(Image.fromarray(colours).resize((side, side), Image.Resampling.BICUBIC), dtype=np.float32)
        lit = photo * (DIMMED + (1 - DIMMED) * smooth)
        return Image.fromarray((lit + MAX_TINT * smooth * (TINT - lit)).round().astype(np.uint8))

    def png(self) -> bytes:
        """The picture as the content of a PNG file."""
        buffer = io.BytesIO()
        self.picture().save(buffer, "PNG")
        return buffer.getvalue()


def explain(predictor: Predictor, source: ImageSource, name: str | None = None) -> Explanation:
    """Explain why a model sees a class in a photo.

    Args:
        predictor: the model.
        source: the photo.
        name: the class; by default the most likely one.

    Raises:
        UserError: if the class is unknown, or the network has no map of places.
        BrokenImageError: if the photo cannot be decoded.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> predictor = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_.predictor
        >>> explain(predictor, images[0], "dog").evidence.shape
        torch.Size([2, 2])
    """
    method, state = predictor.method, predictor.state
    backbone = method.net.backbone
    if not isinstance(backbone, MapExtractor):
        raise UserError(f"the network {predictor.spec.backbone} has no map of places, so answers cannot be explained")
    if name is not None and name not in state.class_names:
        raise unknown_choice("class", name, state.class_names)
    image = decode_image(source, predictor.spec)
    predictions = predictor.predict(image[None])
    label = int(predictions.confidence[0].argmax()) if name is None else state.classes.index(name)
    with torch.no_grad():
        inputs = method.setting.transform.test(image[None].to(method.setting.device))
        maps = backbone.eval().maps(inputs)[0].float()
    features = maps.mean((1, 2))
    present = [index for index, found in enumerate(state.classes) if found is not None]
    head = method.net.head
    exact = isinstance(head, StatisticsHead) and isinstance(method.net.projector, nn.Identity) and _is_head(predictor)
    if exact:
        direction = (head.vectors[label] - head.vectors[present].mean(0)).float() / features.norm().clamp(min=1e-9)
    else:
        direction = _gradient(predictor, features, label, present)
    evidence = torch.einsum("d,dhw->hw", direction, maps)
    sure = float(predictions.confidence[0, label])
    return Explanation(str(state.classes[label]), sure, evidence.cpu(), exact, image)


def _is_head(predictor: Predictor) -> bool:
    return predictor.state.reading == "head"


def _gradient(predictor: Predictor, features: Tensor, label: int, present: list[int]) -> Tensor:
    """How the score of a class grows with the features, in comparison with the mean score of all classes."""
    point = features.clone().requires_grad_()
    with torch.enable_grad():
        scores = predictor.scoring(point[None])
        chosen = (scores.head if _is_head(predictor) else scores.nme)[0]
        (direction,) = torch.autograd.grad(chosen[label] - chosen[present].mean(), point)
    return direction
