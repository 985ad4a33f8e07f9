from __future__ import annotations

from collections.abc import Iterator

import pytest

from upcl.research.bench import parts
from upcl.research.bench.parts import measure_parts, repeat


def test_repeated_workload_runs_several_times() -> None:
    calls: list[int] = []
    repeat(lambda: calls.append(1))()
    assert len(calls) > 1


@pytest.mark.parametrize("name", ["_contrast", "_herding", "_checkpoint", "_augmentation"])
def test_part_is_measured_against_the_usual_way(name: str) -> None:
    measurement = getattr(parts, name)(1)
    assert measurement.group == "parts"
    assert measurement.value > 0
    assert measurement.low <= measurement.value <= measurement.high


def test_all_parts_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every measurement of the module is part of the benchmark."""
    measured: list[str] = []
    names = [name for name in vars(parts) if name.startswith("_") and name[1].isalpha() and callable(vars(parts)[name])]
    for name in names:
        original = getattr(parts, name)
        generator = "Iterator" in str(original.__annotations__["return"])

        def replacement(_: int, name: str = name, generator: bool = generator) -> object:
            measured.append(name)
            return iter(()) if generator else name

        monkeypatch.setattr(parts, name, replacement)
    found: Iterator[object] = measure_parts(1)
    list(found)
    assert sorted(measured) == sorted(names)
