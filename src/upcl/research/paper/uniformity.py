"""How far apart the prototypes of four generators lie: the smallest cosine distance between any two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import write_atomic
from upcl.core.frames import extend_gaussian, extend_orthonormal, largest_cosine, minimum_energy, simplex
from upcl.core.seeding import preserve_rng_state, seed_all

if TYPE_CHECKING:
    from .experiments import UniformityPlan

SIMPLEX, MINIMUM_ENERGY = "simplex (the bound)", "minimum energy"
GENERATORS: dict[str, Callable[[int, int], Tensor]] = {
    SIMPLEX: simplex,
    "Gram-Schmidt": lambda num, dim: extend_orthonormal(torch.empty(0, dim), num),
    MINIMUM_ENERGY: lambda num, dim: minimum_energy(num, dim, averaged=True),
    "Gaussian": lambda num, dim: extend_gaussian(torch.empty(0, dim), num),
}


@dataclass(frozen=True)
class Uniformity:
    """The smallest cosine distance between any two prototypes, over random draws.

    Args:
        generator: name of the generator.
        num: number of prototypes.
        dim: number of dimensions.
        draws: number of random draws.
        mean: mean over the draws.
        low: smallest value.
        high: largest value.

    Example:
        >>> Uniformity("Gaussian", num=10, dim=64, draws=3, mean=0.6, low=0.5, high=0.7).mean
        0.6
    """

    generator: str
    num: int
    dim: int
    draws: int
    mean: float
    low: float
    high: float


def measure(generator: str, num: int, dim: int, draws: int) -> Uniformity:
    """Measure one generator. The global random state is preserved.

    Args:
        generator: name of a generator in `GENERATORS`.
        num: number of prototypes.
        dim: number of dimensions.
        draws: number of random draws.

    Example:
        >>> round(measure("Gram-Schmidt", num=10, dim=16, draws=1).mean, 4)
        1.0
    """
    distances = []
    with preserve_rng_state():
        for draw in range(draws):
            seed_all("uniformity", num, draw)
            distances.append(1 - largest_cosine(GENERATORS[generator](num, dim)))
    return Uniformity(generator, num, dim, draws, sum(distances) / draws, min(distances), max(distances))


def measure_all(path: Path, plan: UniformityPlan) -> Iterator[Uniformity]:
    """Measure every generator for every number of prototypes.

    Args:
        path: file of measurements; those in it are not repeated, and each new one is saved to it at once.
        plan: what to measure.

    Yields:
        Each measurement as soon as it is known.

    Example:
        >>> import tempfile
        >>> from upcl.research.paper.experiments import UniformityPlan
        >>> plan = UniformityPlan(dim=8, counts=(4,), draws=2, energy_draws=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [found.generator for found in measure_all(Path(folder) / "measurements.jsonl", plan)]
        ['simplex (the bound)', 'Gram-Schmidt', 'minimum energy', 'Gaussian']
    """
    known = {(m.generator, m.num, m.dim, m.draws): m for m in read_measurements(path)}
    for num in plan.counts:
        for generator in GENERATORS:
            draws = {SIMPLEX: 1, MINIMUM_ENERGY: plan.energy_draws}.get(generator, plan.draws)
            key = generator, num, plan.dim, draws
            if key not in known:
                known[key] = measure(*key)
                lines = [json.dumps(asdict(measurement)) for measurement in known.values()]
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, ("\n".join(lines) + "\n").encode())
            yield known[key]


def read_measurements(path: Path) -> list[Uniformity]:
    """Read measurements in the order in which they were made.

    Args:
        path: the file; none are returned if it does not exist.

    Raises:
        UserError: if the file is damaged.

    Example:
        >>> read_measurements(Path("missing.jsonl"))
        []
    """
    if not path.is_file():
        return []
    try:
        return [Uniformity(**json.loads(line)) for line in path.read_text().splitlines()]
    except (ValueError, TypeError):
        raise UserError(f"{path} is damaged: remove it to repeat the measurements") from None
