"""Errors for the user."""

from __future__ import annotations

import pytest

from upcl.core.errors import CheckpointError, TrainingError, UpclError, UserError, unknown_choice

METHODS = ["joint", "finetune", "focal", "lwf", "icarl", "bic", "upcl"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("icral", "did you mean icarl?"),
        ("UPCL", "did you mean upcl?"),
        ("finetun", "did you mean finetune?"),
        ("zzz", "choose from: joint, finetune, focal, lwf, icarl, bic, upcl"),
    ],
)
def test_unknown_choice_suggests_the_closest_names(name: str, hint: str) -> None:
    error = unknown_choice("method", name, METHODS)
    assert isinstance(error, UserError)
    assert str(error) == f"unknown method '{name}': {hint}"


def test_equally_close_names_are_all_suggested() -> None:
    assert str(unknown_choice("data set", "cifar1000", ["cifar10", "cifar100", "digits"])).endswith(
        "did you mean cifar100 or cifar10?"
    )


def test_all_errors_can_be_caught_together() -> None:
    assert all(issubclass(error, UpclError) for error in (UserError, CheckpointError, TrainingError))
