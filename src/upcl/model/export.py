"""A model for other programs: one graph from photos to confidence, as ONNX or as a `torch.export` program.

Resizing and cropping inside the graph give the same integers as `upcl.data.io.images.fit_square` does with Pillow.
"""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import threading
from pathlib import Path

import torch
from torch import Tensor, nn

from upcl.core.errors import UserError
from upcl.core.files import write_atomic
from upcl.nets import frozen_copy

from .learner import Learner
from .predictor import Predictor
from .scoring import Scoring

OPSET = 18
WEIGHT_STEPS = 2**22  # Pillow's filter weights are multiples of 1 / 2^22
MAX_SIDE = 32_768  # pixels
EXAMPLE = (torch.zeros(2, 5, 7, 3, dtype=torch.uint8),)
_TRACING = threading.Lock()  # torch traces one program at a time
INPUT = "RGB, uint8, images x height x width x 3, any height and width, after EXIF rotation; all else is in the graph"


def export_torch(learner: Learner, path: Path) -> None:
    """Write a `torch.export` program.

    `torch.export.load(path).module()(images)` returns confidence and familiarity; names of classes and the threshold
    are in its extra file `upcl.json`.

    Args:
        learner: the model.
        path: the file to create or replace, by convention `*.pt2`.

    Example:
        >>> export_torch(Learner("birds.upcl"), Path("birds.pt2"))  # doctest: +SKIP
    """
    with _TRACING:
        program = torch.export.export(
            PhotoClassifier(learner.predictor).eval(), EXAMPLE, dynamic_shapes=_dynamic_shapes()
        )
    buffer = io.BytesIO()  # on a full disk, PyTorch's own writer of files ends the process
    torch.export.save(program, buffer, extra_files={"upcl.json": json.dumps(_metadata(learner))})
    write_atomic(path, buffer.getbuffer())


def export_onnx(learner: Learner, path: Path) -> None:
    """Write an ONNX file; names of classes and the threshold are in its metadata.

    Args:
        learner: the model.
        path: the file to create or replace, by convention `*.onnx`.

    Raises:
        UserError: if a package of the extra `export` is missing.

    Example:
        >>> export_onnx(Learner("birds.upcl"), Path("birds.onnx"))  # doctest: +SKIP
    """
    if missing := [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]:
        raise UserError(f"exporting to ONNX needs {missing[0]}: pip install 'upcl[export]'")
    import onnx

    with _TRACING:
        program = torch.onnx.export(
            PhotoClassifier(learner.predictor).eval(),
            EXAMPLE,
            dynamo=True,
            opset_version=OPSET,
            input_names=["images"],
            output_names=["confidence", "familiarity"],
            dynamic_shapes=_dynamic_shapes(),
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, _metadata(learner))
    write_atomic(path, graph.SerializeToString())


class PhotoClassifier(nn.Module):
    """uint8 RGB photos of any size (N x H x W x 3) in; confidence per class (N x C) and familiarity (N) out.

    Preprocessing is part of the module; scores and calibration are those of the predictor. Removed classes have no
    column.

    Args:
        predictor: the model.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> photos = torch.zeros(5, 30, 20, 3, dtype=torch.uint8)
        >>> confidence, familiarity = PhotoClassifier(learner.predictor)(photos)
        >>> confidence.shape, familiarity.shape
        (torch.Size([5, 2]), torch.Size([5]))
    """

    mean: Tensor
    std: Tensor
    present: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        spec, state = predictor.spec, predictor.state
        method = copy.copy(predictor.method)
        method.net = frozen_copy(predictor.method.net).cpu()
        features = predictor.method.extract(state.exemplars).cpu()
        self.size, self.scoring = spec.size, Scoring(method, state, features)
        present = [label for label, name in enumerate(state.classes) if name is not None]
        self.register_buffer("present", torch.tensor(present))
        self.register_buffer("mean", torch.tensor(spec.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(spec.std)[:, None, None])

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Classify photos.

        Args:
            images: uint8 RGB photos (N x H x W x 3).
        """
        squares = middle_square(images.permute(0, 3, 1, 2), self.size)
        squares = to_grey(squares) if len(self.mean) == 1 else squares
        scores = self.scoring(self.scoring.net.features((squares / 255 - self.mean) / self.std))
        return scores.confidence[:, self.present].float(), scores.familiarity


def middle_square(photos: Tensor, size: int) -> Tensor:
    """Resize the shorter side to `size` and crop the middle square, exactly as Pillow does.

    Sums in double precision are exact, so halves are rounded as in Pillow's integer arithmetic.

    Args:
        photos: photos (N x C x H x W) with values from 0 to 255.
        size: height and width of the result.

    Returns:
        Squares (N x C x size x size) of whole numbers from 0 to 255, as floats.

    Example:
        >>> photo = torch.arange(8, dtype=torch.uint8).view(1, 1, 2, 4)
        >>> middle_square(photo, 2).tolist()
        [[[[1.0, 2.0], [5.0, 6.0]]]]
    """
    rows, columns = (torch.arange(length, device=photos.device) for length in photos.shape[2:])
    side = torch.minimum(rows[-1:], columns[-1:]) + 1
    narrow = (photos.double() @ _filter_weights(columns, side, size).T + 0.5).floor()
    return (_filter_weights(rows, side, size) @ narrow + 0.5).floor().float()


def _filter_weights(positions: Tensor, side: Tensor, size: int) -> Tensor:
    """Weights (size x length) of an antialiased bilinear filter.

    They turn the middle `side` pixels of a line into `size` pixels. Centres and distances are whole multiples of
    1 / (2 size) pixel, and weights are multiples of 1 / WEIGHT_STEPS.
    """
    begin = positions[-1:] + 1 - side  # in half pixels
    centres = size * begin + (2 * torch.arange(size, device=positions.device) + 1) * side
    distances = (size * (2 * positions + 1) - centres[:, None]).abs()
    weights = (2 * side.clamp(min=size) - distances).clamp(min=0).double()
    return (weights / weights.sum(1, keepdim=True) * WEIGHT_STEPS + 0.5).floor() / WEIGHT_STEPS


def to_grey(photos: Tensor) -> Tensor:
    """Convert RGB images to grey, exactly as Pillow does.

    Args:
        photos: images (N x 3 x H x W) of whole numbers from 0 to 255.

    Returns:
        Grey images (N x 1 x H x W).

    Example:
        >>> to_grey(torch.tensor([255.0, 0.0, 0.0]).view(1, 3, 1, 1)).item()
        76.0
    """
    shares = torch.tensor([19595.0, 38470.0, 7471.0], device=photos.device)[:, None, None] / 65536
    return ((photos * shares).sum(1, keepdim=True) + 0.5).floor()


def _metadata(learner: Learner) -> dict[str, str]:
    """Names of the columns, the expected input, and the familiarity below which an image is "none of these"."""
    return {
        "classes": json.dumps(learner.classes),
        "input": INPUT,
        "threshold": repr(learner.require_bundle().state.calibration.threshold),
    }


def _dynamic_shapes() -> dict[str, dict[int, torch.export.Dim]]:
    """Dimensions that may vary from call to call."""
    batch = torch.export.Dim("batch", min=1, max=4096)
    height, width = (torch.export.Dim(name, min=1, max=MAX_SIDE) for name in ("height", "width"))
    return {"images": {0: batch, 1: height, 2: width}}
