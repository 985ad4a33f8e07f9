from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from tests.cli.conftest import Invoke
from tests.runs import STREAM, quick_run
from upcl.research.record import Record

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods with three seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("icarl", "finetune"):
        for seed in (0, 1, 2):
            quick_run(method, STREAM, seed=seed, epochs=1, out=folder / f"{method}-{seed}")
    return folder


def values(folder: Path, method: str) -> list[float]:
    return [Record.read(folder / f"{method}-{seed}").a_avg.head for seed in (0, 1, 2)]


def test_tables_and_conclusions_are_printed(runs_folder: Path, invoke: Invoke) -> None:
    done = invoke("compare", "icarl", "finetune", "--runs", str(runs_folder), columns=100)
    assert done.exit_code == 0
    assert "iCaRL and Finetune" in done.stdout and "A_last head" in done.stdout and "total MB" in done.stdout
    assert "nme" not in done.stdout, "finetune has no exemplars"
    assert "No rank test: with 3 pairs" in done.stdout


def test_it_fits_into_eighty_columns(runs_folder: Path, invoke: Invoke) -> None:
    done = invoke("compare", "icarl", "finetune", "--runs", str(runs_folder), "--metric", "a_last")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert done.stdout.count("┏") == 1, "one table, not a second for the columns that are left"


def test_json_has_the_figures_of_scipy(runs_folder: Path, invoke: Invoke) -> None:
    words = ("--runs", str(runs_folder), "--metric", "a_avg", "--reading", "head", "--json")
    content = json.loads(invoke("compare", "icarl", "finetune", *words).stdout)
    assert content["tests"] == 1
    (contrast,) = content["contrasts"]
    (metric,) = contrast["metrics"]
    a, b = values(runs_folder, "icarl"), values(runs_folder, "finetune")
    assert metric["first"] == pytest.approx(sum(a) / 3) and metric["second"] == pytest.approx(sum(b) / 3)
    assert metric["paired"]["p_value"] == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert metric["corrected_p_value"] == metric["paired"]["p_value"]
    assert [pair["seed"] for pair in contrast["pairs"]] == [0, 1, 2]


def test_files_are_written(runs_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    words = ("--runs", str(runs_folder), "--html", "new/page.html", "--latex", "table.tex")
    done = invoke("compare", "icarl", "finetune", *words)
    assert done.stdout.endswith("written to new/page.html\nwritten to table.tex\n")
    assert "<title>iCaRL and Finetune</title>" in (tmp_path / "new" / "page.html").read_text()
    assert r"\begin{tabular}" in (tmp_path / "table.tex").read_text()


def test_folders_are_sides(runs_folder: Path, invoke: Invoke) -> None:
    done = invoke("compare", str(runs_folder / "icarl-0"), str(runs_folder / "finetune-0"), "--metric", "a_last")
    assert "icarl-0 and finetune-0" in done.stdout and "nothing can be concluded" in " ".join(done.stdout.split())


def test_grids_are_compared_method_by_method(runs_folder: Path, invoke: Invoke, tmp_path: Path) -> None:
    for method in ("icarl", "finetune"):
        quick_run(method, STREAM, epochs=2, out=tmp_path / "longer" / method)
    words = ("compare", str(runs_folder), "longer", "--metric", "a_last", "--reading", "head")
    contrasts = json.loads(invoke(*words, "--json").stdout)["contrasts"]
    assert {(each["method"], each["second"], len(each["pairs"])) for each in contrasts} == {
        ("iCaRL", "longer", 1),
        ("Finetune", "longer", 1),
    }
    done = invoke(*words)
    assert done.exit_code == 0 and "Finetune: A_last head: one pair only" in " ".join(done.stdout.split())


def test_mistakes_are_named(runs_folder: Path, invoke: Invoke) -> None:
    runs = ("--runs", str(runs_folder))
    for words, message in (
        (("icral", "finetune", *runs), "did you mean icarl?"),
        (("icarl", *runs), "a comparison needs two sides"),
        (("icarl", "finetune"), "name the folder by --runs"),
        (("icarl", str(runs_folder), *runs), "iCaRL: the same runs on both sides"),
        ((str(runs_folder / "icarl-0"), str(runs_folder / "finetune-1")), "no seed and class order"),
        (
            ("icarl", "finetune", *runs, "--metric", "a_last", "--reading", "nme"),
            "choose another --metric or --reading",
        ),
    ):
        done = invoke("compare", *words)
        assert done.exit_code == 2 and message in done.stderr, words


def test_methods_with_other_total_memory_are_refused_at_equal_memory(invoke: Invoke, tmp_path: Path) -> None:
    for method in ("der", "icarl"):
        quick_run(method, STREAM, epochs=1, out=tmp_path / "grown" / method)
    done = invoke("compare", "der", "icarl", "--runs", "grown", "--equal", "memory")
    assert done.exit_code == 2 and "total memory differs (DER: 3." in done.stderr
    for method in ("der", "icarl"):
        quick_run(method, STREAM, epochs=1, memory="3720KB-total", out=tmp_path / "equal" / method)
    done = invoke("compare", "der", "icarl", "--runs", "equal")
    assert done.exit_code == 0 and "memory 3720KB-total" in " ".join(done.stdout.split())


def test_records_of_the_repository_are_compared(invoke: Invoke) -> None:
    runs = ROOT / "results" / "runs"
    if not runs.is_dir():
        pytest.skip("no results")
    words = ("--runs", str(runs), "--metric", "a_last", "--reading", "head", "--json")
    (contrast,) = json.loads(invoke("compare", "upcl+", "la", *words).stdout)["contrasts"]
    difference = contrast["metrics"][0]["paired"]["difference"]
    assert difference["mean"] == pytest.approx(2.86, abs=0.005) and difference["num"] == 3
    assert contrast["verdicts"][0].startswith("A_last head: UPCL+ is higher than LA by 2.9")
