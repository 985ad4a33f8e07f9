from __future__ import annotations

from tests.runs import quick_run
from upcl.cli.run_tables import each_reading, summary_table, task_table


def test_methods_without_exemplars_have_dashes() -> None:
    record = quick_run("finetune", epochs=1)
    assert each_reading(record.a_last)[1:] == ["-", "-"]
    cells = {str(column.header): list(column.cells) for column in summary_table([record], "one run").columns}
    assert cells["method"] == ["Finetune"] and cells["A_last\nnme"] == ["-"]


def test_a_row_per_task() -> None:
    record = quick_run("icarl", epochs=1)
    table = task_table(record)
    assert table.row_count == 3 and list(table.columns[0].cells) == ["1", "2", "3"]
    assert next(iter(table.columns[3].cells)) == "-", "the first task has no old classes"
