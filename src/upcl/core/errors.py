"""Errors with a message for the user: what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .text import printable

_SIMILAR = 0.15  # difference to the best match up to which other matches are suggested too


class UpclError(Exception):
    """Base class of all errors that this package raises on purpose.

    Example:
        >>> try:
        ...     raise unknown_choice("method", "icral", ["icarl", "upcl"])
        ... except UpclError as error:
        ...     print(error)
        unknown method 'icral': did you mean icarl?
    """


class UserError(UpclError):
    """A request that cannot be fulfilled; the message explains what to change.

    Example:
        >>> try:
        ...     raise UserError("no such file: photos")
        ... except UpclError as error:
        ...     print(error)
        no such file: photos
    """


class BusyError(UserError):
    """Another process works on what was asked for.

    Example:
        >>> issubclass(BusyError, UserError)
        True
    """


class CheckpointError(UpclError):
    """A saved state that is damaged, not a checkpoint, or of another run.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl.training.checkpoints import load_checkpoint
        >>> path = Path(tempfile.mkdtemp()) / "task-0.pt"
        >>> _ = path.write_bytes(b"something else")
        >>> load_checkpoint(path)
        Traceback (most recent call last):
        upcl.core.errors.CheckpointError: ... is not a checkpoint of upcl
    """


class TrainingError(UpclError):
    """A training failure, such as a loss that is not finite, that must not go unnoticed.

    Example:
        >>> from upcl import Request, run
        >>> data, options = "synthetic:classes=2,train=4,test=2", {"recipe.lr": 1e30}
        >>> run(Request(method="finetune", data=data, tasks=1, epochs=2, options=options))
        Traceback (most recent call last):
        upcl.core.errors.TrainingError: loss 'ce' became nan in epoch 1 of stage 'train': try a lower learning rate ...
    """


class LostProcessError(TrainingError):
    """Another process of the run has ended, or does not answer.

    Example:
        >>> issubclass(LostProcessError, TrainingError)
        True
    """


class RelayedError(UpclError):
    """The first process has failed and says why; the others end with it.

    Example:
        >>> str(RelayedError("runs/a is in use by another process"))
        'runs/a is in use by another process'
    """


def unknown_choice(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """Create the error for an unknown name, with a suggestion.

    Args:
        kind: what the name stands for, such as "method".
        name: the unknown name.
        choices: all valid names.

    Returns:
        An error that suggests the closest names, or lists all of them if none is close.

    Example:
        >>> print(unknown_choice("method", "icral", ["icarl", "upcl"]))
        unknown method 'icral': did you mean icarl?
        >>> print(unknown_choice("method", "x", ["icarl", "upcl"]))
        unknown method 'x': choose from: icarl, upcl
    """
    names = list(choices)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    ratios = [difflib.SequenceMatcher(None, name.lower(), other).ratio() for other in close]
    close = [other for other, ratio in zip(close, ratios, strict=True) if ratio > ratios[0] - _SIMILAR]
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose from: {', '.join(names)}"
    return UserError(f"unknown {kind} '{printable(name)}': {printable(hint)}")
