from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.research.migration.shipped import ALL, shipped
from upcl.core.errors import UserError
from upcl.research.migration import find_program, read_config
from upcl.research.migration.config_file import MAX_BYTES, find_model
from upcl.research.migration.pilot import PILOT
from upcl.research.migration.pycil import PYCIL


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("[1]", "must hold keys and values"),
        ("{}", "must hold keys and values"),
        ('{"dataset": "cifar100"}', "names no model"),
        ('{"model_name": 3}', "names no model"),
        ('{"model_name": "icarl", // comment\n "seed": [1]}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"model_name": "icarl", "x": 1' + "0" * 5000 + "}", "is not JSON"),
        ('{"model_name": "icarl", "x": "' + "x" * MAX_BYTES + '"}', "too large"),
        (json.dumps({"model_name": "icarl", **{f"key{k}": k for k in range(1000)}}), "more than 1,000 keys"),
    ],
    ids=range(11),
)
def test_files_that_are_no_configuration_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_config(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        read_config(tmp_path / "missing.json")
    with pytest.raises(UserError, match="cannot read"):
        read_config(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\x00")
    with pytest.raises(UserError, match="not a text file"):
        read_config(tmp_path / "binary.json")


def test_a_configuration_is_read_as_it_is(tmp_path: Path) -> None:
    content = shipped("pycil", "acil")
    path = tmp_path / "acil.json"
    path.write_text(json.dumps(content))
    assert read_config(path) == content


@pytest.mark.parametrize(("program", "name"), ALL)
def test_the_program_of_every_shipped_file_is_recognised(program: str, name: str) -> None:
    found, reason = find_program(shipped(program, name))
    assert found.name == program
    assert reason


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"model_name": "UPCL"}, "upcl"),
        ({"model_name": "l2p"}, "pilot"),
        ({"model_name": "bic", "dataset": "cifar100"}, "pycil"),
        ({"model_name": "icarl", "dataset": "tinyimagenet"}, "upcl"),
        ({"model_name": "icarl", "dataset": "imagenetr"}, "pilot"),
        ({"model_name": "nosuch"}, "pycil"),
    ],
)
def test_a_program_is_recognised_by_model_and_data(content: dict[str, Any], expected: str) -> None:
    assert find_program(content)[0].name == expected


def test_a_program_that_is_named_is_not_guessed() -> None:
    assert find_program({"model_name": "upcl"}, "pycil") == (PYCIL, "")
    with pytest.raises(UserError, match="did you mean pilot"):
        find_program({}, "pilto")


def test_unknown_models_name_the_nearest_there_and_here() -> None:
    with pytest.raises(UserError, match=r"did you mean icarl\?.*methods here.*did you mean icarl\?"):
        find_model({"model_name": "icral"}, PYCIL)
    with pytest.raises(UserError, match="PyCIL has no model 'l2p', but PILOT has: use --from pilot"):
        find_model({"model_name": "L2P"}, PYCIL)
    with pytest.raises(UserError, match="it is a method here: upcl train lucir"):
        find_model({"model_name": "lucir"}, PILOT)
