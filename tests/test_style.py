"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from upcl.methods import METHODS, VARIANTS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "upcl"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_there_is_one_training_loop() -> None:
    """The bench has loops of its own on purpose: the limit and the plain way."""
    ours = [path for path in SOURCES if "bench" not in path.parts]
    places = [p.name for p in ours for line in p.read_text().splitlines() if ".backward(" in line]
    assert places == ["engine.py"]


def test_the_hot_files_are_short() -> None:
    assert len((PACKAGE / "training" / "engine.py").read_text().splitlines()) <= 200
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


def test_every_method_file_is_registered() -> None:
    classes = {*METHODS.values(), *(variant.method for variant in VARIANTS.values())}
    shared = {"__init__", "base", "distillation", "margin", "registry", "setting"}
    files = {path.stem for path in (PACKAGE / "methods").glob("*.py")} - shared
    assert files == {cls.__module__.rpartition(".")[2] for cls in classes}
