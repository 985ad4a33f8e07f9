"""Mistakes of users: exit code 2, one line that names the right choice, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Invoke


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "uplc"], "did you mean upcl"),
        (["train", "upcl", "--data", "digit"], "did you mean digits"),
        (["train", "upcl", "--set", "tua=1"], "did you mean tau"),
        (["train", "upcl", "--set", "tau"], "expected key=value"),
        (["train", "upcl", "--set", "tau=hot"], "tau: Input should be a valid number"),
        (["train", "upcl", "--taks", "3"], "--tasks"),
        (["train", "upcl", "--tasks", "x"], "tasks 'x': use a number (5)"),
        (["train", "upcl", "--epochs", "0"], "epochs: Input should be greater than 0"),
        (["train", "upcl", "--device", "gpu"], "choose auto, cpu, cuda"),
        (["train", "upcl", "--device", "meta"], "choose auto, cpu"),
        (["train", "upcl", "--track", "tensorbord"], "did you mean tensorboard"),
        (["train", "--data", "digits"], "no method given"),
        (["train", "upcl", "--data", "synthetic:seed=-1"], "must not be negative"),
        (["train", "upcl", "--data", "synthetic:classes=--3"], "must be an integer"),
        (["train", "bic", "--memory", "0"], "needs exemplars"),
        (["train", "--config", "nothing.yaml"], "cannot read nothing.yaml"),
        (["show", "icral"], "did you mean icarl"),
        (["grid", "nothing.yaml"], "cannot read nothing.yaml"),
        (["report", "nothing"], "nothing does not exist"),
        (["reproduce", "abaltion"], "did you mean ablation"),
        (["bench", "--only", "part"], "did you mean parts"),
        (["data", "check", "nowhere"], "nowhere"),
        (["data", "get", "cifar1000"], "did you mean cifar100"),
        (["learn", "nowhere", "--model", "m.upcl"], "nowhere"),
        (["info", "m.upcl"], "there is no model m.upcl"),
        (["history", "m.upcl"], "there is no model m.upcl"),
        (["predict", "--model", "m.upcl", "a.jpg"], "there is no model m.upcl"),
        (["export", "m.upcl"], "add --onnx FILE or --torch FILE"),
        (["export", "m.upcl", "--onnx", "other.upcl"], "choose another name"),
        (["export", "m.upcl", "--onnx", ""], "Invalid value for '--onnx': it is empty"),
        (["learn", "photos", "--model", "m.upcl", "--max-forgetting", "nan"], "nan is not a finite number"),
        (["train", "upcl", "--save-seconds", "nan"], "nan is not a finite number"),
        (["verify-resume", "--kills", "-1"], "-1 is not in the range"),
        (["train", "upcl", "--data", "npz:~nosuchuser/x.npz"], "there is no home directory ~nosuchuser"),
        (["train", "upcl", "--data", "folder:~nosuchuser/x"], "there is no home directory ~nosuchuser"),
        (["train", "upcl", "--data", "cifar100", "--data-root", "~nosuchuser"], "there is no home directory"),
        (["train", "upcl", "--order", "~nosuchuser/order.txt"], "there is no home directory ~nosuchuser"),
        (["train", "upcl", "--out", "~nosuchuser/run"], "there is no home directory ~nosuchuser"),
        (["learn", "photos", "--model", "~nosuchuser/m.upcl"], "there is no home directory ~nosuchuser"),
        (["train", "upcl", "--data", "folder:a\nb"], "there is no folder a\\nb"),
        (["show", "\x1b]0;title\x07"], "unknown method '\\x1b]0;title\\x07'"),
    ],
    ids=str,
)
def test_mistake_exits_with_2_and_names_the_right_choice(
    words: list[str], message: str, invoke: Invoke, tmp_path: Path
) -> None:
    done = invoke(*words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [], "a mistake leaves nothing behind"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: upcl\ndevice: cpu", "unknown key of the config 'device'"),
        ("method: 3", "method must be a name, not 3"),
        ("method: upcl\noptions: [1]", "options"),
        ("- upcl", "must hold keys and values"),
    ],
)
def test_mistake_in_a_config_file_is_named(text: str, message: str, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"{text}\n")
    done = invoke("train", "--config", "c.yaml", "--set", "tau=1")
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
