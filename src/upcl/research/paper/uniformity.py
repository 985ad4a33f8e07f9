"""How far apart the prototypes of four generators lie: the smallest cosine distance of any two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import write_atomic
from upcl.core.frames import extend_gaussian, extend_orthonormal, largest_cosine, minimum_energy, simplex
from upcl.core.seeding import preserve_rng_state, seed_all

GENERATORS: dict[str, Callable[[int, int], Tensor]] = {
    "simplex (the bound)": simplex,
    "Gram-Schmidt": lambda num, dim: extend_orthonormal(torch.empty(0, dim), num),
    "minimum energy": lambda num, dim: minimum_energy(num, dim, averaged=True),
    "Gaussian": lambda num, dim: extend_gaussian(torch.empty(0, dim), num),
}


DRAWN_ONCE = "simplex (the bound)"  # the same in every draw
SLOW = "minimum energy"


@dataclass(frozen=True)
class Distance:
    """Over all draws of so many prototypes: mean and range of the smallest distance."""

    generator: str
    num: int
    dim: int
    draws: int
    mean: float
    low: float
    high: float


def measure(generator: str, num: int, dim: int, draws: int) -> Distance:
    distances = []
    with preserve_rng_state():
        for draw in range(draws):
            seed_all("uniformity", num, draw)
            distances.append(1 - largest_cosine(GENERATORS[generator](num, dim)))
    return Distance(generator, num, dim, draws, sum(distances) / draws, min(distances), max(distances))


def measure_all(path: Path, dim: int, numbers: tuple[int, ...], draws: int, energy_draws: int) -> Iterator[Distance]:
    """Every generator at every number. What stands in the file is not measured again; each new figure is saved."""
    known = {(d.generator, d.num, d.dim, d.draws): d for d in read(path)}
    for num in numbers:
        for generator in GENERATORS:
            asked = 1 if generator == DRAWN_ONCE else energy_draws if generator == SLOW else draws
            found = known.get((generator, num, dim, asked))
            if found is None:
                found = measure(generator, num, dim, asked)
                known[generator, num, dim, asked] = found
                lines = [json.dumps(asdict(distance)) for distance in known.values()]
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, ("\n".join(lines) + "\n").encode())
            yield found


def read(path: Path) -> list[Distance]:
    """The figures in a file, in the order they were measured; none where there is no file."""
    if not path.is_file():
        return []
    try:
        return [Distance(**json.loads(line)) for line in path.read_text().splitlines()]
    except (ValueError, TypeError):
        raise UserError(f"{path} is damaged: remove it to measure again") from None
