"""Runs in groups that can be compared: by setting and by configuration, and the fields in which they differ."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from upcl.methods.registry import METHODS, VARIANTS

from .record import Record

CONDITIONS = (  # fields of a config that must agree before two runs are compared; those of the recipe come on top
    "data",
    "data_sha256",
    "task_sizes",
    "memory",
    "sharing",
    "exemplars",
    "backbone",
    "protocol",
    "select",
    "validation",
    "transform",
    "precision",
    "longtail",
    "scenario",
    "shards",
)


def method_title(record: Record) -> str:
    """The title of a run's method; a method from outside of the package has only its name.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> method_title(record)
        'Finetune'
    """
    name = record.method
    if name in VARIANTS:
        return VARIANTS[name].title
    return METHODS[name].title if name in METHODS else name


def group_by_setting(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs on the same data set with the same split into tasks, in the same scenario.

    Args:
        records: the runs.

    Returns:
        The groups by a title such as "digits, 5 tasks" or "digits, 5 tasks, blurry:10".

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> records = [run(Request(method="finetune", data=data, tasks=tasks, epochs=1)) for tasks in (1, 2)]
        >>> [name.rpartition(", ")[2] for name in group_by_setting(records)]
        ['one task', '2 tasks']
    """
    settings: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        parts = [record.data, describe_tasks(record.task_sizes), record.config.scenario]
        settings[", ".join(part for part in parts if part)].append(record)
    return dict(settings)


def describe_tasks(task_sizes: Sequence[int]) -> str:
    """Describe a split into tasks.

    Args:
        task_sizes: number of classes of each task.

    Example:
        >>> describe_tasks([2, 2, 2]), describe_tasks([4, 3, 3]), describe_tasks([10])
        ('3 tasks', 'tasks of 4, 3, 3', 'one task')
    """
    if len(set(task_sizes)) > 1:
        return f"tasks of {', '.join(map(str, task_sizes))}"
    return f"{len(task_sizes)} tasks" if len(task_sizes) > 1 else "one task"


def group_runs(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs that differ only in seed and class order: the rows of a table.

    Args:
        records: the runs.

    Returns:
        The groups by the title of the method. Where a method was run with several configurations, the title lists what
        distinguishes them: options, memory, and so on.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1}
        >>> records = [run(Request(method="icarl", memory=memory, **stream)) for memory in ("4", "8")]
        >>> list(group_runs(records))
        ['iCaRL (memory=4 in total)', 'iCaRL (memory=8 in total)']
    """
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        methods[record.method].append(record)
    known = [*METHODS, *VARIANTS]
    groups: dict[str, list[Record]] = {}
    for _, runs in sorted(methods.items(), key=lambda item: known.index(item[0]) if item[0] in known else len(known)):
        fields = [{**option_fields(run), **comparison_fields(run)} for run in runs]
        differing = _differing_keys(fields)
        for run, values in zip(runs, fields, strict=True):
            suffix = ", ".join(f"{key}={values.get(key, '-')}" for key in differing)
            groups.setdefault(f"{method_title(run)} ({suffix})" if suffix else method_title(run), []).append(run)
    return groups


def option_fields(record: Record) -> dict[str, str]:
    """The options of a run's method, by name.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> option_fields(run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4")))["temperature"]
        '2.0'
    """
    return {key: str(value) for key, value in record.config.options.items()}


def comparison_fields(record: Record) -> dict[str, str]:
    """Everything that must agree before two runs can be compared, by name.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> fields = comparison_fields(record)
        >>> fields["backbone"], fields["epochs"]
        ('small', '1')
    """
    return {**condition_fields(record), **recipe_fields(record)}


def condition_fields(record: Record) -> dict[str, str]:
    """The conditions of a run without its recipe, which is the method's own at full scale.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> condition_fields(record)["task_sizes"]
        '[2, 2]'
    """
    config = record.config
    fields = {key: _text(getattr(config, key)) for key in CONDITIONS}
    fields["memory"] = config.memory if "/" in config.memory else f"{config.memory} in total"
    fields["scenario"] = config.scenario or "disjoint"
    return fields


def recipe_fields(record: Record) -> dict[str, str]:
    """The fields of a run's recipe, each with one value if all tasks share it, else with two.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> recipe_fields(record)["momentum"]
        '0.9'
    """
    recipes = record.config.recipes
    fields = {}
    for field in dataclasses.fields(recipes.first):
        first, later = (_text(getattr(recipe, field.name)) for recipe in (recipes.first, recipes.later))
        fields[field.name] = first if first == later else f"{first} then {later}"
    return fields


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _differing_keys(fields: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for each in fields for key in each)
    return [key for key in keys if len({each.get(key) for each in fields}) > 1]


def differing_fields(records: Sequence[Record]) -> dict[str, list[str]]:
    """Find the conditions and recipe fields in which runs differ: reasons not to compare them.

    Args:
        records: the runs.

    Returns:
        The values that occur, by field.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1}
        >>> records = [run(Request(method="icarl", memory=memory, **stream)) for memory in ("4", "8")]
        >>> differing_fields(records)
        {'memory': ['4 in total', '8 in total']}
    """
    fields = [comparison_fields(record) for record in records]
    return {key: list(dict.fromkeys(each.get(key, "-") for each in fields)) for key in _differing_keys(fields)}


def class_orders_differ(groups: Mapping[str, Sequence[Record]]) -> bool:
    """Whether one group of runs has other class orders than another.

    Args:
        groups: runs by configuration, as `group_runs` returns them.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> a, b = (run(Request(method="finetune", data=data, tasks=2, epochs=1, order_seed=seed)) for seed in (0, 1))
        >>> class_orders_differ({"a": [a], "b": [b]}), class_orders_differ({"a": [a, b], "b": [b, a]})
        (True, False)
    """
    return len({frozenset(map(class_order_key, runs)) for runs in groups.values()}) > 1


def class_order_key(record: Record) -> tuple[Any, ...]:
    """What determines the class order of a run: the seed, and the custom order if there is one.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> class_order_key(record)
        (1993, ())
    """
    return record.order_seed, tuple(record.config.order or ())
