"""The JSON schema of `record.json`, as shipped with the package."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from upcl.core.files import write_json

from .record import Record


def json_schema() -> dict[str, Any]:
    """The JSON schema of `record.json`, as shipped in `upcl/research/record.schema.json`.

    Example:
        >>> json_schema()["title"]
        'Record'
    """
    schema: dict[str, Any] = json.loads((files(__package__) / "record.schema.json").read_text(encoding="utf-8"))
    return schema


def write_json_schema(path: Path) -> None:
    """Write the schema that the code has now; the test suite compares it with the shipped file.

    Args:
        path: the file to write.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "record.schema.json"
        >>> write_json_schema(path)
        >>> json.loads(path.read_text()) == json_schema()
        True
    """
    write_json(path, _shorten_descriptions(Record.model_json_schema(by_alias=True)))


def _shorten_descriptions(schema: Any) -> Any:
    """Descriptions come from docstrings; a schema needs their first line only."""
    if isinstance(schema, dict):
        shortened = {key: _shorten_descriptions(value) for key, value in schema.items()}
        if isinstance(schema.get("description"), str):
            shortened["description"] = schema["description"].partition("\n")[0]
        return shortened
    return [_shorten_descriptions(item) for item in schema] if isinstance(schema, list) else schema
