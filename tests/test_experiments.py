"""The paper's experiments by name: their files, what stands beside them, and one that is run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from upcl.cli import main
from upcl.core.errors import UserError
from upcl.data import DATASETS
from upcl.methods.registry import METHODS, VARIANTS
from upcl.research.paper import experiments, published
from upcl.research.paper.experiments import PublishedReference, load, names
from upcl.research.paper.uniformity import GENERATORS, measure, measure_all, read

ROOT = Path(__file__).parents[1]


def test_every_experiment_of_the_paper_has_a_file() -> None:
    tables = {f"memory-{c.data}-t{c.tasks}" for c in published.memory()}
    others = {"table1", "ablation", "lambda", "uniformity", "imbalance", "memory", "confusion", "tsne"}
    assert set(names()) == tables | others
    assert len(tables) == 9
    assert sorted(p.stem for p in (ROOT / "configs" / "paper").glob("*.yaml")) == sorted(names())


@pytest.mark.parametrize("name", names())
def test_files_say_what_they_are_what_the_paper_got_and_how_long_they_take(name: str) -> None:
    told = experiments.about(name)
    assert "The paper" in told and "full:" in told and "quick:" in told
    if name.startswith(("memory-", "ablation", "lambda", "table1")):
        numbers = [float(text) for text in re.findall(r"\d+\.\d+\b", told.partition("full:")[0])]
        assert sorted(numbers) == sorted(printed(name)), "as in the published tables"


def printed(name: str) -> list[float]:
    """The figures that the first lines of an experiment's file quote."""
    if name == "ablation":
        return [last for last, _ in published.ablation().values()]
    if name == "lambda":
        return [last for last, _ in published.lambda_1().values()] + [0.1]
    if name == "table1":
        ours = [c for c in published.main() if c.method == "upcl" and c.data == "cifar100"]
        return [value for c in ours for value in (c.a_last, c.a_avg) if value is not None]
    _, data, tasks = name.split("-")
    return [c.a_last for c in published.memory() if (c.data, f"t{c.tasks}") == (data, tasks)]


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("scale", ["full", "quick"])
def test_grids_ask_for_what_there_is(name: str, scale: Any) -> None:
    asked = load(name, scale)
    assert (asked.grid is None) != (asked.prototypes is None)
    for job in asked.grid.jobs if asked.grid else ():
        assert job.request.method in (*METHODS, *VARIANTS)
        base = re.split("[:/]", job.request.data)[0]
        assert base in DATASETS
        assert scale == "full" or base in ("digits", "synthetic"), "quick runs need no download"


@pytest.mark.parametrize("name", list(experiments.with_cifar100()))
def test_quick_grids_on_cifar100_take_a_slice(name: str) -> None:
    grid = load(name, data="cifar100").grid
    assert grid and {job.request.data for job in grid.jobs} == {"cifar100/T5:train=30,test=30"}


def test_full_scale_is_the_papers() -> None:
    settings = {(c.data, c.tasks) for c in published.main()}
    table1 = load("table1", "full").grid
    assert table1
    found = {(data, int(t)) for data, t in (job.request.data.split("/T") for job in table1.jobs)}
    assert found == settings
    assert {job.request.method for job in table1.jobs} == set(METHODS)
    ablation = load("ablation", "full").grid
    assert ablation and {job.request.method for job in ablation.jobs} == set(published.ablation())
    assert {(job.request.data, job.request.memory) for job in ablation.jobs} == {("cifar100/T10", "500")}
    schedules = load("lambda", "full").grid
    assert schedules
    asked = {str(job.request.options["lambda_1"]) for job in schedules.jobs}
    assert asked == set(published.lambda_1())


def record(method: str, data: str, tasks: int, memory: str, **options: Any) -> dict[str, Any]:
    config = {"memory": memory, "options": options}
    return {"method": method, "data": data, "task_sizes": [1] * tasks, "config": config}


def test_the_papers_figures_are_found() -> None:
    assert PublishedReference("main").theirs(record("upcl", "cifar100", 5, "2000")) == (60.92, 70.82)
    assert PublishedReference("main").theirs(record("upcl", "cifar100:train=9", 7, "2000")) is None
    shrunk = PublishedReference("memory", data="cifar100", tasks={5: 10}, memory={20: 1000})
    found = shrunk.theirs(record("wa", "digits", 5, "20"))
    assert found and found[0] == 48.56
    assert shrunk.theirs(record("wa", "digits", 5, "2/class")) is None
    assert PublishedReference("ablation").theirs(record("cos+dm", "digits", 5, "20")) == (35.41, 49.78)
    assert PublishedReference("lambda").theirs(record("upcl", "digits", 5, "20", lambda_1="2^t")) == (10.94, 45.83)


@pytest.mark.parametrize("scale", ["full", "quick"])
def test_what_the_audit_finds_stands_beside_the_tables_that_it_is_about(scale: Any) -> None:
    assert any("printed -3.91" in remark for remark in load("memory-cifar100-t5", scale).remarks())
    assert not any("printed" in remark for remark in load("table1", scale).remarks())
    assert any("63.27" in remark for remark in load("table1", scale).remarks())
    assert any("52.31" in remark for remark in load("ablation", scale).remarks())
    assert load("uniformity", scale).remarks() == []


def test_more_runs_can_be_asked_of_some_seeds() -> None:
    grid = load("table1").grid
    assert grid and len(grid.jobs) == 16 * (3 + 4)
    assert {job.request.seed for job in grid.jobs if job.request.tasks == 2} == {0}


def test_wrong_names_and_scales_are_told() -> None:
    with pytest.raises(UserError, match="did you mean ablation"):
        load("ablatoin")
    with pytest.raises(UserError, match="no quick form on cifar100"):
        load("uniformity", data="cifar100")
    with pytest.raises(UserError, match="--scale full runs on the paper's own data"):
        load("ablation", "full", "cifar100")


def test_generators_lie_as_the_theory_says() -> None:
    found = {name: measure(name, 20, 64, 3) for name in GENERATORS}
    assert found["simplex (the bound)"].mean == pytest.approx(1 + 1 / 19, abs=1e-5)
    assert found["Gram-Schmidt"].mean == pytest.approx(1, abs=1e-5)
    assert found["Gaussian"].low <= found["Gaussian"].mean <= found["Gaussian"].high < 0.9
    assert found["Gram-Schmidt"].mean < found["minimum energy"].mean <= found["simplex (the bound)"].mean + 1e-5


def test_distances_are_measured_once(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    first = list(measure_all(path, 16, (4, 8), 2, 1))
    assert read(path) == first
    before = path.stat().st_mtime_ns
    assert list(measure_all(path, 16, (4,), 2, 1)) == first[:4]
    assert path.stat().st_mtime_ns == before


def test_an_experiment_runs_and_shows_ours_beside_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "paper"
    small.mkdir()
    same = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 1, "memory": "4"}
    content = {
        "title": "Tiny ablation",
        "claim": "It works.",
        "setting": "CIFAR-100",
        "shows": ["table"],
        "full": {},
        "quick": {"beside": {"table": "ablation"}, "same": same, "vary": {"method": ["cos", "up+dm"]}},
    }
    (small / "tiny.yaml").write_text(json.dumps(content))
    monkeypatch.setattr(experiments, "_folder", lambda: small)
    experiments.names.cache_clear()
    try:
        out = tmp_path / "out"
        done = CliRunner().invoke(main, ["reproduce", "tiny", "--out", str(out)], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        assert "27.14" in done.output and "51.78" in done.output, "the paper's figures"
        assert "One seed each" in done.output
        page = (out / "tiny-quick.html").read_text()
        assert "NOT the paper&#39;s setting" in page and "The paper claims: It works." in page
        assert "NOT the paper's setting" in " ".join(done.output.split()), "said in the terminal too"
        again = CliRunner().invoke(main, ["reproduce", "tiny", "--out", str(out)], env={"COLUMNS": "200"})
        assert again.output.count("done before") == 5, "said at once, and in the table and its title"
        content["quick"]["same"]["data"] = "cifar100"  # type: ignore[index]
        (small / "tiny.yaml").write_text(json.dumps(content))
        words = ["reproduce", "tiny", "--out", str(out), "--data-root", str(tmp_path / "no")]
        assert CliRunner().invoke(main, words).exit_code == 1
        assert (out / "tiny-quick.html").read_text() == page, "a page is not lost to runs that failed"
    finally:
        experiments.names.cache_clear()


def test_the_list_tells_each_experiment() -> None:
    done = CliRunner().invoke(main, ["reproduce", "--list"])
    assert done.exit_code == 0
    assert all(name in done.output for name in names())
