from __future__ import annotations

from collections import Counter

from upcl.methods.registry import METHODS, VARIANTS
from upcl.methods.upcl import LAMBDA_ONE
from upcl.research.paper.published import ablation_table, lambda_table, main_table, memory_tables


def test_tables_are_complete() -> None:
    assert {cell.method for cell in main_table()} == set(list(METHODS)[:16])
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
