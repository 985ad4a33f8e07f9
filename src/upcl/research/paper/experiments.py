"""The experiments of the paper by name: each is a file in configs/paper with its grids and what the paper got."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from upcl.core.errors import UserError, unknown_choice
from upcl.research.grid import Grid, make_grid
from upcl.research.paper import published
from upcl.research.record import Record

Scale = Literal["full", "quick"]
Shows = Literal["table", "curves", "memory", "imbalance", "confusion", "tsne", "uniformity"]
SECTIONS = {"curves": "accuracy"}  # of a report, where they have other names
KEYS = ("title", "claim", "setting", "remark", "shows", "adds", "full", "quick", "quick-cifar100")
PARTS = ("same", "vary", "more", "beside", "prototypes")


@dataclass(frozen=True)
class PublishedReference:
    """Which published table stands beside ours, and which of its cells a shrunk run stands for."""

    table: Literal["main", "memory", "ablation", "lambda"]
    data: str | Mapping[int, str] | None = None
    tasks: Mapping[int, int] | None = None
    memory: Mapping[int, int] | None = None

    def data_of(self, num_tasks: int) -> str | None:
        """Their data set: one, or by our number of tasks."""
        return self.data.get(num_tasks) if isinstance(self.data, Mapping) else self.data

    def theirs(self, record: Record) -> tuple[float, float | None] | None:
        """The paper's A_last and A_avg of this run; None where it prints none."""
        if self.table == "ablation":
            return published.ablation().get(record.method)
        if self.table == "lambda":
            return published.lambda_1().get(record.config.options["lambda_1"])
        memory = record.config.memory
        if not str(memory).isdigit():
            return None
        num_tasks = len(record.task_sizes)
        data = self.data_of(num_tasks) or record.data.partition(":")[0]
        tasks = (self.tasks or {}).get(num_tasks, num_tasks)
        exemplars = (self.memory or {}).get(int(memory), int(memory))
        for cell in published.main() if self.table == "main" else published.memory():
            if (cell.setting, cell.method) == ((data, tasks, exemplars), record.method):
                return cell.a_last, cell.a_avg
        return None


@dataclass(frozen=True)
class Prototypes:
    """What the uniformity experiment draws: so many prototypes of each generator, so often."""

    dim: int
    numbers: tuple[int, ...]
    draws: int
    energy_draws: int


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale: runs (or prototypes) to make, and how to look at them."""

    name: str
    scale: str
    title: str
    claim: str
    setting: str
    shows: tuple[Shows, ...]
    grid: Grid | None
    prototypes: Prototypes | None
    beside: PublishedReference | None
    remark: str = ""
    adds: tuple[tuple[str, str, str], ...] = ()

    def remarks(self) -> list[str]:
        """What the file says of the paper's figures, and what the audit finds in those beside ours."""
        found, table = [self.remark] if self.remark else [], self.beside.table if self.beside else ""
        places = self._places() if table in ("main", "memory") else None
        return found + [
            f"{each.where}: {each.what}"
            for each in published.audit()
            if table in each.tables and (places is None or each.place is None or each.place in places)
        ]

    def _places(self) -> set[tuple[str, int]]:
        """Data and tasks of the published cells that stand beside these runs."""
        assert self.beside and self.grid
        if self.beside.data:
            tasks = self.beside.tasks or {}
            return {(self.beside.data_of(ours) or "", theirs) for ours, theirs in tasks.items()}
        named = {str(job.request.data).partition("/T") for job in self.grid.jobs}
        return {(name, int(num)) for name, _, num in named}

    @property
    def sections(self) -> list[str]:
        """The sections of a report that the experiment is about, the first first."""
        return list(dict.fromkeys(SECTIONS.get(shown, shown) for shown in self.shows))


def _folder() -> Any:
    return files(__package__) / "configs"


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(path.name.removesuffix(".yaml") for path in _folder().iterdir() if path.name.endswith(".yaml")))


def _text(name: str) -> str:
    if name not in names():
        raise unknown_choice("experiment", name, names())
    text: str = (_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    return text


def about(name: str) -> str:
    """The first lines of the file: what it is, what the paper got, how long it takes."""
    lines = []
    for line in _text(name).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def load(name: str, scale: Scale = "quick", data: str = "builtin") -> Experiment:
    """The experiment at this scale; `data` chooses what a quick one runs on: built-in data or cifar100."""
    content = yaml.safe_load(_text(name))
    if data not in ("builtin", "cifar100"):
        raise unknown_choice("data of quick experiments", data, ["builtin", "cifar100"])
    if data != "builtin" and scale == "full":
        raise UserError("--data chooses what --scale quick runs on; --scale full runs on the paper's own data")
    key = scale if data == "builtin" else f"{scale}-{data}"
    if key not in content:
        raise UserError(f"{name} has no quick form on {data}: leave --data out")
    part = content[key]
    for keys, known in ((content, KEYS), (part, PARTS)):
        for found in keys:
            if found not in known:
                raise unknown_choice(f"key of {name}.yaml", found, known)
    grid = None
    if "vary" in part:
        told = {"title": content["title"], "same": part.get("same")}
        varied = [part["vary"], *({**part["vary"], **more} for more in part.get("more", ()))]
        grids = [make_grid({**told, "vary": vary}, f"{name}.yaml") for vary in varied]
        grid = dataclasses.replace(grids[0], jobs=tuple(job for each in grids for job in each.jobs))
    return Experiment(
        name=name,
        scale=key,
        title=content["title"],
        claim=content["claim"],
        setting=content["setting"],
        shows=tuple(content["shows"]),
        grid=grid,
        prototypes=_prototypes(part["prototypes"]) if "prototypes" in part else None,
        beside=PublishedReference(**part["beside"]) if "beside" in part else None,
        remark=content.get("remark", ""),
        adds=tuple(tuple(part) for part in content.get("adds", ())),
    )


def _prototypes(part: Mapping[str, Any]) -> Prototypes:
    return Prototypes(**{**part, "numbers": tuple(part["numbers"])})


def with_cifar100() -> Iterator[str]:
    """Names of the experiments that have a quick form on CIFAR-100."""
    for name in names():
        if "quick-cifar100" in yaml.safe_load(_text(name)):
            yield name
