from __future__ import annotations

from pathlib import Path

import pytest
import torch

from upcl.core.errors import UserError
from upcl.research.paper.experiments import UniformityPlan
from upcl.research.paper.uniformity import GENERATORS, measure, measure_all, read_measurements


def test_generators_are_ordered_as_in_theory() -> None:
    found = {name: measure(name, 20, 64, 3) for name in GENERATORS}
    assert found["simplex (the bound)"].mean == pytest.approx(1 + 1 / 19, abs=1e-5)
    assert found["Gram-Schmidt"].mean == pytest.approx(1, abs=1e-5)
    assert found["Gaussian"].low <= found["Gaussian"].mean <= found["Gaussian"].high < 0.9
    assert found["Gram-Schmidt"].mean < found["minimum energy"].mean <= found["simplex (the bound)"].mean + 1e-5


def test_random_state_is_preserved() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    measure("Gaussian", 4, 8, 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_measurements_are_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "new" / "measurements.jsonl"
    first = list(measure_all(path, UniformityPlan(16, (4, 8), 2, 1)))
    assert [(m.num, m.generator, m.draws) for m in first] == [
        (num, name, 2 if name in ("Gram-Schmidt", "Gaussian") else 1) for num in (4, 8) for name in GENERATORS
    ]
    assert read_measurements(path) == first
    before = path.stat().st_mtime_ns
    assert list(measure_all(path, UniformityPlan(16, (4,), 2, 1))) == first[:4]
    assert path.stat().st_mtime_ns == before


def test_each_measurement_is_saved_at_once(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    measurements = measure_all(path, UniformityPlan(16, (4, 8), 2, 1))
    assert read_measurements(path) == []
    assert [next(measurements), next(measurements)] == read_measurements(path)


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "measurements.jsonl").write_text("{")
    with pytest.raises(UserError, match="is damaged: remove it to repeat the measurements"):
        read_measurements(tmp_path / "measurements.jsonl")
