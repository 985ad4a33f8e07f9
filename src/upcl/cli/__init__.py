"""The command line: one module per family of commands, with the tables that it prints.

Commands parse options, call the library and print; `group` lists them. Heavy packages (torch, pydantic, rich) are
imported inside functions only, so that `upcl --help` is instant.
"""

from __future__ import annotations

from .group import main

__all__ = ["main"]
