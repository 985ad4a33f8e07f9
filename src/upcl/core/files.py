"""Files that are whole or not there: atomic writes, and checkpoints that are checked before they are believed."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

PARTIAL = ".partial"


def write_atomic(path: Path, *content: bytes | memoryview) -> None:
    """Write beside the target, flush to disk, rename over it: a kill at any moment leaves the old file or the new."""
    partial = partial_name(path)
    try:
        with open(partial, "wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def partial_name(path: Path) -> Path:
    """Where a file is written before it takes its name: no other process or machine writes there."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{PARTIAL}")


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())
