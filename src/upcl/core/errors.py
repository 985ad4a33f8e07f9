"""Errors that are the user's to mend: each names the cause, the place and the nearest right choice."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UpclError(Exception):
    """Base of every error this package raises on purpose."""


class UserError(UpclError):
    """Something that was asked for cannot be done; the message says what to change."""


class CheckpointError(UpclError):
    """A saved state is damaged, foreign or belongs to another run."""


class TrainingError(UpclError):
    """Training went wrong in a way that going on would hide."""


def unknown_choice(kind: str, word: str, choices: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the names that are near."""
    names = list(choices)
    near = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from: {', '.join(names)}"
    return UserError(f"unknown {kind} '{word}': {hint}")
