from __future__ import annotations

from typing import Any

import pytest

from tests.research.altered import alter, with_accuracy
from upcl.research.record import ByReading, Record
from upcl.research.report.cost_tables import area_table, cost_table, exemplars_within, metrics_table


def sized(record: Record, network: int, exemplars: int, accuracy: float = 50.0, **changes: Any) -> Record:
    """A run that keeps exemplars of 192 bytes next to a network."""
    pixels = 192 * exemplars
    costs = {"network_bytes": network, "exemplar_bytes": pixels, "total_bytes": network + pixels}
    curves = {name: [1, 2, size] for name, size in costs.items()}
    return with_accuracy(record, accuracy, exemplars=[1, 2, exemplars], **curves, **changes)


def names(records: list[Record], **choices: Any) -> list[str]:
    table = cost_table("x", records, **choices)
    assert table
    return [row[0].text for row in table.rows]


def test_exemplars_and_network_equal_the_budget(records: list[Record]) -> None:
    for network, budget in ((1_000_000, 2_000_000), (1_853_000, 7_600_123), (4_000, 4_191)):
        allowed = exemplars_within(budget, [sized(records[0], network, 12)])
        assert allowed is not None
        assert network + 192 * allowed <= budget < network + 192 * (allowed + 1)
    assert exemplars_within(1000, [sized(records[0], 2000, 12)]) == 0, "the network alone takes more"
    assert exemplars_within(10**6, [sized(records[0], 2000, 0)]) is None, "a method without exemplars"
    assert exemplars_within(10**6, [alter(records[0], network_bytes=None)]) is None


def test_methods_rank_at_equal_exemplars_or_at_equal_memory(records: list[Record]) -> None:
    icarl, upcl = records[0], records[2]
    wa, der = alter(icarl, method="wa"), alter(icarl, method="der")
    found = [
        sized(icarl, 1_000_000, 100, accuracy=40.0),
        sized(upcl, 1_000_000, 110, accuracy=45.0),
        sized(wa, 1_000_000, 100, accuracy=42.0),
        sized(der, 3_000_000, 100, accuracy=60.0),
    ]
    assert names(found) == ["DER", "WA", "iCaRL", "UPCL"], "100 exemplars by A_last, then 110"
    assert names(found, equal="memory") == ["UPCL", "WA", "iCaRL", "DER"], "one percent apart counts as equal"
    assert names(found, equal="memory", budget=3_019_200) == ["DER", "UPCL", "WA", "iCaRL"], "all of them fit"
    assert names(found, equal="memory", budget=1_500_000) == ["UPCL", "WA", "iCaRL", "DER"], "DER exceeds it"


def test_table_counts_exemplars_for_a_budget(records: list[Record]) -> None:
    found = [sized(records[0], 1_000_000, 100), sized(records[2], 3_000_000, 100)]
    table = cost_table("x", found)
    assert table
    assert table.columns[6] == "exemplars within 3.02 MB", "the largest total"
    rows = {row[0].text: [cell.value for cell in row] for row in table.rows}
    assert rows["UPCL"][1] == rows["UPCL"][6] == 100
    assert rows["iCaRL"][6] == (3_019_200 - 1_000_000) // 192
    assert rows["iCaRL"][3:6] == pytest.approx([1.0, 0.0192, 1.0192])
    table = cost_table("x", found, budget=2_000_000)
    assert table and table.columns[6] == "exemplars within 2.00 MB" and "2000000B-total" in table.notes[0]


def test_earlier_records_have_no_table_of_costs(records: list[Record]) -> None:
    earlier = [alter(record, total_bytes=None, multiply_adds=None) for record in records]
    assert cost_table("x", earlier) is None
    assert area_table("x", earlier) is None
    table = metrics_table("x", earlier)
    backward = (f"backward transfer {name}" for name in ("head", "nme", "both"))
    assert table and table.columns == ("method", *backward, "forward transfer")


def test_metrics_are_means_over_seeds(records: list[Record]) -> None:
    table = metrics_table("x", records)
    assert table and table.columns[-1] == "multiply-adds (M)"
    row = dict(zip(table.columns, table.rows[0], strict=True))
    values = [record.backward_transfer.nme for record in records[:2]]
    assert None not in values
    assert row["backward transfer nme"].value == pytest.approx(sum(value or 0.0 for value in values) / 2)
    assert row["forward transfer"].value == 0 and "0 for every method" in " ".join(table.notes)
    assert records[0].multiply_adds
    assert row["multiply-adds (M)"].value == records[0].multiply_adds[-1] / 1e6
    assert metrics_table("x", [alter(records[0], seconds=[1.0])]) is None, "one task transfers nothing"


def test_intransigence_appears_with_joint_runs(records: list[Record]) -> None:
    best = ByReading[list[list[float]]](head=[[90.0], [0.0, 80.0], [0.0, 0.0, 100.0]], nme=None)
    joint = alter(records[0], method="joint", top1_matrix=best)
    table = metrics_table("x", [*records, joint])
    assert table
    cells = {row[0].text: row[table.columns.index("intransigence head")] for row in table.rows}
    learned = [records[0].top1_matrix.head[j][j] for j in range(3)]
    assert cells["iCaRL"].value == pytest.approx(90 - sum(learned) / 3), "on the one seed that joint training has"
    assert cells["Joint (Oracle)"].text == "-"


def test_areas_are_over_the_range_that_all_methods_cover(records: list[Record]) -> None:
    icarl, upcl = records[0], records[2]
    sizes = {
        "icarl": [(1_000_000, 40.0), (2_000_000, 50.0), (4_000_000, 60.0)],
        "upcl": [(2_000_000, 50.0), (9_000_000, 64.0)],
    }
    found = []
    for record in (icarl, upcl):
        for network, accuracy in sizes[record.method]:
            found.append(sized(record, network, 0, accuracy=accuracy, config={"memory": str(network)}))
    table = area_table("x", [*found, sized(alter(icarl, method="wa"), 5_000_000, 0)])
    assert table and "2.000 to 4.000 MB" in table.notes[0]
    rows = {row[0].text: row for row in table.rows}
    assert set(rows) == {"iCaRL", "UPCL"}, "one size has no area"
    assert rows["iCaRL"][2].value == pytest.approx(55.0)
    assert rows["UPCL"][2].value == pytest.approx(52.0)
    assert rows["iCaRL"][3].text == "3"


def test_methods_without_a_common_range_have_no_area(records: list[Record]) -> None:
    found = [sized(records[0], size, 0, config={"memory": str(size)}) for size in (1_000_000, 2_000_000)]
    found += [sized(records[2], size, 0, config={"memory": str(size)}) for size in (3_000_000, 4_000_000)]
    table = area_table("x", found)
    assert table and "no range of total memory in common" in table.notes[0]
    assert [cell.text for row in table.rows for cell in row[1:3]] == ["-"] * 4
