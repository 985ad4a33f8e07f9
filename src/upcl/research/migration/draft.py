"""What has been found out about a file so far: verdicts on its keys, and the request that they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from upcl.core.errors import UserError

from .program import Kind, Model, Program


@dataclass(frozen=True)
class Verdict:
    """What becomes of one key.

    Args:
        key: the key; of nested keys, all of them with dots between.
        value: its value.
        kind: the kind of verdict.
        text: what it becomes, or why it becomes nothing.

    Example:
        >>> Verdict("prefix", "reproduce", "no equivalent", "names the log file").kind
        'no equivalent'
    """

    key: str
    value: Any
    kind: Kind
    text: str


@dataclass
class Draft:
    """An unfinished translation.

    Args:
        content: the file.
        program: its program.
        model: its model.
        method: the equivalent method here; empty if there is none.
        verdicts: verdicts by key.
        hard_coded: verdicts on what the program sets itself.
        values: fields of the request.
        options: options of the method and of its recipes.
        seeds: pairs of the seed of the class order and the other seed.
        notes: what no key expresses.
        device: where to train.

    Example:
        >>> from upcl.research.migration.pycil import MODELS, PYCIL
        >>> draft = Draft({"model_name": "icarl"}, PYCIL, MODELS["icarl"], "icarl")
        >>> draft.judge("model_name", "becomes", "upcl train icarl")
        >>> draft.verdicts["model_name"].value
        'icarl'
    """

    content: Mapping[str, Any]
    program: Program
    model: Model
    method: str
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    hard_coded: list[Verdict] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    seeds: list[tuple[int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    device: str = "auto"

    def judge(self, key: str, kind: Kind, text: str) -> None:
        """Record the verdict on a key, if the file has it.

        Args:
            key: the key.
            kind: the kind of verdict.
            text: what it becomes, or why it becomes nothing.
        """
        if key in self.content:
            self.verdicts[key] = Verdict(key, self.content[key], kind, text)

    def integer(self, key: str, smallest: int) -> int:
        """Return a key's value, which must be a whole number.

        Args:
            key: the key.
            smallest: the smallest value that makes sense.

        Raises:
            UserError: if it is something else.
        """
        value = self.content[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
            raise UserError(f"'{key}' must be a whole number from {smallest} on, not {value!r}")
        return value
