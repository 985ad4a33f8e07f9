"""How docstrings become pages: plain text with code in single backticks, fields that explain themselves, own names."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from typing import Any, TypeVar, get_origin

from docutils.nodes import Element, TextElement
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

CODE = re.compile(r"(`+[^`]+`+)")
BOUNDED = re.compile(r"~?typing\.Annotated\[([\w.~]+)(?:, ~?[\w.]+\([^()]*\))+\]")


def prepare_text(_app: Sphinx, what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Before napoleon: `|x|` is a norm and no substitution; text before a colon in a summary or a result is no type."""
    lines[:] = [":returns:" if line == "Returns:" else line for line in escape_bars(lines)]
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def escape_bars(lines: list[str]) -> Iterator[str]:
    in_doctest = False
    for line in lines:
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        yield line if in_doctest else outside_code(line, lambda text: text.replace("|", r"\|"))


def outside_code(line: str, change: Any) -> str:
    return "".join(part if part.startswith("`") else change(part) for part in CODE.split(line))


def add_options(_app: Sphinx, what: str, _name: str, value: Any, _options: Any, lines: list[str]) -> None:
    """Document the fields of a method from what `upcl show` prints: meaning, default and the source of the default."""
    if what != "class" or not dataclasses.is_dataclass(value):
        return
    added = []
    for field in dataclasses.fields(value):
        if "meaning" in field.metadata and not any(line.startswith(f":param {field.name}:") for line in lines):
            source = f"; {field.metadata['source']}" if field.metadata["source"] else ""
            text = f"{field.metadata['meaning']}. Default: `{field.default!r}`{source}."
            added.append(f":param {field.name}: {outside_code(text, escape)}")
    if added:
        lines += ["", *added, ""]


def escape(text: str) -> str:
    return re.sub(r"([*|\\]|_\b)", r"\\\1", text)


def drop_bounds(app: Sphinx, *_: Any) -> None:
    """Show the type of a field, `float`, without its bounds, `Annotated[float, Gt(0)]`, and no `None` as a result."""
    for types in app.env.current_document.autodoc_annotations.values():
        types.update({name: BOUNDED.sub(r"\1", text) for name, text in types.items()})
        if types.get("return") == "None":
            del types["return"]


def skip_foreign(_app: Sphinx, _what: str, _name: str, value: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out what other packages put into our classes, such as scikit-learn's `set_fit_request`."""
    module = getattr(value, "__module__", None)
    foreign = isinstance(module, str) and module.partition(".")[0] in ("sklearn", "torch", "pydantic")
    return True if foreign else None


def resolve_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, child: TextElement) -> Element | None:
    """Follow a name to where it is documented: `upcl.run` is `upcl.research.run.run`, `Path` what its module imported.

    Names of other packages, type variables, and aliases that have no entry become plain text. Anything else stays an
    error.
    """
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py":
        return None
    value = next((found for where in (node.get("py:module"), "types", "") if (found := find(where, target))), None)
    if value is None:
        return None
    domain, last = env.domains.python_domain, target.rpartition(".")[2]
    for name in domain.objects:
        if name.rpartition(".")[2] == last and find("", name) is value:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, child)
    ours = str(getattr(value, "__module__", "")).startswith("upcl")
    return child if not ours or isinstance(value, TypeVar) or get_origin(value) else None


def find(module: str | None, name: str) -> Any:
    """The object with a dotted name, as seen from inside of a module; None if there is none."""
    first, _, rest = name.rpartition(".") if not module else (module, "", name)
    try:
        value = importlib.import_module(first)
        for part in rest.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return value
