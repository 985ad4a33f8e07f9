"""How docstrings become pages: fields that explain themselves, and references to names that are imported elsewhere."""

from __future__ import annotations

import dataclasses
import importlib
import re
from typing import Any, TypeVar

from docutils.nodes import Element, TextElement
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def add_options(_app: Sphinx, what: str, _name: str, value: Any, _options: Any, lines: list[str]) -> None:
    """Document the fields of a method from what `upcl show` prints: meaning, default and the source of the default."""
    if what != "class" or not dataclasses.is_dataclass(value):
        return
    added = []
    for field in dataclasses.fields(value):
        if "meaning" in field.metadata and not any(line.startswith(f":param {field.name}:") for line in lines):
            source = f"; {field.metadata['source']}" if field.metadata["source"] else ""
            text = f"{field.metadata['meaning']} (default: ``{field.default!r}``{escape(source)})"
            added.append(f":param {field.name}: {escape(text)}")
    if added:
        lines += ["", *added, ""]


def escape(text: str) -> str:
    """Text in which only backticks mean something to reStructuredText."""
    return re.sub(r"([*|\\]|_\b)", r"\\\1", text)


def resolve_own_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, child: TextElement) -> Element | None:
    """Follow a name of ours to where it is documented: `upcl.run` is `upcl.research.run.run`.

    Type variables have no page and become plain text. Anything that cannot be imported stays an error.
    """
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target.startswith("upcl."):
        return None
    value = find(target)
    if isinstance(value, TypeVar):
        return child
    real = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
    if value is None or real == target:
        return None
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", real, node, child)


def find(name: str) -> Any:
    """The object with a dotted name, or None."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest, None)
    except ImportError:
        return None
