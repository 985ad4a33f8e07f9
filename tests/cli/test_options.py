from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from upcl.cli import main
from upcl.cli.options import PATH, RUN_OPTIONS, FiniteFloat, NonEmptyPath, build_request, parse_settings, with_options
from upcl.core.errors import UserError
from upcl.research.config import Request


def test_options_override_the_config_file_which_overrides_defaults(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("method: icarl\ntasks: 4,3,3\nseed: 5\norder: b,a\noptions: {temperature: 3, tau: 1}\n")
    request = build_request(None, ["tau=2"], file, {"seed": 7, "memory": "20", "epochs": None})
    assert request == Request(
        method="icarl",
        tasks=(4, 3, 3),
        seed=7,
        memory="20",
        order=("b", "a"),
        options={"temperature": 3, "tau": "2"},
    )
    assert build_request("upcl", [], file, {}).method == "upcl"


def test_class_order_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("cat\ndog\n\nowl\n")
    request = build_request("upcl", [], None, {"order": str(tmp_path / "order.txt")})
    assert request.order == ("cat", "dog", "owl")


def test_method_is_required() -> None:
    with pytest.raises(UserError, match="no method given"):
        build_request(None, [], None, {"data": "digits"})


def test_settings_keep_equals_signs_of_values() -> None:
    assert parse_settings(["a=b=c", " d = 1 "]) == {"a": "b=c", "d": "1"}
    with pytest.raises(UserError, match="--set tau: expected key=value"):
        parse_settings(["tau"])


def test_every_field_of_a_request_has_an_option() -> None:
    command = click.command()(with_options(RUN_OPTIONS)(lambda **_: None))
    names = {parameter.name for parameter in command.params}
    fields = {field.name for field in dataclasses.fields(Request)}
    assert names - {"settings", "config"} == fields - {"method", "options"}


def parameters(command: click.Command) -> Iterator[click.Parameter]:
    yield from command.params
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from parameters(command.get_command(context, name) or click.Command(None))


def test_every_path_and_number_of_the_command_line_is_checked() -> None:
    types = [parameter.type for parameter in parameters(main)]
    assert all(isinstance(kind, NonEmptyPath) for kind in types if isinstance(kind, click.Path))
    assert all(isinstance(kind, FiniteFloat) for kind in types if isinstance(kind, type(click.FLOAT)))
    assert sum(isinstance(kind, FiniteFloat) for kind in types) >= 3


@pytest.mark.parametrize(("text", "message"), [("", "it is empty"), ("a\0b", "null character")])
def test_paths_that_cannot_exist_are_refused(text: str, message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        PATH.convert(text, None, None)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a finite number"):
        FiniteFloat().convert(text, None, None)
