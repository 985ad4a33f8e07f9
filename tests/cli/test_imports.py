from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Invoke
from tests.research.migration.shipped import ALL, shipped
from upcl.cli.imports import translation_lines, verdict_table
from upcl.cli.options import build_request
from upcl.cli.train import train
from upcl.core.recipes import override_recipes, split_recipe_options
from upcl.methods.registry import METHODS, method_options
from upcl.research.config import Request
from upcl.research.migration import translate
from upcl.research.migration.draft import Verdict

TINY = "synthetic:classes=4,train=8,test=4"


def write(path: Path, content: dict[str, Any]) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def parsed(command: str) -> Request:
    """The request of a command line, as `upcl train` parses it."""
    words = shlex.split(command)
    assert words[:2] == ["upcl", "train"]
    given = train.make_context("train", words[2:]).params
    fields = {option.name for option in train.params} & set(Request.__dataclass_fields__) - {"method"}
    return build_request(given["method"], given["settings"], given["config"], {name: given[name] for name in fields})


def meaning(request: Request) -> tuple[Any, ...]:
    """What a request says, with its options resolved: on a command line all values are text."""
    parts = split_recipe_options(request.options)
    recipes = override_recipes(request.method_class.recipes, request.epochs, parts)
    options = method_options(request.method_name, request.method_class, parts["method"], official=True)
    plain = {name: value for name, value in vars(request).items() if name not in ("options", "order_seed")}
    return plain, recipes, options, request.order or request.order_seed


@pytest.mark.parametrize(("program", "name"), ALL)
def test_train_accepts_every_command(program: str, name: str) -> None:
    found = translate(shipped(program, name), program)
    for command, request in zip(found.commands, found.requests, strict=True):
        assert meaning(parsed(command)) == meaning(request)


def test_the_command_comes_first_and_every_key_is_listed(tmp_path: Path, invoke: Invoke) -> None:
    content = shipped("pycil", "icarl")
    done = invoke("import", "pycil", write(tmp_path / "icarl.json", content), columns=200)
    assert done.exit_code == 0, done.stderr
    first, _, command, *rest = done.stdout.splitlines()
    assert first == "iCaRL, for PyCIL (its models have 'icarl'; --from overrides)"
    assert command.startswith("upcl train icarl --data cifar100 --tasks 10 --memory 2000 --backbone resnet32 ")
    assert all(f"│ {key} " in "\n".join(rest) for key in content)


def test_commands_are_not_wrapped_in_a_narrow_terminal(tmp_path: Path, invoke: Invoke) -> None:
    done = invoke("import", "pycil", write(tmp_path / "der.json", shipped("pycil", "der")), columns=40)
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("upcl train")]
    assert command.endswith("--set head_share=0")
    assert "set by" in done.stdout
    assert "note: PyCIL aligns" in done.stdout


def test_a_model_that_is_not_here_names_the_nearest_and_exits_with_2(tmp_path: Path, invoke: Invoke) -> None:
    file = write(tmp_path / "l2p.json", shipped("pilot", "l2p"))
    done = invoke("import", "pycil", file)
    assert done.exit_code == 2
    assert "not the same, but nearest here is ranpac:" in done.stdout
    assert done.stderr.startswith("error: L2P is not here; nearest is ranpac: it learns prompts")
    refused = invoke("import", "pycil", file, "--run")
    assert refused.exit_code == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ({"model_name": "icral"}, (), "did you mean icarl?"),
        ({"model_name": "upcl"}, ("--from", "pycil"), "but UPCL's code has: use --from upcl"),
        ({"dataset": "cifar100"}, (), "names no model"),
        ({"model_name": "icarl"}, ("--json", "--run"), "--json prints only"),
        ({"model_name": "icarl", "seed": []}, (), "nothing would be run"),
    ],
)
def test_errors_are_one_line(
    content: dict[str, Any], words: tuple[str, ...], message: str, tmp_path: Path, invoke: Invoke
) -> None:
    done = invoke("import", "pycil", write(tmp_path / "x.json", content), *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_json(tmp_path: Path, invoke: Invoke) -> None:
    content = shipped("upcl", "upcl")
    done = invoke("import", "pycil", write(tmp_path / "upcl.json", content), "--json")
    value = json.loads(done.stdout)
    assert (value["program"], value["model"], value["method"], value["equivalent"]) == ("upcl", "UPCL", "upcl", True)
    assert {row["key"]: row["value"] for row in value["keys"]} == content
    assert len(value["commands"]) == 1


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path, invoke: Invoke) -> None:
    content = shipped("pycil", "icarl") | {"prefix": "\x1b[31mred", "\x1b[2Jkey": 1, "dataset": "\x1b[2J"}
    done = invoke("import", "pycil", write(tmp_path / "x.json", content))
    assert "\x1b" not in done.stdout + done.stderr


def test_run_trains_every_seed_and_skips_what_has_finished(tmp_path: Path, invoke: Invoke) -> None:
    content = shipped("pycil", "icarl") | {"seed": [1, 2], "init_cls": 2, "increment": 2, "memory_size": 4}
    file = write(tmp_path / "two.json", content)
    words = ["import", "pycil", file, "--run", "--data", TINY, "--epochs", "1", "--out", "here", "--device", "cpu"]
    done = invoke(*words, "--jobs", "2")
    assert done.exit_code == 0, done.stderr
    records = [json.loads(path.read_text()) for path in (tmp_path / "here").glob("*/record.json")]
    assert sorted(record["config"]["order_seed"] for record in records) == [1, 2]
    for record in records:
        config = record["config"]
        assert (config["method"], config["seed"], config["task_sizes"]) == ("icarl", 1, [2, 2])
        assert (config["memory"], config["sharing"], config["select"]) == ("4", "floor", "last")
        assert config["recipes"]["first"]["epochs"] == 1
    assert "done before" in invoke(*words).stdout


def test_a_run_that_cannot_begin_exits_with_1(tmp_path: Path, invoke: Invoke) -> None:
    file = write(tmp_path / "x.json", shipped("pycil", "icarl"))
    done = invoke("import", "pycil", file, "--run", "--data-root", str(tmp_path / "nothing"))
    assert done.exit_code == 1
    assert "order1993-seed1" in done.stderr


def test_lines_and_table() -> None:
    lines = list(translation_lines(translate(shipped("pycil", "acil"), "pycil")))
    assert lines[0] == "ACIL, for PyCIL"
    table = verdict_table("key", [Verdict("a", "x" * 100, "ignored", "y")])
    assert [column.header for column in table.columns] == ["key", "value", "verdict", "here"]
    assert len(str(next(iter(table.columns[1].cells)))) == 24


def test_all_methods_of_the_tables_that_are_registered_get_a_command() -> None:
    for name in ("foster", "memo", "podnet", "pass", "tagfex"):
        found = translate(shipped("pycil", name))
        assert found.equivalent == (name in METHODS)
