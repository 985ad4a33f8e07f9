from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Gt

from tests.cli.conftest import Invoke
from tests.cli.models import rows_of
from upcl.cli.catalog import backbone_tables, field_lines
from upcl.cli.safe_console import SafeConsole
from upcl.core.options import fields_of, option
from upcl.data import DATASETS
from upcl.methods.registry import METHODS, VARIANTS
from upcl.nets import BACKBONES
from upcl.research.scenarios import SCENARIOS
from upcl.training.pretrained import PRETRAINED_BACKBONES


def test_methods_lists_all_methods_and_variants(invoke: Invoke) -> None:
    listed = invoke("methods")
    assert listed.exit_code == 0
    assert all(f"│ {name} " in listed.stdout for name in METHODS)
    words = listed.stdout.replace(",", " ").split()
    assert set(VARIANTS) <= set(words)


def test_backbones_lists_pretrained_networks_and_architectures(invoke: Invoke) -> None:
    listed = invoke("backbones")
    assert listed.exit_code == 0
    assert all(f"│ {name} " in listed.stdout for name in (*PRETRAINED_BACKBONES, *BACKBONES))
    assert "Apache-2.0" in listed.stdout and "3.4 M" in listed.stdout
    rows = {row[0]: row for row in rows_of(next(iter(backbone_tables(measure=False))))}
    assert rows["efficientnet-lite0"][-2] == "upcl[photos]"
    assert rows["torchvision:resnet18"][-2:] == ["download.pytorch.org", "no"]


def test_backbones_are_measured_once(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = dict(list(PRETRAINED_BACKBONES.items())[:1])
    monkeypatch.setattr("upcl.training.pretrained.PRETRAINED_BACKBONES", first)
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path))
    monkeypatch.setattr("upcl.training.pretrained.milliseconds_per_photo", lambda _: 4321.0)
    assert "--measure" in invoke("backbones").stdout
    measured = invoke("backbones", "--measure")
    assert measured.exit_code == 0 and "4321" in measured.stdout
    again = invoke("backbones")
    assert "4321" in again.stdout and "--measure" not in again.stdout
    for damage in ("[1]", "{"):
        (tmp_path / "milliseconds.json").write_text(damage)
        assert "4321" not in invoke("backbones").stdout


def test_datasets_lists_all_data_sets_with_their_options(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPCL_DATA", "/somewhere/data")
    listed = invoke("datasets")
    assert listed.exit_code == 0
    assert all(listed.stdout.count(f"│ {name} ") >= 2 for name in DATASETS)
    options = {name for entry in DATASETS.values() if entry.options for name in fields_of(entry.options)}
    assert all(f"│ {name} " in listed.stdout for name in options)
    assert "now: /somewhere/data" in listed.stdout


def test_scenarios_lists_all_scenarios_and_who_refuses_them(invoke: Invoke) -> None:
    listed = invoke("scenarios")
    assert listed.exit_code == 0
    assert all(f"│ {name}" in listed.stdout for name in SCENARIOS)
    refusing = " ".join(listed.stdout.partition("keep no exemplars: ")[2].split())
    assert refusing.startswith("finetune, lwf, fetril") and "icarl" not in refusing and "coil, nccil" in refusing


def test_show_describes_a_method(invoke: Invoke) -> None:
    shown = invoke("show", "upcl").stdout
    assert shown.startswith("UPCL: ")
    assert all(f"{name} = " in shown for name in fields_of(METHODS["upcl"]))
    assert all(words in shown for words in ("tau = 0.07", "source:", "milestones", "(60, 120, 170)"))
    assert "needs: exemplars (it also runs without them, at lower accuracy)" in shown
    assert "head_share = 0.1765 (3/17)   (float)" in invoke("show", "der").stdout
    assert "needs: nothing from earlier tasks" in invoke("show", "finetune").stdout
    assert "the number of classes in advance" in " ".join(invoke("show", "nccil").stdout.split())


@pytest.mark.parametrize(
    "words", [["methods"], ["datasets"], ["scenarios"], ["show", "upcl"], ["show", "bic"]], ids=" ".join
)
def test_tables_fit_80_columns_without_truncation(words: list[str], invoke: Invoke) -> None:
    shown = invoke(*words).stdout
    tables = [line for line in shown.splitlines() if line.startswith(("│", "┃", "┏", "└"))]
    assert max(map(len, tables)) <= 80
    assert "…" not in shown
    assert all(line.endswith(("│", "┃", "┓", "┘")) for line in tables)


def test_fields_are_printed_literally() -> None:
    @dataclass
    class Example:
        choice: Literal["[red]", "b"] = option("[red]", "one of [a, b]", "table [1]")
        number: Annotated[float, Gt(0)] = option(0.5, "a number")

    console = SafeConsole(width=80)
    with console.capture() as captured:
        console.print(*field_lines(Example), sep="")
    assert [line.strip() for line in captured.get().splitlines()] == [
        "choice = [red]   ([red] | b)",
        "one of [a, b]",
        "source: table [1]",
        "number = 0.5   (float)",
        "a number",
    ]
