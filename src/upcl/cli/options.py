"""Options that several commands share, and the request that they describe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upcl.core.errors import UserError

if TYPE_CHECKING:
    from upcl.research.config import Request

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class NonEmptyPath(click.Path):
    """The type of a path on the command line: an empty text is refused, which Python would take for this folder.

    Example:
        >>> NonEmptyPath(path_type=Path).convert("photos", None, None).name
        'photos'
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check and convert a value.

        Args:
            value: the text.
            param: the option or argument.
            ctx: the command.
        """
        if not str(value) or "\0" in str(value):
            self.fail("it is empty" if not str(value) else "it contains a null character", param, ctx)
        if str(value).startswith("~"):  # as it stands in quotes or in a script
            from upcl.data.io.paths import expand_home

            value = expand_home(value)
        return super().convert(value, param, ctx)


class FiniteFloat(click.types.FloatParamType):
    """The type of a number on the command line: neither nan nor infinite, which would pass for a limit that never acts.

    Example:
        >>> FiniteFloat().convert("0.5", None, None)
        0.5
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Check and convert a value.

        Args:
            value: the text.
            param: the option.
            ctx: the command.
        """
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


PATH = NonEmptyPath(path_type=Path)
FINITE = FiniteFloat()

DEVICE = click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1 or mps.")
DATA_ROOT = click.option(
    "--data-root",
    type=PATH,
    show_default="$UPCL_DATA, else a cache folder",
    help="Folder that holds the data sets.",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Number of parallel runs; they share the cores.",
)
SETTINGS = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a field of the method (`upcl show METHOD` lists them) or of its recipe (recipe.lr=0.05). Repeatable.",
)
MODEL = click.option("--model", required=True, type=PATH, help="The model file (*.upcl).")
MODEL_FILE = click.argument("model", type=PATH)
FORMAT = click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "csv", "latex", "json", "png", "svg", "pdf"]),
    default="html",
    show_default=True,
    help="html: a page; md, csv, latex, json: the tables; png, svg, pdf: one file per figure.",
)

SPREADSHEET_SAFE = click.option(
    "--spreadsheet-safe", is_flag=True, help="In CSV, put an apostrophe before what a spreadsheet would compute."
)


def _default(text: str) -> dict[str, Any]:
    return {"show_default": text}


RUN_OPTIONS = (
    click.option("--data", metavar="NAME", **_default("digits"), help="Data set; `upcl datasets` lists them."),
    click.option(
        "--tasks",
        metavar="TASKS",
        **_default("the data set's"),
        help="Number of tasks (5), or classes per task (4,3,3).",
    ),
    click.option(
        "--memory",
        metavar="BUDGET",
        **_default("the data set's"),
        help="Exemplar budget: 2000, 20/class, 50MB, or 50MB-total with the network.",
    ),
    click.option(
        "--exemplars", metavar="RULE", **_default("herding"), help="Exemplar selection: herding, random or closest."
    ),
    click.option("--seed", type=int, metavar="N", **_default("0"), help="Seed of initialisation and sampling."),
    click.option("--order-seed", type=int, metavar="N", **_default("1993"), help="Seed of the class order."),
    click.option(
        "--order",
        metavar="CLASSES",
        help="Custom class order: names or numbers (cat,dog,owl), or a file with one per line.",
    ),
    click.option(
        "--epochs",
        type=int,
        metavar="N",
        **_default("the recipe's"),
        help="Epochs per task; milestones and warm-up scale.",
    ),
    click.option("--backbone", metavar="NAME", **_default("the data set's"), help="Feature extractor."),
    click.option(
        "--frozen",
        is_flag=True,
        default=None,
        help="Use features of a pretrained backbone (`upcl backbones`), computed once.",
    ),
    click.option(
        "--recipe",
        metavar="NAME",
        **_default("the data set's"),
        help="own (the method's), paper (one for all methods) or quick.",
    ),
    click.option(
        "--protocol", metavar="NAME", **_default("honest"), help="honest, or paper (the choices of the official code)."
    ),
    click.option(
        "--select",
        metavar="RULE",
        **_default("the protocol's"),
        help="Epoch that each task keeps: last, validation, or test (which leaks test data).",
    ),
    click.option(
        "--validation",
        type=FINITE,
        metavar="FRACTION",
        **_default("0.1"),
        help="Fraction of training data for --select validation.",
    ),
    click.option(
        "--precision",
        metavar="TYPE",
        **_default("auto for --recipe quick, else float32"),
        help="Backbone precision: float32, bfloat16, or auto (the faster one, measured once).",
    ),
    click.option(
        "--longtail",
        metavar="PROFILE",
        **_default("balanced"),
        help="Long-tailed data: exp:0.01, step:0.1, exp:0.01:ordered.",
    ),
    click.option(
        "--scenario",
        metavar="NAME",
        **_default("disjoint"),
        help="How classes and images arrive: half, blurry:10, repeat:50, online; `upcl scenarios` lists them.",
    ),
    click.option(
        "--shards",
        type=int,
        metavar="N",
        **_default("1"),
        help="Parts of every batch; 2, 4, ... processes may share them with equal results.",
    ),
    SETTINGS,
    click.option("--config", type=PATH, help="YAML file with the same keys; options override it."),
)
"""Options that describe a run: all but `--set` and `--config` have the name of a field of `Request`."""

GRID_OPTIONS = (
    JOBS,
    click.option(
        "--on",
        type=click.Choice(["local", "dask", "slurm"]),
        default="local",
        show_default=True,
        help="Where to run: this machine, a dask cluster, or Slurm (extra `cluster`).",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="dask scheduler, such as tcp://host:8786."),
    click.option(
        "--gpus",
        type=click.IntRange(0),
        metavar="N",
        default=0,
        show_default=True,
        help="GPUs of each run on a cluster.",
    ),
    click.option(
        "--slurm",
        multiple=True,
        metavar="KEY=VALUE",
        help="time (minutes), cpus, memory (GB), partition, account, qos, ... Repeatable.",
    ),
    DEVICE,
    DATA_ROOT,
    click.option(
        "--dry-run", is_flag=True, help="Only list the runs, with time and disk space estimated from a few steps."
    ),
)


def with_options(options: Sequence[Decorator]) -> Decorator:
    """Add several options to a command.

    Args:
        options: the options, in the order of the help.

    Example:
        >>> @click.command()
        ... @with_options([click.option("--seed"), click.option("--memory")])
        ... def train(seed, memory): ...
        >>> [option.name for option in train.params]
        ['seed', 'memory']
    """

    def add_all(command: Callable[..., Any]) -> Callable[..., Any]:
        for add in reversed(options):
            command = add(command)
        return command

    return add_all


def parse_settings(pairs: Sequence[str], option: str = "--set") -> dict[str, str]:
    """Split the values of `--set`, or of another option.

    Args:
        pairs: `KEY=VALUE` texts.
        option: name of the option, for messages.

    Raises:
        UserError: if there is no equals sign.

    Example:
        >>> parse_settings(["tau=0.1", "recipe.lr = 0.05"])
        {'tau': '0.1', 'recipe.lr': '0.05'}
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"{option} {pair}: expected key=value")
        settings[key.strip()] = value.strip()
    return settings


def build_request(
    method: str | None, settings: Sequence[str], config: Path | None, given: Mapping[str, Any]
) -> Request:
    """Make the request of a command: options override the config file, which overrides the defaults.

    Args:
        method: name of the method; None leaves it to the config file.
        settings: values of `--set`.
        config: a YAML file with fields of a request.
        given: fields of the request by option; None for an option that was not given.

    Raises:
        UserError: if a key or a value is wrong.

    Example:
        >>> build_request("icarl", ["temperature=3"], None, {"tasks": "4,3,3", "seed": None}).tasks
        (4, 3, 3)
    """
    from upcl.research.config import Request
    from upcl.research.parsing import parse_sizes, read_order, read_yaml

    values: dict[str, Any] = read_yaml(config) if config else {}
    values.update({key: value for key, value in given.items() if value is not None})
    if method is not None:
        values["method"] = method
    if isinstance(values.get("tasks"), str):
        values["tasks"] = parse_sizes(values["tasks"])
    if isinstance(values.get("order"), str):
        values["order"] = read_order(values["order"])
    if values.get("method") is None:
        raise UserError("no method given: name one (`upcl train upcl`), or add 'method: upcl' to the config file")
    request = Request.from_mapping(values)
    return dataclasses.replace(request, options={**request.options, **parse_settings(settings)})
