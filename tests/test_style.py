"""Rules of the code base that a machine can check; import-linter checks the direction of imports."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from upcl.methods import METHODS, VARIANTS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "upcl"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 330

Definition = ast.FunctionDef | ast.ClassDef


def public_definitions(path: Path) -> Iterator[Definition]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_there_is_one_training_loop() -> None:
    """The benchmarks have loops of their own on purpose: the bare arithmetic and the usual way."""
    sources = [path for path in SOURCES if "bench" not in path.parts]
    places = [path.name for path in sources for line in path.read_text().splitlines() if ".backward(" in line]
    assert places == ["engine.py"]


def code_lines(path: Path) -> list[str]:
    """Lines without docstrings, comments, imports and blank lines, with single spaces."""
    source = path.read_text()
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = [line for number, line in enumerate(source.splitlines(), 1) if number not in docstrings]
    stripped = [re.sub(r"\s+", " ", line).strip() for line in lines]
    return [line for line in stripped if line and not line.startswith(("#", "from ", "import "))]


def test_modules_are_short() -> None:
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= MAX_LINES, f"{relative(path)} is too long"
    assert len(code_lines(PACKAGE / "training" / "engine.py")) <= 150
    for path in (PACKAGE / "methods").glob("*.py"):
        assert len(code_lines(path)) <= 125, f"{path.name} is too long to read at a glance"


def test_no_block_of_six_lines_is_repeated() -> None:
    blocks: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in [*SOURCES, *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").glob("*.py")]:
        lines = [line for line in code_lines(path) if len(line) > 3]
        for start in range(len(lines) - 5):
            blocks[tuple(lines[start : start + 6])].append(f"{path.name}: {lines[start]}")
    assert not {places[0]: places for places in blocks.values() if len(places) > 1}


def test_names_are_specific() -> None:
    for path in SOURCES:
        assert not re.search(r"util|helper|manager|common", path.name)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                named_by_a_library = node.name in ("get_extra_state", "get_command", "get_next")
                assert named_by_a_library or not node.name.startswith("get_"), f"{path.name}: {node.name}"


def test_every_method_file_is_registered() -> None:
    classes = {*METHODS.values(), *(variant.method for variant in VARIANTS.values())}
    shared = {
        "__init__",
        "anchored",
        "base",
        "closed_form",
        "distillation",
        "expanding",
        "margin",
        "registry",
        "setting",
    }
    files = {path.stem for path in (PACKAGE / "methods").glob("*.py")} - shared
    assert files == {cls.__module__.rpartition(".")[2] for cls in classes}


WITHOUT_OWN_TEST = {
    "checks/edge_cases.py",  # run for every method by tests/methods/test_conformance.py
    "checks/harness.py",
    "methods/distillation.py",  # base classes, tested through the methods
    "methods/expanding.py",
    "methods/margin.py",
    "methods/setting.py",
    "model/server/schemas.py",  # types only
}


def test_tests_mirror_the_source() -> None:
    names = {"__init__.py", "__main__.py"}
    modules = {relative(path) for path in SOURCES if path.name not in names} - WITHOUT_OWN_TEST
    tests = {str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("test_*.py")}
    expected = {str(Path(module).parent / f"test_{Path(module).name}") for module in modules}
    assert sorted(expected - tests) == []


def is_command(node: ast.FunctionDef) -> bool:
    """Commands document their parameters by click's own help."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(".command(" in decorator or ".group(" in decorator or "click." in decorator for decorator in decorators)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_public_definitions_are_documented(path: Path) -> None:
    for node in public_definitions(path):
        docstring = ast.get_docstring(node) or ""
        assert docstring, f"{node.name} has no docstring"
        if isinstance(node, ast.FunctionDef) and is_command(node):
            continue
        assert ">>>" in docstring, f"{node.name} has no example"
        if isinstance(node, ast.FunctionDef):
            parameters = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
            missing = [name for name in parameters if f"{name}:" not in docstring]
            assert not missing, f"{node.name} does not document {missing}"


def test_every_method_cites_its_paper() -> None:
    for method in {*METHODS.values(), *(variant.method for variant in VARIANTS.values())}:
        assert "Reference" in (method.__doc__ or ""), f"{method.name} cites no paper"
        assert method.paper and method.summary


PROSE = [
    *SOURCES,
    *PACKAGE.rglob("*.html"),
    *PACKAGE.rglob("*.yaml"),
    *(path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts),
    *ROOT.glob("*.md"),
]


@pytest.mark.parametrize("word", ["told", "anew", "of one's own", "stands still", "wishes", "a little kind"])
def test_quaint_words_are_gone(word: str) -> None:
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    assert [str(path.relative_to(ROOT)) for path in PROSE if pattern.search(path.read_text())] == []
