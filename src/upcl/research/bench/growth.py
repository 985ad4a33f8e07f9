"""How times and sizes grow: each must follow its formula and no worse."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.frames import extend_gaussian
from upcl.core.losses import log_prior, prototype_contrast, supervised_contrast
from upcl.core.matching import optimal_assignment
from upcl.core.memory import herding
from upcl.data.transforms import Flip, PadCrop, Transform
from upcl.nets import PrototypeHead

from .timing import Row, Work, growth_of, interleaved

NEW = 10  # classes of the latest task


def growth(repeats: int) -> Iterator[Row]:
    """Time of UPCL's terms, of drawing batches, of herding and assignment; and bytes that are stored or kept."""

    def over(name: str, sizes: Sequence[int], work_of: Callable[[int], Work], formula: float) -> Row:
        times = interleaved({str(n): work_of(n) for n in sizes}, repeats)
        return growth_of(name, sizes, [statistics.median(seconds) for seconds in times.values()], formula)

    yield over("UPCL's terms over classes", (1000, 2000, 5000, 10_000), lambda n: terms(n, 512, 128), 1)
    yield over("UPCL's terms over few classes", (10, 30, 100, 300), lambda n: terms(n, 512, 128), 1)
    yield over("UPCL's terms over feature dimensions", (512, 1024, 2048, 4096), lambda n: terms(100, n, 128), 1)
    yield over("UPCL's terms over the batch", (256, 512, 1024, 2048), lambda n: terms(100, 512, n), 2)
    yield over("drawing and augmenting a batch over stored images", (1000, 4000, 16_000, 64_000), drawing, 0)
    yield over("herding over images of a class", (500, 1000, 2000, 4000), herding_work, 2)
    yield over("assignment over new classes: solved", (100, 200, 400, 800), solved, 3)
    yield over("assignment over new classes: unchanged", (250, 500, 1000, 2000), unchanged, 2)
    for name, sizes, bytes_of, formula in (
        ("bytes of UPCL's head over classes", (10, 100, 1000, 10_000), stored, 1),
        ("bytes kept for the gradient over classes", (10, 100, 1000, 10_000), lambda n: kept(n, 512, 128), 1),
        ("bytes kept for the gradient over feature dimensions", (64, 256, 1024, 4096), lambda n: kept(100, n, 128), 1),
        ("bytes kept for the gradient over the batch", (64, 256, 1024, 2048), lambda n: kept(100, 512, n), 2),
        ("bytes of stored exemplars over their number", (500, 1000, 2000, 20_000), lambda n: n * 3 * 32 * 32, 1),
    ):
        yield growth_of(name, sizes, [float(bytes_of(n)) for n in sizes], formula)


def head_of(num_classes: int, dim: int) -> PrototypeHead:
    torch.manual_seed(0)
    head = PrototypeHead(dim, extend_frame=extend_gaussian)
    head.grow(num_classes)
    return head


def loss_of(num_classes: int, dim: int, batch: int) -> Callable[[], tuple[Tensor, Tensor]]:
    """UPCL's loss of features, and the features: centroids, matching of the latest classes, both contrasts."""
    head, counts = head_of(num_classes, dim), torch.full((num_classes,), 100)
    features = torch.randn(batch, dim).requires_grad_()
    labels = torch.randint(0, num_classes, (batch,))

    def work() -> tuple[Tensor, Tensor]:
        unit = F.normalize(features)
        head.update_centroids(unit.detach(), labels, 0.9)
        head.assign(num_classes - NEW)
        cosines = unit @ head.vectors.T
        loss = supervised_contrast(unit, labels, 0.07) + prototype_contrast(cosines, labels, 0.07, log_prior(counts))
        return loss, features

    return work


def terms(num_classes: int, dim: int, batch: int) -> Work:
    """All that UPCL does beside the backbone, with gradients."""
    loss = loss_of(num_classes, dim, batch)
    return lambda: torch.autograd.grad(*loss())


def kept(num_classes: int, dim: int, batch: int) -> int:
    """Bytes of what UPCL's loss keeps until its gradient is taken."""
    storages: dict[int, int] = {}

    def keep(value: Tensor) -> Tensor:
        storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        loss_of(num_classes, dim, batch)()
    return sum(storages.values())


def drawing(num: int) -> Work:
    stored = torch.zeros(num, 3, 32, 32, dtype=torch.uint8)
    transform = Transform((0.5,) * 3, (0.25,) * 3, (PadCrop(4), Flip(0.5)))
    return lambda: transform.train(stored[torch.randint(0, num, (256,))])


def herding_work(num: int) -> Work:
    unit = F.normalize(torch.randn(num, 256))
    return lambda: herding(unit, 20)


def solved(num: int) -> Work:
    similarity = torch.rand(num, num)
    return lambda: optimal_assignment(similarity)


def unchanged(num: int) -> Work:
    head = head_of(num, 512)
    return lambda: head.assign(0)


def stored(num_classes: int) -> int:
    return sum(value.numel() * value.element_size() for value in head_of(num_classes, 512).state_dict().values())
