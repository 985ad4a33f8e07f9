"""Keys and values of the configuration files that PyCIL, PILOT and UPCL's code ship, as `shipped.json` holds them.

Each file is written as what it changes in the values that most files of its program share, or in another file ("like").
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PROGRAMS: dict[str, Any] = json.loads((Path(__file__).parent / "shipped.json").read_text())


def shipped(program: str, name: str) -> dict[str, Any]:
    """One file."""
    row = _PROGRAMS[program]["files"][name]
    start = shipped(program, row["like"]) if "like" in row else _PROGRAMS[program]["base"]
    kept = {key: value for key, value in start.items() if key not in row.get("without", ())}
    return {**kept, **row["set"]}


ALL = [(program, name) for program, content in _PROGRAMS.items() for name in content["files"]]
"""Program and name of every file."""
