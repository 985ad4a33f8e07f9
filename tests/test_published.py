"""The paper's numbers, and what they say against each other."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from click.testing import CliRunner

from upcl.cli import main as command
from upcl.methods.registry import METHODS, VARIANTS
from upcl.methods.upcl import LAMBDA_ONE
from upcl.research.paper.published import ablation, audit, lambda_1, main, memory


def test_the_tables_are_whole() -> None:
    assert {cell.method for cell in main()} == set(METHODS)
    assert Counter((cell.data, cell.tasks) for cell in main()) == {
        ("cifar100", 5): 16,
        ("cifar100", 10): 16,
        ("cifar100", 20): 16,
        ("imagenet100", 20): 13,
        ("tinyimagenet", 40): 11,
    }
    assert len(memory()) == 9 * 4 * 3 and {cell.memory for cell in memory()} == {500, 1000, 2000}
    assert set(ablation()) == set(VARIANTS) and set(lambda_1()) == set(LAMBDA_ONE)


def test_some_cells_as_printed() -> None:
    cells = {(*c.setting, c.method): c for c in (*memory(), *main())}
    assert (cells["cifar100", 10, 2000, "bic"].a_last, cells["cifar100", 10, 2000, "bic"].a_avg) == (50.79, 65.08)
    assert cells["tinyimagenet", 40, 2000, "joint"].a_avg is None
    upcl = cells["imagenet100", 20, 1000, "upcl"]
    assert (upcl.a_last, upcl.a_avg, upcl.delta_last) == (42.0, 61.14, -6.88)
    assert set(upcl.bold) == {"a_last", "a_avg", "delta_last"}
    assert ablation()["cos+dm"] == (35.41, 49.78) and lambda_1()["2^t"] == (10.94, 45.83)


def test_the_audit_finds_what_is_known() -> None:
    found = audit()
    assert Counter(finding.kind for finding in found)["delta"] == 16
    said = [f"{finding.kind}: {finding.where}: {finding.what}" for finding in found]
    for wanted in (
        "delta: cifar100 T=5 M=500, upcl: printed -3.91, the columns give -4.51",
        "contradiction: cifar100 T=5 M=2000, wa: a_last 60.57 in the main table, 63.27 after",
        "contradiction: cifar100 T=10 M=500, upcl: a_last 51.78 in the ablation, 52.31 after",
        "contradiction: imagenet100 T=20 M=2000, upcl: a_avg 67.50 in the main table, 67.16 after",
        "copy: cifar100 T=20 M=1000, icarl: a_avg 48.46 stands also under cifar100 T=20 M=2000",
        "copy: cifar100 T=20 M=2000, upcl: a_avg 67.16 stands also under imagenet100 T=20 M=2000",
        "contradiction: imagenet100 T=20 M=2000, wa: a_avg 65.35 in the main table, 65.36 after",
        "best: tinyimagenet T=10 M=2000, upcl: a_avg 47.84, wa has 49.82",
        "protocol: main table: Coil and BiC are quoted from elsewhere, not run",
        "bold: cifar100 T=5 M=2000, upcl: a_last 60.92 is bold, wa has 63.27",
        "text: cifar100 T=5: upcl ahead of wa in a_avg by 0.97 in the text, by 0.39 in the table",
    ):
        assert wanted in said


@pytest.mark.parametrize("words", [["audit"], ["audit", "--json"]])
def test_the_command_tells_all(words: list[str]) -> None:
    result = CliRunner().invoke(command, words, env={"COLUMNS": "160"})
    assert result.exit_code == 0 and "63.27" in result.output
    if "--json" in words:
        assert len(json.loads(result.output)) == len(audit())
