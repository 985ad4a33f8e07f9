from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Invoke
from upcl import GrowingClassifier


def test_missing_packages_of_serve_are_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "upcl.model.server.connections", raising=False)
    done = invoke("serve", "m.upcl")
    assert done.exit_code == 2
    assert done.stderr == "error: serving needs uvicorn: pip install 'upcl[serve]'\n"


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The tokens with which `serve` made an application; nothing is served."""
    made: list[str | None] = []
    monkeypatch.setattr("upcl.model.server.app.make_app", lambda _, token: made.append(token))
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    return made


def test_the_token_of_serve_need_not_be_in_the_list_of_processes(
    invoke: Invoke, tokens: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    file, option, local = ("--token-file", "token"), ("--token", "from-option"), ("serve", "m.upcl", "--port", "0")
    assert invoke(*local).exit_code == invoke(*local, *file).exit_code == invoke(*local, *option).exit_code == 0
    monkeypatch.setenv("UPCL_TOKEN", "from-variable")
    done = [invoke(*local), invoke(*local, *file), invoke(*local, *option)]
    assert tokens == [None, "from-file", "from-option", "from-variable", "from-file", "from-option"]
    assert not any("from-" in result.output for result in done)
    invoke(*local, "--host", "0.0.0.0")
    assert tokens[-1] == "from-variable"


def test_wrong_tokens_are_named(invoke: Invoke, tokens: list[str | None], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for words, message in (
        (("--token", "a", "--token-file", "b"), "--token and --token-file exclude each other"),
        (("--token", "two words"), "the token must consist of"),
        (("--token-file", "empty"), "empty is empty: write a token into it"),
        (("--token-file", "nowhere"), "No such file or directory: nowhere"),
        (("--token-file", "."), "Is a directory: ."),
    ):
        done = invoke("serve", "m.upcl", "--port", "0", *words)
        assert done.exit_code in (1, 2) and done.stderr.startswith(f"error: {message}"), done.output
    assert tokens == []


@pytest.mark.parametrize("host", ["", "a b", "a" * 70, "[::1]", "\udcff", "1.2.3.4.5"])
def test_odd_hosts_of_serve_are_refused(host: str, invoke: Invoke) -> None:
    done = invoke("serve", "m.upcl", "--port", "0", "--host", host)
    assert done.exit_code == 2 and repr(host) in done.stderr and len(done.output.splitlines()) == 1


def test_only_a_socket_on_this_machine_needs_no_token(invoke: Invoke, tokens: list[str | None]) -> None:
    """The address decides, not the name: 127.1 is this machine, and a name may stand for any address."""
    assert invoke("serve", "m.upcl", "--port", "0", "--host", "127.1").exit_code == 0
    assert invoke("serve", "m.upcl", "--port", "0", "--host", "0").exit_code == 0
    assert tokens[0] is None and tokens[1]


@pytest.mark.parametrize("option", ["--onnx", "--torch"])
def test_export_is_refused_under_the_name_of_a_model(option: str, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "other.upcl").write_text("a model")
    for name in ("other.upcl", "new.upcl"):
        done = invoke("export", "m.upcl", option, name)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {name}: an export must not overwrite a model")
    assert (tmp_path / "other.upcl").read_text() == "a model"


def test_options_of_an_8_bit_export_belong_together(invoke: Invoke) -> None:
    done = invoke("export", "m.upcl", "--torch", "m.pt2", "--quantize", "int8")
    assert done.exit_code == 2 and done.stderr == "error: --quantize applies to ONNX: add --onnx FILE\n"
    done = invoke("export", "m.upcl", "--onnx", "m.onnx", "--photos", ".")
    assert done.exit_code == 2 and done.stderr == "error: --photos is for --quantize: add --quantize int8\n"


@pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter
def test_an_8_bit_export_is_compared_with_the_float_model(invoke: Invoke) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    GrowingClassifier("m.upcl", epochs=1).fit(images, ["cat", "dog"] * 10)
    done = invoke("export", "m.upcl", "--onnx", "m.onnx", "--quantize", "int8")
    assert done.exit_code == 0, done.stderr
    assert all(word in done.stdout for word in ("MB", "ms/photo", "points lost", "written to m.onnx"))
    rows = {
        line.split("│")[1].strip(): line.split("│")[2:] for line in done.stdout.splitlines() if line.startswith("│")
    }
    exact, small = ([float(cell.strip(" %")) for cell in rows[name][:3]] for name in ("float32", "int8"))
    assert small[0] < exact[0] and min(exact[1], small[1]) >= 0
    assert float(rows["int8"][3]) == pytest.approx(exact[2] - small[2], abs=0.11)


def test_studio_needs_the_name_of_a_model(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("studio", "birds", "--port", "0")
    assert done.exit_code == 2
    assert done.stderr == "error: birds is not named like a model: choose a name such as birds.upcl\n"
    assert not list(tmp_path.iterdir())


def test_studio_serves_an_application_with_the_token(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Path, str | None]] = []
    monkeypatch.setattr(
        "upcl.model.server.studio_app.make_studio_app",
        lambda teacher, token: made.append((teacher.learner.path, token)),
    )
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    assert invoke("studio", "birds.upcl", "--port", "0", "--token", "secret").exit_code == 0
    assert made == [(Path("birds.upcl"), "secret")]
