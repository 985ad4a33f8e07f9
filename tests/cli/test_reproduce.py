from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from rich.table import Table as RichTable

from tests.cli.conftest import Invoke
from upcl.cli.reproduce import result_tables
from upcl.cli.safe_console import SafeConsole
from upcl.research.paper import experiments
from upcl.research.paper.published import audit
from upcl.research.report.tables import Cell, Table


@pytest.fixture
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of an experiment: two rows of the ablation on tiny data."""
    path = tmp_path_factory.mktemp("configs") / "tiny.yaml"
    same = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 1, "memory": "4"}
    content = yaml.safe_load((experiments._folder() / "ablation.yaml").read_text())
    content |= {"title": "Tiny ablation", "claim": "It works."}
    content["quick"] |= {"same": same, "vary": {"method": ["cos", "up+dm"]}}
    content["quick"].pop("more", None)
    path.write_text(f"# Two rows of the ablation.\n{json.dumps(content)}\n")
    monkeypatch.setattr(experiments, "_folder", lambda: path.parent)
    experiments.names.cache_clear()
    yield path
    experiments.names.cache_clear()


def test_experiment_is_run_once_and_compared_with_the_paper(tiny: Path, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("reproduce", "tiny", "--out", "out", columns=200)
    assert done.exit_code == 0, done.output
    assert "27.14" in done.stdout and "51.78" in done.stdout, "the paper's figures"
    assert "NOT the paper's setting" in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1] == "written to out/tiny-quick.html"
    page = (tmp_path / "out" / "tiny-quick.html").read_text()
    assert "NOT the paper&#39;s setting" in page and "It works." in page

    again = invoke("reproduce", "tiny", "--out", "out", columns=200)
    assert "cos: done before\n" in again.stdout and "2 runs: 2 done before" in again.stdout

    tiny.write_text(tiny.read_text().replace("synthetic:classes=4,train=8,test=4", "cifar100"))
    failed = invoke("reproduce", "tiny", "--out", "out", "--data-root", str(tmp_path / "empty"))
    assert failed.exit_code == 1
    assert failed.stderr.splitlines()[-1].startswith("error: cos, up+dm: ")
    assert (tmp_path / "out" / "tiny-quick.html").read_text() == page, "failed runs leave the page as it is"


def test_dry_run_estimates_and_writes_nothing(tiny: Path, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("reproduce", tiny.stem, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "2 runs left: about " in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_dry_run_describes_measurements_of_prototypes(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("reproduce", "uniformity", "--dry-run")
    assert "numbers of prototypes, 4 generators" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--list"], []])
def test_list_describes_each_experiment(words: list[str], invoke: Invoke) -> None:
    done = invoke("reproduce", *words)
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert all(f"{name} {' '.join(experiments.description(name).split())}" in text for name in experiments.names())


def test_audit_prints_all_findings(invoke: Invoke) -> None:
    done = invoke("audit", columns=160)
    assert done.exit_code == 0
    assert f"{len(audit())} findings in the published tables" in done.stdout
    assert "63.27" in done.stdout
    assert len(json.loads(invoke("audit", "--json").stdout)) == len(audit())


@pytest.mark.parametrize(("width", "num_tables"), [(60, 4), (80, 3), (200, 1)])
def test_tables_fit_the_terminal_and_lose_nothing(width: int, num_tables: int) -> None:
    columns = ("method", *(f"figure {k}" for k in range(8)))
    cells = [Cell(f"{k}0.0 ± 1.0", k, std=1.0, low=k - 1, high=k + 1) for k in range(8)]
    rows = tuple((Cell(f"a method with [a] long name {row}"), *cells) for row in range(2))
    parts = list(result_tables(Table("Results", columns, rows, ("A [note].",)), width))
    console = SafeConsole(width=width, record=True, file=io.StringIO())
    console.print(*parts, sep="\n")
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert sum(isinstance(part, RichTable) for part in parts) == num_tables
    assert all(cell.text in text and cell.interval in text for cell in cells)
    assert text.rstrip().endswith("A [note].")
