from __future__ import annotations

import pytest

from tests.research.altered import with_accuracy
from upcl.research.paper.experiments import PublishedReference
from upcl.research.record import Record
from upcl.research.report.memory_tables import memory_table


def test_losses_by_memory_are_paired_by_seed(records: list[Record]) -> None:
    upcl = records[2:]
    smaller = with_accuracy(upcl[0], 10.0, config={"memory": "6"})
    published = PublishedReference("memory", data="cifar100", tasks={3: 10}, memory={6: 500, 12: 2000})
    table = memory_table("x", [*upcl, smaller], published)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["M=6 Δ_last"].value == pytest.approx(10.0 - upcl[0].a_last.head), "on the one seed that both have"
    assert row["M=6 Δ_last paper"].value == pytest.approx(52.31 - 56.12)
    assert row["M=12 A_last"].value == pytest.approx((upcl[0].a_last.head + upcl[1].a_last.head) / 2)
    assert row["M=12 A_avg paper"].value == 69.41
    assert not any("memory differs" in note for note in table.notes)
