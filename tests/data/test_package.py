"""Rules that hold in every module of the data package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import upcl.data

PACKAGE = Path(upcl.data.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_does_not_print_or_change_warnings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "print" not in called
    assert not {name.partition(".")[0] for name in imported(tree)} & {"rich", "click", "tqdm", "warnings"}


def test_io_does_not_depend_on_the_rest_of_the_package() -> None:
    for path in (PACKAGE / "io").glob("*.py"):
        names = list(imported(ast.parse(path.read_text())))
        assert not [name for name in names if name.startswith(("upcl.data", ".."))], path.name
