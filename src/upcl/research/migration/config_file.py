"""Reading a configuration file of another program, and recognising the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError, unknown_choice
from upcl.core.files import parse_json, read_text
from upcl.methods.registry import METHODS

from .pilot import PILOT
from .program import Model, Program
from .pycil import PYCIL
from .upcl_code import UPCL_CODE

MAX_BYTES, MAX_KEYS = 100_000, 1_000  # of a configuration file: the largest known one has 1,500 bytes and 45 keys
PROGRAMS: dict[str, Program] = {program.name: program for program in (PYCIL, PILOT, UPCL_CODE)}
"""The programs whose files are understood, by name."""


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration file.

    Args:
        path: a JSON file with keys and values.

    Raises:
        UserError: if it cannot be read, or holds something else.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "icarl.json"
        >>> _ = path.write_text('{"model_name": "icarl"}')
        >>> read_config(path)
        {'model_name': 'icarl'}
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is too large for a configuration file: {MAX_BYTES:,} bytes at most")
        text = read_text(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    try:
        content = parse_json(text)
    except ValueError as error:  # the class of json's errors, and what numbers of too many digits raise
        raise UserError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or not content:
        raise UserError(f'{path} must hold keys and values, such as {{"model_name": "icarl"}}')
    if len(content) > MAX_KEYS:
        raise UserError(f"{path} has more than {MAX_KEYS:,} keys: not a configuration file")
    if not isinstance(content.get("model_name"), str):
        raise UserError(f'{path} names no model: add "model_name", such as "icarl"')
    return content


def find_program(content: Mapping[str, Any], name: str | None = None) -> tuple[Program, str]:
    """Find the program that a file is for.

    Args:
        content: the file.
        name: the program's name; None to recognise it.

    Returns:
        The program, and what it was recognised by; an empty text if it was named.

    Raises:
        UserError: if there is no such program.

    Example:
        >>> program, reason = find_program({"model_name": "icarl", "convnet_type": "resnet32"})
        >>> program.title, reason
        ('PyCIL', "its models have 'icarl'")
    """
    if name is not None:
        if name not in PROGRAMS:
            raise unknown_choice("program", name, PROGRAMS)
        return PROGRAMS[name], ""
    for program in PROGRAMS.values():
        if marks := sorted(program.marks & content.keys()):
            return program, f"the key '{marks[0]}'"
    model = str(content.get("model_name")).lower()
    if model in UPCL_CODE.models and "fixed_memory" in content and "memory_per_class" not in content:
        return UPCL_CODE, "the key 'fixed_memory' without 'memory_per_class'"
    source = str(content.get("dataset")).lower()
    known = [program for program in PROGRAMS.values() if model in program.models]
    for program in known:
        if source in program.sources:
            return program, f"its models have '{model}'"
    return (known or [PYCIL])[0], f"its models have '{model}'" if known else "the most common program"


def find_model(content: Mapping[str, Any], program: Program) -> Model:
    """Find the model of a file.

    Args:
        content: the file.
        program: its program.

    Raises:
        UserError: if the program has no such model; the message names the nearest ones, there and here.

    Example:
        >>> find_model({"model_name": "iCaRL"}, PYCIL).title
        'iCaRL'
    """
    name = str(content["model_name"]).lower()
    if name in program.models:
        return program.models[name]
    elsewhere = [other for other in PROGRAMS.values() if name in other.models]
    if elsewhere:
        raise UserError(
            f"{program.title} has no model '{name}', but {elsewhere[0].title} has: use --from {elsewhere[0].name}"
        )
    problem = unknown_choice(f"model_name of {program.title}", name, program.models)
    if name in METHODS:
        raise UserError(f"{problem}; it is a method here: upcl train {name}")
    raise UserError(f"{problem}; of the methods here: {unknown_choice('method', name, METHODS)}")
