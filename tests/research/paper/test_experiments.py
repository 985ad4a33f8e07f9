from __future__ import annotations

import re
from typing import Any

import pytest

from tests.research.altered import alter
from upcl.core.errors import UserError
from upcl.data import DATASETS
from upcl.methods.registry import METHODS, VARIANTS
from upcl.research.grid import Job
from upcl.research.paper import experiments, published
from upcl.research.paper.experiments import PublishedReference, load, names
from upcl.research.record import Record


def jobs_of(name: str, scale: Any = "quick", data: str = "builtin") -> tuple[Job, ...]:
    grid = load(name, scale, data).grid
    assert grid
    return grid.jobs


def test_every_experiment_of_the_paper_has_a_file() -> None:
    tables = {f"memory-{cell.data}-t{cell.tasks}" for cell in published.memory_tables()}
    others = {"table1", "ablation", "lambda", "uniformity", "imbalance", "memory", "confusion", "tsne"}
    assert set(names()) == tables | others
    assert len(tables) == 9


@pytest.mark.parametrize("name", names())
def test_descriptions_give_content_published_figures_and_duration(name: str) -> None:
    text = experiments.description(name)
    assert "The paper" in text and "full:" in text and "quick:" in text
    if name.startswith(("memory-", "ablation", "lambda", "table1")):
        numbers = [float(number) for number in re.findall(r"\d+\.\d+\b", text.partition("full:")[0])]
        assert sorted(numbers) == sorted(quoted_figures(name)), "as in the published tables"


def quoted_figures(name: str) -> list[float]:
    """The figures that the description of an experiment quotes."""
    if name == "ablation":
        return [last for last, _ in published.ablation_table().values()]
    if name == "lambda":
        return [last for last, _ in published.lambda_table().values()] + [0.1]
    if name == "table1":
        upcl = [cell for cell in published.main_table() if cell.method == "upcl" and cell.data == "cifar100"]
        return [value for cell in upcl for value in (cell.a_last, cell.a_avg) if value is not None]
    _, data, tasks = name.split("-")
    return [cell.a_last for cell in published.memory_tables() if (cell.data, f"t{cell.tasks}") == (data, tasks)]


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("scale", ["full", "quick"])
def test_experiments_use_existing_methods_and_data(name: str, scale: Any) -> None:
    experiment = load(name, scale)
    assert (experiment.grid is None) != (experiment.uniformity is None)
    for job in experiment.grid.jobs if experiment.grid else ():
        assert job.request.method in (*METHODS, *VARIANTS)
        base = re.split("[:/]", str(job.request.data))[0]
        assert base in DATASETS
        assert scale == "full" or base in ("digits", "synthetic"), "quick runs need no download"


@pytest.mark.parametrize("name", experiments.names_with("quick", "cifar100"))
def test_quick_experiments_on_cifar100_take_a_slice(name: str) -> None:
    assert {job.request.data for job in jobs_of(name, data="cifar100")} == {"cifar100/T5:train=30,test=30"}


@pytest.mark.parametrize("name", experiments.names_with("cpu"))
def test_cpu_scale_has_all_images_and_pairs_seeds_with_class_orders(name: str) -> None:
    jobs = jobs_of(name, "cpu")
    assert {(job.request.backbone, job.request.recipe) for job in jobs} == {("pooled", "quick")}
    assert all(str(job.request.data).startswith("cifar100/T") and ":" not in str(job.request.data) for job in jobs)
    assert len({(job.request.seed, job.request.order_seed) for job in jobs}) == len({job.request.seed for job in jobs})


def test_full_scale_is_the_papers() -> None:
    main = jobs_of("table1", "full")
    streams = (str(job.request.data).split("/T") for job in main)
    assert {(data, int(tasks)) for data, tasks in streams} == {cell.stream for cell in published.main_table()}
    assert {job.request.method for job in main} == set(list(METHODS)[:16])
    ablation = jobs_of("ablation", "full")
    assert {job.request.method for job in ablation} == set(published.ablation_table())
    assert {(job.request.data, job.request.memory) for job in ablation} == {("cifar100/T10", "500")}
    schedules = {str(job.request.options["lambda_1"]) for job in jobs_of("lambda", "full")}
    assert schedules == set(published.lambda_table())


def test_further_runs_replace_some_lists() -> None:
    jobs = jobs_of("table1")
    assert len(jobs) == 16 * (3 + 4)
    assert {job.request.seed for job in jobs if job.request.tasks == 2} == {0}


def make_record(record: Record, method: str, data: str, tasks: int, memory: str, **options: Any) -> Record:
    config = {"memory": memory, "options": {**record.config.options, **options}}
    return alter(record, method=method, data=data, task_sizes=[1] * tasks, config=config)


def test_published_figures_are_found(records: list[Record]) -> None:
    first = records[2]
    main = PublishedReference("main")
    assert main.lookup(make_record(first, "upcl", "cifar100", 5, "2000")) == (60.92, 70.82)
    assert main.lookup(make_record(first, "upcl", "cifar100:train=9", 7, "2000")) is None
    scaled_down = PublishedReference("memory", data="cifar100", tasks={5: 10}, memory={20: 1000})
    found = scaled_down.lookup(make_record(first, "wa", "digits", 5, "20"))
    assert found and found[0] == 48.56
    assert scaled_down.lookup(make_record(first, "wa", "digits", 5, "2/class")) is None
    by_tasks = PublishedReference("main", data={2: "cifar100", 4: "imagenet100"}, tasks={2: 5, 4: 20}, memory={8: 2000})
    upcl = {cell.stream: (cell.a_last, cell.a_avg) for cell in published.main_table() if cell.method == "upcl"}
    assert by_tasks.lookup(make_record(first, "upcl", "digits", 2, "8")) == upcl["cifar100", 5]
    assert by_tasks.lookup(make_record(first, "upcl", "synthetic", 4, "8")) == upcl["imagenet100", 20]
    assert PublishedReference("ablation").lookup(make_record(first, "cos+dm", "digits", 5, "20")) == (35.41, 49.78)
    schedule = make_record(first, "upcl", "digits", 5, "20", lambda_1="2^t")
    assert PublishedReference("lambda").lookup(schedule) == (10.94, 45.83)


@pytest.mark.parametrize("scale", ["full", "quick"])
def test_findings_of_the_audit_appear_with_their_tables(scale: Any) -> None:
    assert any("printed -3.91" in remark for remark in load("memory-cifar100-t5", scale).remarks())
    assert not any("printed -" in remark for remark in load("table1", scale).remarks())
    assert any("63.27" in remark for remark in load("table1", scale).remarks())
    assert any("52.31" in remark for remark in load("ablation", scale).remarks())
    assert load("uniformity", scale).remarks() == []


def test_wrong_names_scales_and_data_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean ablation"):
        load("ablatoin")
    with pytest.raises(UserError, match="uniformity has no version 'quick-cifar100': these have one: ablation"):
        load("uniformity", data="cifar100")
    with pytest.raises(UserError, match="--scale full uses the paper's own data"):
        load("ablation", "full", "cifar100")
    with pytest.raises(UserError, match="did you mean cifar100"):
        load("ablation", data="cifar10")


def test_unknown_keys_of_a_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "_read", lambda _: "title: x\nclaims: y\nquick: {}")
    with pytest.raises(UserError, match="did you mean claim"):
        load("ablation")
    monkeypatch.setattr(experiments, "_read", lambda _: "title: x\nquick: {varied: {}}")
    with pytest.raises(UserError, match="did you mean vary"):
        load("ablation")
