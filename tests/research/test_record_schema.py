from __future__ import annotations

import json
from pathlib import Path

from tests.runs import quick_run
from upcl.research.record_schema import json_schema, write_json_schema


def test_shipped_schema_is_that_of_the_code(tmp_path: Path) -> None:
    write_json_schema(tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_text()) == json_schema()


def test_schema_has_the_fields_of_a_record() -> None:
    assert set(json_schema()["properties"]) == set(quick_run().to_json())
    assert "total_bytes" not in json_schema()["required"], "earlier records have no costs"
