from __future__ import annotations

from collections import Counter

from upcl.methods.registry import METHODS, VARIANTS
from upcl.methods.upcl import LAMBDA_ONE
from upcl.research.paper.published import ablation_table, audit, lambda_table, main_table, memory_tables


def test_tables_are_complete() -> None:
    assert {cell.method for cell in main_table()} == set(METHODS)
    assert Counter(cell.stream for cell in main_table()) == {
        ("cifar100", 5): 16,
        ("cifar100", 10): 16,
        ("cifar100", 20): 16,
        ("imagenet100", 20): 13,
        ("tinyimagenet", 40): 11,
    }
    assert len(memory_tables()) == 9 * 4 * 3
    assert {cell.memory for cell in memory_tables()} == {500, 1000, 2000}
    assert set(ablation_table()) == set(VARIANTS)
    assert set(lambda_table()) == set(LAMBDA_ONE)


def test_some_cells_are_as_printed() -> None:
    cells = {(*cell.setting, cell.method): cell for cell in (*memory_tables(), *main_table())}
    bic = cells["cifar100", 10, 2000, "bic"]
    assert (bic.a_last, bic.a_avg) == (50.79, 65.08)
    assert cells["tinyimagenet", 40, 2000, "joint"].a_avg is None
    upcl = cells["imagenet100", 20, 1000, "upcl"]
    assert (upcl.a_last, upcl.a_avg, upcl.delta_last) == (42.0, 61.14, -6.88)
    assert set(upcl.bold) == {"a_last", "a_avg", "delta_last"}
    assert ablation_table()["cos+dm"] == (35.41, 49.78)
    assert lambda_table()["2^t"] == (10.94, 45.83)


def test_audit_finds_the_known_inconsistencies() -> None:
    findings = audit()
    assert Counter(finding.kind for finding in findings)["delta"] == 16
    sentences = {f"{finding.kind}: {finding.where}: {finding.what}" for finding in findings}
    assert sentences >= {
        "delta: cifar100 T=5 M=500, upcl: printed -3.91, the columns give -4.51",
        "contradiction: cifar100 T=5 M=2000, wa: a_last 60.57 in the main table, 63.27 in the appendix",
        "contradiction: cifar100 T=10 M=500, upcl: a_last 51.78 in the ablation, 52.31 in the appendix",
        "contradiction: imagenet100 T=20 M=2000, upcl: a_avg 67.50 in the main table, 67.16 in the appendix",
        "contradiction: imagenet100 T=20 M=2000, wa: a_avg 65.35 in the main table, 65.36 in the appendix",
        "copy: cifar100 T=20 M=1000, icarl: a_avg 48.46 is also printed for cifar100 T=20 M=2000",
        "copy: cifar100 T=20 M=2000, upcl: a_avg 67.16 is also printed for imagenet100 T=20 M=2000",
        "best: tinyimagenet T=10 M=2000, upcl: a_avg 47.84, wa has 49.82",
        "protocol: main table: Coil and BiC are quoted from elsewhere, not run",
        "bold: cifar100 T=5 M=2000, upcl: a_last 60.92 is bold, wa has 63.27",
        "text: cifar100 T=5: upcl leads wa in a_avg by 0.97 in the text, by 0.39 in the table",
    }
