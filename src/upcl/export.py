"""A model for other programs: one graph from pixels to confidence, as ONNX or as torch's exported program."""

from __future__ import annotations

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

from .errors import UserError
from .files import partial_name
from .learner import Learner
from .methods import Method
from .nets import frozen

OPSET = 18


class Answering(nn.Module):
    """uint8 squares (N x size x size x channels) in; confidence of each class (N x C) and familiarity (N) out."""

    mean: Tensor
    std: Tensor
    means: Tensor
    kept: Tensor
    missing: Tensor

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        making, reader = learner.whole().making, learner.reader
        state = reader.state
        self.net = frozen(reader.method.net).cpu()
        self.by_head, self.temperature = state.reading == "head", state.calibration.temperature
        kept = [label for label, name in enumerate(state.classes) if name is not None]
        self.register_buffer("kept", torch.tensor(kept))
        self.register_buffer("means", reader.means[kept].cpu())
        self.register_buffer("missing", reader.missing[kept].cpu())
        self.register_buffer("mean", torch.tensor(making.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(making.std)[:, None, None])

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        inputs = (images.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std
        features = self.net.features(inputs)
        cosines = (F.normalize(features) @ self.means.T).masked_fill(self.missing, -1.0)
        scores = self.net.classify(features)[:, self.kept] if self.by_head else cosines
        return (scores / self.temperature).softmax(1), cosines.max(1).values


def prepared(learner: Learner) -> tuple[Answering, Tensor]:
    """The graph and an example of what goes in."""
    making = learner.whole().making
    method = learner.reader.method
    if type(method).scores is not Method.scores:
        raise UserError(f"{method.title} reads its head in a way of its own, which cannot be exported yet")
    example = torch.zeros(2, making.size, making.size, making.channels, dtype=torch.uint8)
    return Answering(learner).eval(), example


def _told(learner: Learner) -> dict[str, str]:
    """What goes with the graph: names, and how to make its squares."""
    making, state = learner.whole().making, learner.whole().state
    return {
        "classes": json.dumps(learner.classes),
        "size": str(making.size),
        "channels": "RGB" if making.channels == 3 else "grey",
        "preparation": "turn by EXIF, scale the shorter side to size, cut the middle square; uint8; the rest is inside",
        "threshold": repr(state.calibration.threshold),
    }


def to_torch(learner: Learner, path: Path) -> None:
    """`torch.export.load(path).module()(images)` answers; names are in its extra file upcl.json."""
    model, example = prepared(learner)
    batch = torch.export.Dim("batch", min=1, max=4096)
    with _without_chatter():
        program = torch.export.export(model, (example,), dynamic_shapes={"images": {0: batch}})
    partial = partial_name(path)
    try:
        with _without_chatter():
            torch.export.save(program, str(partial) + ".pt2", extra_files={"upcl.json": json.dumps(_told(learner))})
        Path(str(partial) + ".pt2").replace(path)
    finally:
        Path(str(partial) + ".pt2").unlink(missing_ok=True)


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
    """An ONNX file with names of classes and how to make squares in its metadata."""
    if missing := [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]:
        raise UserError(f"ONNX needs {missing[0]}: pip install -c constraints.txt -e '.[export]'")
    import onnx

    model, example = prepared(learner)
    with _without_chatter():
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            opset_version=OPSET,
            input_names=["images"],
            output_names=["confidence", "familiarity"],
            dynamic_shapes={"images": {0: torch.export.Dim("batch", min=1, max=4096)}},
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, _told(learner))
    partial = partial_name(path)
    try:
        onnx.save(graph, str(partial))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
