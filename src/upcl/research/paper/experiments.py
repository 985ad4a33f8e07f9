"""The experiments of the paper by name: each is a YAML file in `configs/` with its grids and the paper's results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml

from upcl.core.errors import UserError, unknown_choice
from upcl.research.grid import Grid, make_grid
from upcl.research.paper import published
from upcl.research.paper.published import TableName
from upcl.research.record import Record

Scale = Literal["full", "cpu", "quick"]
Topic = Literal["table", "curves", "memory", "imbalance", "confusion", "tsne", "uniformity"]
SECTION_KEYS = {"curves": "accuracy"}  # topics whose section of a report has another key
DATA_CHOICES = ("builtin", "cifar100")
KEYS = ("title", "claim", "setting", "remark", "topics", "contributions", "full", "cpu", "quick", "quick-cifar100")
SCALE_KEYS = ("same", "vary", "more", "published", "uniformity")


@dataclass(frozen=True)
class PublishedReference:
    """Which published table our runs are compared with, and which of its cells a scaled-down run corresponds to.

    Args:
        table: name of the published table.
        data: the paper's data set, or one per number of our tasks; None if it is the run's own.
        tasks: the paper's number of tasks by ours, where they differ.
        memory: the paper's number of exemplars by ours, where they differ.

    Example:
        >>> reference = PublishedReference("memory", data={2: "cifar100"}, tasks={2: 5}, memory={10: 500})
        >>> reference.data_for(2)
        'cifar100'
    """

    table: TableName
    data: str | Mapping[int, str] | None = None
    tasks: Mapping[int, int] | None = None
    memory: Mapping[int, int] | None = None

    def data_for(self, num_tasks: int) -> str | None:
        """The paper's data set for a run with this many tasks.

        Args:
            num_tasks: our number of tasks.
        """
        return self.data.get(num_tasks) if isinstance(self.data, Mapping) else self.data

    def lookup(self, record: Record) -> tuple[float, float | None] | None:
        """Look up the paper's A_last and A_avg for a run; None where it prints none.

        Args:
            record: the run.
        """
        if self.table == "ablation":
            return published.ablation_table().get(record.method)
        if self.table == "lambda":
            return published.lambda_table().get(record.config.options["lambda_1"])
        memory = record.config.memory
        if not memory.isdigit():
            return None
        num_tasks = len(record.task_sizes)
        data = self.data_for(num_tasks) or record.data.partition(":")[0]
        tasks = (self.tasks or {}).get(num_tasks, num_tasks)
        exemplars = (self.memory or {}).get(int(memory), int(memory))
        for cell in published.main_table() if self.table == "main" else published.memory_tables():
            if (cell.setting, cell.method) == ((data, tasks, exemplars), record.method):
                return cell.a_last, cell.a_avg
        return None


@dataclass(frozen=True)
class UniformityPlan:
    """What the uniformity experiment measures.

    Args:
        dim: number of dimensions.
        counts: numbers of prototypes.
        draws: random draws per generator and number.
        energy_draws: the same for minimum energy, which is slow.

    Example:
        >>> UniformityPlan(dim=64, counts=(10, 20), draws=5, energy_draws=1).counts
        (10, 20)
    """

    dim: int
    counts: tuple[int, ...]
    draws: int
    energy_draws: int


@dataclass(frozen=True)
class Contribution:
    """A component of a method whose contribution is measured.

    Args:
        component: what it is called.
        without: the method without it.
        including: the method that includes it.

    Example:
        >>> Contribution("dynamic margin", without="up", including="up+dm").component
        'dynamic margin'
    """

    component: str
    without: str
    including: str


@dataclass(frozen=True)
class Experiment:
    """One experiment at one scale.

    Args:
        name: name of its file.
        scale: "full", "cpu", "quick" or "quick-cifar100".
        title: heading of its report.
        claim: what the paper claims.
        setting: the paper's setting.
        topics: what it is about; these sections come first in its report.
        grid: the runs, if there are any.
        uniformity: the prototypes to measure, if there are any.
        published: where the paper's figures for the runs are.
        remark: a remark on the paper's figures.
        contributions: components whose contribution is measured.

    Example:
        >>> load("ablation").section_keys
        ['table', 'accuracy']
    """

    name: str
    scale: str
    title: str
    claim: str
    setting: str
    topics: tuple[Topic, ...]
    grid: Grid | None
    uniformity: UniformityPlan | None
    published: PublishedReference | None
    remark: str = ""
    contributions: tuple[Contribution, ...] = ()

    def remarks(self) -> list[str]:
        """Remarks on the paper's figures: the file's own, and what the audit finds in the cells we compare with."""
        remarks, table = [self.remark] if self.remark else [], self.published.table if self.published else ""
        streams = self._published_streams() if table in ("main", "memory") else None
        return remarks + [
            f"{finding.where}: {finding.what}"
            for finding in published.audit()
            if table in finding.tables and (streams is None or finding.stream is None or finding.stream in streams)
        ]

    def _published_streams(self) -> set[tuple[str, int]]:
        """Data set and number of tasks of the published cells that these runs are compared with."""
        assert self.published and self.grid
        if self.published.data:
            tasks = self.published.tasks or {}
            return {(self.published.data_for(ours) or "", theirs) for ours, theirs in tasks.items()}
        named = {str(job.request.data).partition("/T") for job in self.grid.jobs}
        return {(name, int(num)) for name, _, num in named}

    @property
    def section_keys(self) -> list[str]:
        """Keys of the report's sections that the experiment is about, in order."""
        return list(dict.fromkeys(SECTION_KEYS.get(topic, topic) for topic in self.topics))


def _folder() -> Any:
    return files(__package__) / "configs"


@cache
def names() -> tuple[str, ...]:
    """The names of all experiments.

    Example:
        >>> "ablation" in names()
        True
    """
    return tuple(sorted(path.name.removesuffix(".yaml") for path in _folder().iterdir() if path.name.endswith(".yaml")))


def _read(name: str) -> str:
    if name not in names():
        raise unknown_choice("experiment", name, names())
    text: str = (_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    return text


def description(name: str) -> str:
    """The comment at the top of an experiment's file: what it is, what the paper reports, how long it takes.

    Args:
        name: name of the experiment.

    Example:
        >>> description("lambda").partition(",")[0]
        'Six schedules of lambda_1'
    """
    lines = []
    for line in _read(name).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def load(name: str, scale: Scale = "quick", data: str = "builtin") -> Experiment:
    """Load an experiment.

    Args:
        name: name of the experiment.
        scale: "full" for the paper's setting, "cpu" for all images with a network and a recipe for CPUs, "quick" for a
            scaled-down one.
        data: what a quick experiment runs on: "builtin" or "cifar100".

    Raises:
        UserError: if there is no such experiment, or not in this form.

    Example:
        >>> experiment = load("ablation")
        >>> experiment.title, len(experiment.grid.jobs)
        ('Ablation', 21)
    """
    content = yaml.safe_load(_read(name))
    if data not in DATA_CHOICES:
        raise unknown_choice("data of quick experiments", data, DATA_CHOICES)
    if data != "builtin" and scale != "quick":
        raise UserError(f"--data selects the data of --scale quick; --scale {scale} uses the paper's own data")
    key = scale if data == "builtin" else f"{scale}-{data}"
    if key not in content:
        raise UserError(f"{name} has no version '{key}': these have one: {', '.join(names_with(scale, data))}")
    part = content[key]
    for keys, known in ((content, KEYS), (part, SCALE_KEYS)):
        for found in keys:
            if found not in known:
                raise unknown_choice(f"key of {name}.yaml", found, known)
    return Experiment(
        name=name,
        scale=key,
        title=content["title"],
        claim=content["claim"],
        setting=content["setting"],
        topics=tuple(content["topics"]),
        grid=make_grid(_grid_content(content["title"], part), f"{name}.yaml") if "vary" in part else None,
        uniformity=_uniformity(part["uniformity"]) if "uniformity" in part else None,
        published=PublishedReference(**part["published"]) if "published" in part else None,
        remark=content.get("remark", ""),
        contributions=tuple(Contribution(*each) for each in content.get("contributions", ())),
    )


def _grid_content(title: str, part: Mapping[str, Any]) -> dict[str, Any]:
    return {"title": title, **{key: part[key] for key in ("same", "vary", "more") if key in part}}


def _uniformity(part: Mapping[str, Any]) -> UniformityPlan:
    return UniformityPlan(**{**part, "counts": tuple(part["counts"])})


def names_with(scale: Scale, data: str = "builtin") -> tuple[str, ...]:
    """The names of the experiments that have this form.

    Args:
        scale: as in `load`.
        data: as in `load`.

    Example:
        >>> "uniformity" in names_with("quick"), "uniformity" in names_with("quick", "cifar100")
        (True, False)
    """
    key = scale if data == "builtin" else f"{scale}-{data}"
    return tuple(name for name in names() if key in yaml.safe_load(_read(name)))
