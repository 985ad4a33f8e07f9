"""`upcl methods`, `upcl show`, `upcl backbones`, `upcl datasets`, `upcl scenarios`: what there is to choose from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import click

from .console import report_errors, stdout_console

if TYPE_CHECKING:
    from rich.padding import Padding
    from rich.table import Table

    from upcl.methods.registry import MethodClass


@click.command()
@report_errors()
def methods() -> None:
    """List the methods that can be trained.

    `upcl show METHOD` describes one of them. Your own method is trained as FILE.py:Class.

    \b
    Examples:
      upcl methods
      upcl train icarl --data digits
      upcl train examples/own_method.py:FeatureDistillation --data digits
    """
    from rich.table import Table

    from upcl.methods.registry import METHODS, VARIANTS

    console, table = stdout_console(), Table("name", "method", "what it does", "exemplars")
    for name, method in METHODS.items():
        table.add_row(name, method.title, method.summary, "yes" if method.uses_memory else "no")
    console.print(table)
    console.print(f"rows of the paper's ablation, also trained by name: {', '.join(VARIANTS)}")


@click.command()
@click.argument("method")
@report_errors()
def show(method: str) -> None:
    """Describe METHOD: paper, fields, defaults and recipe.

    Fields are set with --set FIELD=VALUE in `upcl train` and `upcl learn`.

    \b
    Examples:
      upcl show upcl
      upcl train upcl --set tau=0.1 --set recipe.lr=0.05
    """
    from rich.text import Text

    from upcl.methods.registry import find_method

    console, found = stdout_console(), find_method(method)
    console.print(Text.assemble((found.title, "bold"), f": {found.summary}"))
    console.print(f"paper: {found.paper}")
    needs = {
        "exemplars": found.needs_exemplars,
        "exemplars (it also runs without them, at lower accuracy)": found.uses_memory and not found.needs_exemplars,
        "a frozen copy of the previous network": found.uses_teacher,
        "the number of classes in advance": found().needs_num_classes,
    }
    console.print(
        f"needs: {', '.join(need for need, needed in needs.items() if needed) or 'nothing from earlier tasks'}"
    )
    console.print(f"differences from the paper: {found.deviations or 'none known'}")
    console.print("fields (--set FIELD=VALUE):")
    for line in field_lines(found):
        console.print(line)
    console.print(recipe_table(found))


@click.command()
@click.option("--measure", is_flag=True, help="Measure the time per photo on this machine; it is shown from then on.")
@report_errors()
def backbones(measure: bool) -> None:
    """List the networks that compute features.

    Pretrained ones are for photos: `upcl learn` uses the first that is installed. Architectures are trained from
    scratch.

    \b
    Examples:
      upcl backbones
      upcl learn birds/ --model birds.upcl --backbone torchvision:resnet18
      upcl learn birds/ --model birds.upcl --backbone timm:vit_tiny_patch16_224
      upcl train upcl --data cifar100/T10 --backbone pooled
    """
    console = stdout_console()
    for table in backbone_tables(measure=measure):
        console.print(table)
    console.print("also: timm:NAME, any network of timm (pip install 'upcl[timm]')", soft_wrap=True)
    console.print("      hf:OWNER/NAME, weights on Hugging Face for one of these", soft_wrap=True)


def backbone_tables(*, measure: bool) -> Iterator[Table]:
    """Tables of the pretrained backbones and of the architectures.

    Args:
        measure: measure the time per photo, and write it down for the next time.

    Example:
        >>> [table.title for table in backbone_tables(measure=False)]
        ['pretrained on ImageNet', 'architectures, trained from scratch']
    """
    from rich.table import Table

    from upcl.nets import BACKBONES, num_features
    from upcl.training.pretrained import (
        PRETRAINED_BACKBONES,
        milliseconds_per_photo,
        num_parameters,
        remember_milliseconds,
        remembered_milliseconds,
    )

    if measure:
        remember_milliseconds({name: milliseconds_per_photo(found) for name, found in PRETRAINED_BACKBONES.items()})
    known = remembered_milliseconds()
    caption = "dim: features per photo, ms: milliseconds per photo on this machine"
    if not known.keys() >= PRETRAINED_BACKBONES.keys():
        caption += " (-: measure them once with --measure)"
    table = Table(title="pretrained on ImageNet", caption=caption)
    table.add_column("name", no_wrap=True)
    for title in ("weights", "dim", "MB", "ms"):
        table.add_column(title, justify="right")
    for title in ("licence", "source", "installed"):
        table.add_column(title, overflow="fold", no_wrap=title == "licence")
    for name, backbone in PRETRAINED_BACKBONES.items():
        table.add_row(
            name,
            f"{num_parameters(backbone.architecture) / 1e6:.1f} M",
            f"{num_features(backbone.architecture):,}",
            f"{backbone.megabytes:.0f}",
            f"{known[name]:.0f}" if name in known else "-",
            backbone.licence,
            f"upcl[{backbone.extra}]" if backbone.extra else urlsplit(backbone.location).netloc or "huggingface.co",
            "yes" if backbone.installed else "no",
        )
    yield table
    table = Table("name", "parameters", "features", title="architectures, trained from scratch")
    for name, config in BACKBONES.items():
        table.add_row(name, f"{num_parameters(name) / 1e6:.1f} M", f"{config.dim:,}")
    yield table


@click.command()
@report_errors()
def datasets() -> None:
    """List the data sets and how to get them.

    A stream may follow a slash: T10 is ten equal tasks, B50-Inc10 fifty classes and then ten at a time. Options follow
    a colon.

    \b
    Examples:
      upcl datasets
      upcl train upcl --data cifar100/T10
      upcl train upcl --data cifar100/B50-Inc10:train=100,test=50
      upcl train upcl --data folder:photos/
    """
    from upcl.data.io.paths import data_root

    console = stdout_console()
    for table in dataset_tables():
        console.print(table)
    console.print(f"ROOT is --data-root, else $UPCL_DATA, else a cache folder; now: {data_root()}", soft_wrap=True)
    console.print(
        "streams after a slash, options after a colon: upcl train upcl --data cifar100/T10:train=100,test=50\n"
        "T10: ten equal tasks; B50-Inc10: fifty classes first, then ten at a time",
        soft_wrap=True,
    )


@click.command()
@report_errors()
def scenarios() -> None:
    """List the scenarios: how classes and images arrive.

    Scenarios that decide different things are joined by a plus sign.

    \b
    Examples:
      upcl scenarios
      upcl train icarl --data cifar100 --tasks 6 --scenario half
      upcl train icarl --data digits --scenario blurry:10
      upcl train icarl --data digits --scenario repeat:50+online
    """
    from rich.table import Table

    from upcl.methods.registry import METHODS
    from upcl.research.scenarios import SCENARIOS

    console, table = stdout_console(), Table("scenario", "decides", "what it does", "source")
    for entry in SCENARIOS.values():
        table.add_row(entry.usage, entry.decides, entry.meaning, entry.source)
    console.print(table)
    refusing = [name for name, method in METHODS.items() if not method.accepts_extra()]
    obstacles = [name for name, method in METHODS.items() if method().online_obstacle]
    console.print(f"methods that refuse blurry and repeat, since they keep no exemplars: {', '.join(refusing)}")
    console.print(f"methods that refuse online with their defaults: {', '.join(obstacles)}")


def field_lines(cls: type[Any]) -> Iterator[Padding]:
    """The fields of a dataclass: name, default, type, meaning and the source of the default.

    Args:
        cls: a dataclass with `option` fields.

    Example:
        >>> from upcl.methods import METHODS
        >>> next(field_lines(METHODS["icarl"])).renderable.plain
        'temperature = 2.0   (float)'
    """
    from rich.padding import Padding
    from rich.text import Text

    from upcl.core.options import fields_of

    hints = get_type_hints(cls, include_extras=True)
    for name, field in fields_of(cls).items():
        about, value = field.metadata, f" = {_default_name(field.default)}   ({_type_name(hints[name])})"
        yield Padding(Text.assemble((name, "bold"), value), (0, 0, 0, 2))
        yield Padding(about.get("meaning", ""), (0, 0, 0, 6))
        if about.get("source"):
            yield Padding(Text(f"source: {about['source']}", "dim"), (0, 0, 0, 6))


def _default_name(default: Any) -> str:
    """The default as text; long decimals are rounded, with the fraction that they are."""
    if isinstance(default, float) and len(str(default)) > 10:
        return f"{default:.4g} ({Fraction(default).limit_denominator(1000)})"
    return "by rule" if default is None else str(default)


def _type_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(_type_name(part) for part in get_args(hint) if part is not type(None))
    base = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    return getattr(base, "__name__", str(base))


def recipe_table(method: MethodClass) -> Table:
    """A method's own recipe, for the first task and the later ones.

    Args:
        method: the class of the method.

    Example:
        >>> from upcl.methods import METHODS
        >>> [next(column.cells) for column in recipe_table(METHODS["icarl"]).columns][:3]
        ['epochs', '200', '170']
    """
    from rich.table import Table

    from upcl.core.recipes import Recipe

    table = Table(title="own recipe: --set recipe.FIELD=VALUE, or first.FIELD, later.FIELD")
    for column in ("field", "first task", "later tasks", "meaning"):
        table.add_column(column)
    for field in dataclasses.fields(Recipe):
        first, later = (str(getattr(recipe, field.name)) for recipe in (method.recipes.first, method.recipes.later))
        table.add_row(field.name, first, later, field.metadata["meaning"])
    return table


def dataset_tables() -> Iterator[Table]:
    """What each data set is, where it comes from, and its options.

    Example:
        >>> "digits" in next(dataset_tables()).columns[0].cells
        True
    """
    from rich.table import Column, Table

    from upcl.data import DATASETS

    what, where = Table(), Table("name", Column("licence", width=8), Column("location", width=25), "how to get it")
    widths = {"name": 12, "what it is": 17, "classes": 7, "train + test": 17, "size": 11}  # 80 columns
    for column, width in widths.items():
        what.add_column(column, width=width)
    for name, entry in DATASETS.items():
        what.add_row(name, entry.title, entry.num_classes, entry.num_images, entry.image_size)
        where.add_row(name, entry.licence, entry.location, entry.how_to_obtain)
    yield what
    yield where
    yield _dataset_options()


def _dataset_options() -> Table:
    from rich.table import Table

    from upcl.core.options import fields_of
    from upcl.data import DATASETS

    table = Table("data sets", "option", "default", "meaning")
    table.columns[0].max_width = 30
    groups: dict[type[Any], list[str]] = {}
    for name, entry in DATASETS.items():
        if entry.options:
            groups.setdefault(entry.options, []).append(name)
    for cls, names in groups.items():
        for row, field in enumerate(fields_of(cls).values()):
            table.add_row(
                ", ".join(names) if row == 0 else "", field.name, str(field.default), field.metadata["meaning"]
            )
        table.add_section()
    return table
