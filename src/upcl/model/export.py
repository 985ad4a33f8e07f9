"""A model for other programs: one graph from a photo's pixels to confidence, as ONNX or as torch's exported program.

The graph scales and cuts as `data.pixels.fit_square` does with Pillow, to the same whole numbers.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.errors import UserError
from upcl.core.files import atomic_path
from upcl.nets import frozen_copy

from .learner import Learner

OPSET = 18
PARTS = 2**22  # Pillow's weights are whole numbers of these
LONGEST = 32_768  # pixels of a side
EXAMPLE = (torch.zeros(2, 5, 7, 3, dtype=torch.uint8),)


def _triangles(places: Tensor, side: Tensor, size: int) -> Tensor:
    """Weights (size x length) of an antialiased bilinear filter, by which a line's middle `side` becomes `size` pixels.

    Centres and distances are whole numbers of 1 / (2 size) pixel, and weights are whole numbers of 1 / PARTS.
    """
    begin = places[-1:] + 1 - side  # in half pixels
    centres = size * begin + (2 * torch.arange(size, device=places.device) + 1) * side
    distances = (size * (2 * places + 1) - centres[:, None]).abs()
    weights = (2 * side.clamp(min=size) - distances).clamp(min=0).double()
    return (weights / weights.sum(1, keepdim=True) * PARTS + 0.5).floor() / PARTS


def middle_square(photos: Tensor, size: int) -> Tensor:
    """The shorter side scaled to `size` and the middle square cut out: N x C x H x W to N x C x size x size, 0 to 255.

    Sums in double precision are exact, so that halves are rounded as Pillow's whole numbers are.
    """
    rows, columns = (torch.arange(length, device=photos.device) for length in photos.shape[2:])
    side = torch.minimum(rows[-1:], columns[-1:]) + 1
    narrow = (photos.double() @ _triangles(columns, side, size).T + 0.5).floor()
    return (_triangles(rows, side, size) @ narrow + 0.5).floor().float()


def grey(photos: Tensor) -> Tensor:
    """N x 3 x H x W of whole numbers to N x 1 x H x W, as Pillow does."""
    shares = torch.tensor([19595.0, 38470.0, 7471.0], device=photos.device)[:, None, None] / 65536
    return ((photos * shares).sum(1, keepdim=True) + 0.5).floor()


class Answering(nn.Module):
    """uint8 RGB photos of any size (N x H x W x 3) in; confidence of each class (N x C) and familiarity (N) out."""

    mean: Tensor
    std: Tensor
    means: Tensor
    kept: Tensor
    missing: Tensor

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        spec, reader = learner.require_bundle().spec, learner.reader
        state = reader.state
        self.net, self.size = frozen_copy(reader.method.net).cpu(), spec.size
        self.method = copy.copy(reader.method)  # for its way to read the head
        self.method.net = self.net
        self.by_head, self.temperature = state.reading == "head", state.calibration.temperature
        kept = [label for label, name in enumerate(state.classes) if name is not None]
        self.register_buffer("kept", torch.tensor(kept))
        self.register_buffer("means", reader.means[kept].cpu())
        self.register_buffer("missing", reader.missing[kept].cpu())
        self.register_buffer("mean", torch.tensor(spec.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(spec.std)[:, None, None])

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        squares = middle_square(images.permute(0, 3, 1, 2), self.size)
        squares = grey(squares) if len(self.mean) == 1 else squares
        features = self.net.features((squares / 255 - self.mean) / self.std)
        cosines = (F.normalize(features) @ self.means.T).masked_fill(self.missing, -1.0)
        scores = self.method.scores(features)[:, self.kept] if self.by_head else cosines
        return (scores / self.temperature).softmax(1), cosines.max(1).values


def _told(learner: Learner) -> dict[str, str]:
    """What goes with the graph: names, what it takes, and from which familiarity on an image is like one learned."""
    return {
        "classes": json.dumps(learner.classes),
        "input": "RGB, uint8, images x height x width x 3, any height and width, turned by EXIF; all else is inside",
        "threshold": repr(learner.require_bundle().state.calibration.threshold),
    }


def _shapes() -> dict[str, dict[int, torch.export.Dim]]:
    """What may vary from call to call."""
    batch = torch.export.Dim("batch", min=1, max=4096)
    height, width = (torch.export.Dim(name, min=1, max=LONGEST) for name in ("height", "width"))
    return {"images": {0: batch, 1: height, 2: width}}


def to_torch(learner: Learner, path: Path) -> None:
    """`torch.export.load(path).module()(images)` answers; names are in its extra file upcl.json."""
    with _without_chatter():
        program = torch.export.export(Answering(learner).eval(), EXAMPLE, dynamic_shapes=_shapes())
    with atomic_path(path, suffix=".pt2") as partial, _without_chatter():
        torch.export.save(program, partial, extra_files={"upcl.json": json.dumps(_told(learner))})


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Not for users: what torch's exporter says of its own deprecations and of packages that it could use."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(before)


def to_onnx(learner: Learner, path: Path) -> None:
    """An ONNX file with names of classes and what it takes in its metadata."""
    if missing := [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]:
        raise UserError(f"ONNX needs {missing[0]}: pip install -c constraints.txt -e '.[export]'")
    import onnx

    with _without_chatter():
        program = torch.onnx.export(
            Answering(learner).eval(),
            EXAMPLE,
            dynamo=True,
            opset_version=OPSET,
            input_names=["images"],
            output_names=["confidence", "familiarity"],
            dynamic_shapes=_shapes(),
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, _told(learner))
    with atomic_path(path) as partial:
        onnx.save(graph, str(partial))
