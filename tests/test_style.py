"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "upcl"
SOURCES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    {"errors"},
    {"core", "seeding", "files", "usage", "profiling"},
    {"frames", "losses", "metrics", "recipes", "published", "uniformity", "calibration"},
    {"nets"},
    {"data", "memory", "bundle"},
    {"methods"},
    {"engine", "evaluate", "protocol"},
    {"config"},
    {"records", "folder"},
    {"lessons"},
    {"runs"},
    {"checks", "bench", "grid", "summaries", "trackers", "answers"},
    {"growing"},
    {"learner"},
    {"experiments", "predicting", "export", "estimator"},
    {"report"},
    {"serving"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, by relative imports."""
    depth = len(path.relative_to(PACKAGE).parts)
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        assert not (isinstance(node, ast.ImportFrom) and node.level == 0 and str(node.module).startswith("upcl")), path
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            parts |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return parts


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_to_lower_layers_only(path: Path) -> None:
    mine = part_of(path)
    if mine in ("__init__", "__main__"):
        return
    assert mine in LEVEL, f"{mine} has no place in the house: add it to LAYERS and docs/design.md"
    above = {part for part in imported_parts(path) if part in LEVEL and LEVEL[part] > LEVEL[mine]}
    assert not above, f"{mine} imports {above} from above"


def test_there_is_one_training_loop() -> None:
    """The bench has loops of its own on purpose: the limit and the plain way."""
    ours = [path for path in SOURCES if part_of(path) != "bench"]
    places = [p.name for p in ours for line in p.read_text().splitlines() if ".backward(" in line]
    assert places == ["engine.py"]


def test_the_hot_files_are_short() -> None:
    assert len((PACKAGE / "engine.py").read_text().splitlines()) <= 200
    for path in (PACKAGE / "methods").glob("*.py"):
        limit = 170 if path.name == "base.py" else 135
        assert len(path.read_text().splitlines()) <= limit, f"{path.name} is too long to read at a glance"


def test_no_block_of_six_lines_stands_twice() -> None:
    blocks: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in [*SOURCES, *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").glob("*.py")]:
        lines = [re.sub(r"\s+", " ", line).strip() for line in path.read_text().splitlines()]
        lines = [line for line in lines if line and not line.startswith(("#", "from ", "import ")) and len(line) > 3]
        for start in range(len(lines) - 5):
            blocks[tuple(lines[start : start + 6])].append(f"{path.name}: {lines[start]}")
    twice = {places[0]: places for places in blocks.values() if len(places) > 1}
    assert not twice


def test_no_name_says_nothing() -> None:
    for path in SOURCES:
        assert not re.search(r"util|helper|manager|common", path.name)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                named_by_torch = node.name == "get_extra_state"
                assert named_by_torch or not node.name.startswith("get_"), f"{path.name}: {node.name}"


def test_every_method_file_is_in_the_list_once() -> None:
    listed = re.findall(r'_method\("(\w+)\.', (PACKAGE / "methods" / "__init__.py").read_text())
    files = {p.stem for p in (PACKAGE / "methods").glob("*.py")} - {
        "__init__",
        "base",
        "distilled",
        "margined",
        "setting",
    }
    assert sorted(listed) == sorted(files)
