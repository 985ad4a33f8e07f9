"""How times and sizes grow with the problem: none may grow faster than its formula."""

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
from upcl.core.timing import Measurement, Workload, growth_exponent, time_in_turns
from upcl.data.transforms import Flip, PadCrop, Transform
from upcl.nets import PrototypeHead

NUM_NEW = 10  # classes of the latest task
IMAGE_BYTES = 3 * 32 * 32


def measure_growth(repeats: int) -> Iterator[Measurement]:
    """Measure the growth of UPCL's loss terms, batches, herding and assignment, and of the bytes that are stored.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_growth(repeats=1)).name  # doctest: +SKIP
        "UPCL's loss terms by classes"
    """

    def time_growth(
        name: str, sizes: Sequence[int], make_workload: Callable[[int], Workload], expected: float
    ) -> Measurement:
        times = time_in_turns({str(size): make_workload(size) for size in sizes}, repeats)
        return growth_exponent(name, sizes, [statistics.median(seconds) for seconds in times.values()], expected)

    many, few, dims = (1000, 2000, 5000, 10_000), (10, 30, 100, 300), (512, 1024, 2048, 4096)
    yield time_growth("UPCL's loss terms by classes", many, lambda n: loss_terms(n, 512, 128), 1)
    yield time_growth("UPCL's loss terms by few classes", few, lambda n: loss_terms(n, 512, 128), 1)
    yield time_growth("UPCL's loss terms by feature dimensions", dims, lambda n: loss_terms(100, n, 128), 1)
    yield time_growth("UPCL's loss terms by batch size", (256, 512, 1024, 2048), lambda n: loss_terms(100, 512, n), 2)
    yield time_growth("drawing and augmenting a batch by stored images", (1000, 4000, 16_000, 64_000), draw_batch, 0)
    yield time_growth("herding by images per class", (500, 1000, 2000, 4000), select_exemplars, 2)
    yield time_growth("assignment by new classes: solved", (100, 200, 400, 800), solve_assignment, 3)
    yield time_growth("assignment by new classes: unchanged", (250, 500, 1000, 2000), keep_assignment, 2)
    for name, sizes, num_bytes, expected in (
        ("bytes of UPCL's head by classes", (10, 100, 1000, 10_000), head_bytes, 1),
        ("bytes saved for the gradient by classes", (10, 100, 1000, 10_000), lambda n: saved_bytes(n, 512, 128), 1),
        (
            "bytes saved for the gradient by feature dimensions",
            (64, 256, 1024, 4096),
            lambda n: saved_bytes(100, n, 128),
            1,
        ),
        ("bytes saved for the gradient by batch size", (64, 256, 1024, 2048), lambda n: saved_bytes(100, 512, n), 2),
        ("bytes of exemplars by their number", (500, 1000, 2000, 20_000), lambda n: n * IMAGE_BYTES, 1),
    ):
        yield growth_exponent(name, sizes, [float(num_bytes(n)) for n in sizes], expected)


def make_head(num_classes: int, dim: int = 512) -> PrototypeHead:
    """Create a head with random prototypes, which are quick to draw for any number of classes.

    Args:
        num_classes: number of classes.
        dim: number of feature dimensions.

    Example:
        >>> make_head(10, dim=4).vectors.shape
        torch.Size([10, 4])
    """
    torch.manual_seed(0)
    head = PrototypeHead(dim, extend_frame=extend_gaussian)
    head.grow(num_classes)
    return head


def make_loss(num_classes: int, dim: int, batch_size: int) -> Callable[[], tuple[Tensor, Tensor]]:
    """Create a function that computes UPCL's loss: centroids, assignment of the new classes, both contrasts.

    Args:
        num_classes: number of classes, at least ten.
        dim: number of feature dimensions.
        batch_size: images per batch.

    Returns:
        A function that returns the loss and the features that it depends on.

    Example:
        >>> loss, features = make_loss(10, dim=8, batch_size=4)()
        >>> loss.ndim, features.shape
        (0, torch.Size([4, 8]))
    """
    head, counts = make_head(num_classes, dim), torch.full((num_classes,), 100)
    features = torch.randn(batch_size, dim).requires_grad_()
    labels = torch.randint(0, num_classes, (batch_size,))

    def compute() -> tuple[Tensor, Tensor]:
        unit = F.normalize(features)
        head.update_centroids(unit.detach(), labels, 0.9)
        head.assign(num_classes - NUM_NEW)
        cosines = unit @ head.vectors.T
        loss = supervised_contrast(unit, labels, 0.07) + prototype_contrast(cosines, labels, 0.07, log_prior(counts))
        return loss, features

    return compute


def loss_terms(num_classes: int, dim: int, batch_size: int) -> Workload:
    """Everything that UPCL computes on top of the backbone, including gradients.

    Args:
        num_classes: number of classes.
        dim: number of feature dimensions.
        batch_size: images per batch.

    Example:
        >>> (gradient,) = loss_terms(10, dim=8, batch_size=4)()
        >>> gradient.shape
        torch.Size([4, 8])
    """
    compute = make_loss(num_classes, dim, batch_size)
    return lambda: torch.autograd.grad(*compute())


def saved_bytes(num_classes: int, dim: int, batch_size: int) -> int:
    """Count the bytes that UPCL's loss saves for its gradient.

    Args:
        num_classes: number of classes.
        dim: number of feature dimensions.
        batch_size: images per batch.

    Example:
        >>> saved_bytes(10, dim=8, batch_size=4) < saved_bytes(10, dim=8, batch_size=8)
        True
    """
    storages: dict[int, int] = {}

    def save(value: Tensor) -> Tensor:
        storages[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(save, lambda value: value):
        make_loss(num_classes, dim, batch_size)()
    return sum(storages.values())


def head_bytes(num_classes: int) -> int:
    """Count the bytes of UPCL's head.

    Args:
        num_classes: number of classes.

    Example:
        >>> head_bytes(20) > head_bytes(10)
        True
    """
    return sum(value.numel() * value.element_size() for value in make_head(num_classes).state_dict().values())


def draw_batch(num: int) -> Workload:
    """Draw a batch from stored images and augment it.

    Args:
        num: number of stored images.

    Example:
        >>> draw_batch(10)().shape
        torch.Size([256, 3, 32, 32])
    """
    stored = torch.zeros(num, 3, 32, 32, dtype=torch.uint8)
    transform = Transform((0.5,) * 3, (0.25,) * 3, (PadCrop(4), Flip(0.5)))
    return lambda: transform.train(stored[torch.randint(0, num, (256,))])


def select_exemplars(num: int) -> Workload:
    """Select exemplars of one class by herding.

    Args:
        num: number of its images.

    Example:
        >>> len(select_exemplars(50)())
        20
    """
    unit = F.normalize(torch.randn(num, 256))
    return lambda: herding(unit, 20)


def solve_assignment(num: int) -> Workload:
    """Solve an assignment from scratch.

    Args:
        num: number of new classes.

    Example:
        >>> sorted(solve_assignment(4)().tolist())
        [0, 1, 2, 3]
    """
    similarity = torch.rand(num, num)
    return lambda: optimal_assignment(similarity)


def keep_assignment(num: int) -> Workload:
    """Find that the present assignment is still the best.

    Args:
        num: number of new classes.

    Example:
        >>> keep_assignment(4)()
    """
    head = make_head(num)
    return lambda: head.assign(0)
