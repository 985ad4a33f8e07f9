"""Reports composed from runs: on any runs, and on an experiment of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from upcl.research.grouping import group_by_setting
from upcl.research.paper.experiments import Experiment
from upcl.research.paper.uniformity import Uniformity

from . import figures
from .content import Report, Section
from .cost_tables import Equal
from .load import StoredRun
from .sections import make_sections


def report_on_runs(
    runs: Sequence[StoredRun],
    title: str = "Runs",
    notes: Sequence[str] = (),
    *,
    only_tables: bool = False,
    equal: Equal = "exemplars",
    budget: int | None = None,
) -> Report:
    """Report on any runs, with one chapter per data set and split into tasks.

    Args:
        runs: the runs.
        title: heading.
        notes: sentences for the top of the report.
        only_tables: leave out figures and images, which take longer to compute.
        equal: at what methods are compared in the table of memory: an equal number of exemplars, or equal total memory.
        budget: total bytes for which that table counts exemplars; by default the largest total of the runs.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> report = report_on_runs([StoredRun(Path("runs"), record)], only_tables=True)
        >>> report.summary, [section.title for section in report.sections]
        (('1 run, seed 0.',), ['Results', 'Memory and further metrics'])
    """
    sections = _chapters(runs, None, only_tables=only_tables, equal=equal, budget=budget)
    return Report(title, (_count_runs(runs), *notes), tuple(sections))


def report_on_experiment(
    experiment: Experiment,
    runs: Sequence[StoredRun],
    measurements: Sequence[Uniformity] = (),
    notes: Sequence[str] = (),
) -> Report:
    """Report on an experiment of the paper: its topics come first, with the paper's figures next to ours.

    Args:
        experiment: the experiment.
        runs: its runs.
        measurements: its measurements of prototypes.
        notes: sentences for the top of the report.

    Example:
        >>> from upcl.research.paper import experiments
        >>> from upcl.research.paper.uniformity import measure
        >>> report = report_on_experiment(experiments.load("uniformity"), [], [measure("Gaussian", 4, 8, 2)])
        >>> report.summary[0]
        'The paper claims: Orthonormal prototypes are nearly as far apart as the simplex; random directions are not.'
    """
    summary = [f"The paper claims: {experiment.claim}", *_describe_settings(experiment, runs)]
    summary += [f"On the paper's own figures: {remark}." for remark in experiment.remarks()]
    sections = list(_chapters(runs, experiment))
    if measurements:
        charts = tuple(figures.uniformity(measurements))
        description = "Line: mean over draws; band: range over draws."
        sections.insert(0, Section("uniformity", "Uniformity", description, charts=charts))
    if experiment.scale != "full":
        sections = [_stamp_scale(section, experiment.scale) for section in sections]
    return Report(experiment.title, (*summary, *notes), tuple(sections))


def _stamp_scale(section: Section, scale: str) -> Section:
    """Add the scale to the title of each figure, which may be shown without the report."""
    charts = (replace(chart, title=f"{chart.title} ({scale})") for chart in section.charts)
    return replace(section, charts=tuple(charts))


def _count_runs(runs: Sequence[StoredRun]) -> str:
    seeds = sorted({run.record.seed for run in runs})
    return f"{_plural(len(runs), 'run')}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}."


def _plural(num: int, noun: str) -> str:
    return f"{num} {noun}" if num == 1 else f"{num} {noun}s"


def _describe_settings(experiment: Experiment, runs: Sequence[StoredRun]) -> list[str]:
    """The paper's setting and ours, in sentences."""
    ours = [describe_setting(group) for _, group in _group_by_setting(runs)]
    if plan := experiment.uniformity:
        ours.append(
            f"{plan.dim} dimensions, {plan.draws} draws per generator ({plan.energy_draws} for minimum energy)."
        )
    if experiment.scale != "full":
        ours = [f"scaled down ({experiment.scale}), NOT the paper's setting: {setting}" for setting in ours]
    return [f"The paper's setting: {experiment.setting}.", *(f"Our setting: {setting}" for setting in ours)]


def describe_setting(runs: Sequence[StoredRun]) -> str:
    """Describe in a sentence what runs have in common; differences are in the notes of their tables.

    Args:
        runs: runs on the same data with the same split into tasks.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=2,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=1, epochs=1, memory="4"))
        >>> describe_setting([StoredRun(Path("runs"), record)]).partition(", memory")[2]
        ' 4, backbone small, 1 epoch per task, protocol honest, seeds 0, class orders 1993.'
    """
    configs = [run.record.config for run in runs]
    first = configs[0]
    epochs = [(config.recipes.first.epochs, config.recipes.later.epochs) for config in configs]

    def if_shared(values: Sequence[object], text: str) -> str:
        return text if all(value == values[0] for value in values) else ""

    parts = [
        f"{first.data}, {_plural(len(first.task_sizes), 'task')}",
        f"scenario {first.scenario}" if first.scenario else "",
        if_shared([config.memory for config in configs], f"memory {first.memory}"),
        if_shared([config.backbone for config in configs], f"backbone {first.backbone}"),
        if_shared(epochs, _describe_epochs(*epochs[0])),
        if_shared([config.protocol for config in configs], f"protocol {first.protocol}"),
        f"seeds {', '.join(map(str, sorted({config.seed for config in configs})))}",
        f"class orders {', '.join(map(str, sorted({config.order_seed for config in configs})))}",
    ]
    return ", ".join(part for part in parts if part) + "."


def _describe_epochs(first: int, later: int) -> str:
    if first == later:
        return f"{_plural(first, 'epoch')} per task"
    return f"{_plural(first, 'epoch')} for the first task and {later} for later ones"


def _group_by_setting(runs: Sequence[StoredRun]) -> Iterator[tuple[str, list[StoredRun]]]:
    by_id = {id(run.record): run for run in runs}
    for name, records in group_by_setting([run.record for run in runs]).items():
        yield name, [by_id[id(record)] for record in records]


def _chapters(runs: Sequence[StoredRun], experiment: Experiment | None, **choices: Any) -> Iterator[Section]:
    """The sections of each setting, the experiment's topics first; unfinished runs are left out if any is finished."""
    settings = list(_group_by_setting(runs))
    for index, (name, group) in enumerate(settings):
        prefix = f"s{index + 1}-" if len(settings) > 1 else ""
        notes = _describe_settings(experiment, group) if experiment and experiment.published else []
        sections = list(make_sections(name, group, experiment, notes, **choices))
        order = [*(experiment.section_keys if experiment else ()), *(section.key for section in sections)]
        for section in sorted(sections, key=lambda section: order.index(section.key)):
            yield replace(
                section,
                key=prefix + section.key,
                chapter=name if prefix else "",
                charts=tuple(replace(chart, key=prefix + chart.key) for chart in section.charts),
            )
