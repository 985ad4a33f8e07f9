"""Writes the pages of the API reference from the modules that exist, so that no page has to follow a renamed module.

`docs/conf.py` runs it before each build. The pages (`api/*.rst`, `api/command-line.md`) are not under version control.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import upcl
from upcl.cli import main
from upcl.methods import METHODS

API = Path(__file__).parent / "api"
# Packages from the bottom layer to the top, and the modules to read first in each; other modules follow by name.
READING_ORDER: dict[str, list[str]] = {
    "core": ["types", "options", "recipes", "losses", "frames", "metrics", "budget", "memory", "seeding", "errors"],
    "nets": ["network", "backbones", "heads", "slimmable", "pretrained"],
    "data": ["dataset", "transforms", "registry", "subset"],
    "data.loaders": [
        "builtin",
        "cifar",
        "tiny_imagenet",
        "imagenet",
        "imagenet_r",
        "cub200",
        "stanford_cars",
        "food101",
        "eurosat",
        "core50",
        "listed",
        "folder",
        "npz",
    ],
    "data.io": ["images", "crops", "scan", "archives", "download", "layouts", "matlab", "paths"],
    "methods": ["base", "setting", *(cls.__module__.rpartition(".")[2] for cls in METHODS.values()), "registry"],
    "training": ["engine", "task_trainer", "evaluate", "accounting", "run_folder", "checkpoints"],
    "research": ["config", "protocol", "run", "record", "grid", "executor", "statistics", "pairing", "comparison"],
    "research.paper": ["experiments"],
    "research.report": ["load", "tables", "cost_tables", "contrasts", "figures", "charts", "page"],
    "research.bench": [],
    "model": ["learner", "spec", "intake", "update", "predictor", "calibration", "file", "export"],
    "model.server": ["app"],
    "checks": [],
}
WITHOUT_PAGE = {"cli", "__main__"}
TITLES = {cls.__module__: cls.title for cls in METHODS.values()}


def write_pages(_app: Any = None) -> None:
    """Write all generated pages, and remove those of packages that are gone."""
    children = modules_by_package()
    pages = {"command-line.md": command_line_page()}
    for package in children:
        pages[f"{package.removeprefix('upcl.')}.rst"] = package_page(package, children)
    pages["upcl.rst"] = public_names_page()
    for path in API.glob("*.rst"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = API / name
        if not path.exists() or path.read_text() != text:  # an unchanged file keeps its time: only changes are rebuilt
            path.write_text(text)


def modules_by_package() -> dict[str, list[str]]:
    """The public modules and packages inside each package, in reading order."""
    found: dict[str, list[str]] = {}
    for package in walk("upcl", upcl):
        order = READING_ORDER.get(package.__name__.removeprefix("upcl."), [])
        names = [info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")]
        names.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
        found[package.__name__] = [f"{package.__name__}.{name}" for name in names]
    del found["upcl"]
    return found


def walk(name: str, package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for info in pkgutil.iter_modules(package.__path__):
        if info.ispkg and info.name not in WITHOUT_PAGE:
            child = f"{name}.{info.name}"
            yield from walk(child, importlib.import_module(child))


def package_page(package: str, children: dict[str, list[str]]) -> str:
    """A page for a package: its docstring, a section for each module, and links to the packages inside it."""
    inner = [name for name in children[package] if name in children]
    lines = [*heading(package, "="), *automodule(package)]
    if inner:
        names = [name.removeprefix("upcl.") for name in inner]
        lines += [".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in names), ""]
    for module in children[package]:
        if module not in children:
            short = module.rpartition(".")[2]
            lines += [*heading(f"{TITLES[module]} ({short})" if module in TITLES else short, "-"), *automodule(module)]
    return "\n".join(lines)


def automodule(name: str) -> list[str]:
    return [f".. automodule:: {name}", "   :ignore-module-all:", ""]


def heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def public_names_page() -> str:
    """What `import upcl` offers, with links to where each name is documented."""
    lines = [*heading("upcl", "="), ".. automodule:: upcl", "   :no-members:", ""]
    lines += ["These names can be imported from `upcl` itself:", ""]
    return "\n".join([*lines, *(f"- :py:obj:`upcl.{name}`" for name in upcl.__all__), ""])


def command_line_page() -> str:
    """The help of every command, in the order of `upcl --help`."""
    lines = ["# Command line", "", "Generated from `upcl --help` and the help of each command.", ""]
    for path, text in help_texts(main, "upcl", None):
        lines += [f"## `{path}`", "", "```text", text, "```", ""]
    return "\n".join(lines)


def help_texts(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(command, parent, info_name=path.rpartition(" ")[2], max_content_width=90, terminal_width=90)
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from help_texts(child, f"{path} {name}", context)


if __name__ == "__main__":
    write_pages()
