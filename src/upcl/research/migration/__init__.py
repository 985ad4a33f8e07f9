"""Configuration files of PyCIL, of PILOT and of the UPCL paper's own code, read as `upcl train` commands.

`program` says what a table of a program holds; `pycil`, `pilot` and `upcl_code` are the tables. `config_file` reads a
file and recognises its program, `translation` looks every key up, `command` writes the result down.
"""

from __future__ import annotations

from .config_file import PROGRAMS, find_program, read_config
from .translation import Translation, translate

__all__ = ["PROGRAMS", "Translation", "find_program", "read_config", "translate"]
