"""The commands around a model: learn, predict, info, history, rollback, forget, export and serve."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient

from tests.model.conftest import model_file, own_copy, photos
from tests.model.feature_models import grow
from tests.model.model_files import DAMAGES, damage, rewrite
from tests.model.photos import QUICK_WORDS, mix_folders
from upcl.cli import main
from upcl.methods.registry import VARIANTS
from upcl.model.file import load, save
from upcl.model.learner import Learner
from upcl.model.predictor import NONE_OF_THESE
from upcl.model.spec import make_method

__all__ = ["model_file", "own_copy", "photos"]


def upcl(*words: str | Path, **options: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "160"}, **options)


def learn(folder: Path, model: Path, *words: str) -> Result:
    return upcl("learn", folder, "--model", model, *QUICK_WORDS, *words)


# learn


def test_learn_creates_a_model_and_adds_classes(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    first = learn(photos / "first", path)
    assert first.exit_code == 0, first.output
    assert "3 classes" in first.stdout and "12 held-out images" in first.stdout and f"written to {path}" in first.stdout
    second = learn(photos / "second", path)
    assert second.exit_code == 0 and "6 classes" in second.stdout
    assert Learner(path).classes == [f"kind {label}" for label in range(6)]


@pytest.mark.parametrize("mixed", [False, True], ids=["extra only", "with a new class"])
def test_learn_accepts_more_images_of_known_classes(mixed: bool, own_copy: Path, photos: Path, tmp_path: Path) -> None:
    Learner(own_copy).rollback(0)
    folder = mix_folders(tmp_path / "offered", photos / "extra", *([photos / "second"] if mixed else []))
    done = learn(folder, own_copy)
    assert done.exit_code == 0, done.output
    assert "8 more images of kind 1" in done.stdout
    assert ("weights are unchanged" in done.stdout) is not mixed
    assert len(Learner(own_copy).classes) == (6 if mixed else 3)


@pytest.mark.parametrize("mixed", [False, True], ids=["extra only", "with a new class"])
@pytest.mark.parametrize("method", ["finetune", "lwf", "fetril"])
def test_learn_refuses_more_images_of_known_classes_for_methods_without_exemplars(
    method: str, mixed: bool, photos: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model" / "m.upcl"
    made = learn(photos / "first", path, "--method", method, "--epochs", "1")
    assert made.exit_code == 0 and f'it never predicts "{NONE_OF_THESE}"' in made.stdout
    before = path.read_bytes()
    folder = mix_folders(tmp_path / "offered", photos / "extra", *([photos / "second"] if mixed else []))
    done = learn(folder, path)
    assert done.exit_code == 2 and "keeps no exemplars" in done.output
    assert path.read_bytes() == before and len(load(path).state.exemplars) == 0
    assert sorted(each.name for each in path.parent.iterdir()) == [".m.upcl.lock", "m.upcl"]


def test_learn_notes_images_known_under_another_name(own_copy: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "first" / "kind 1", tmp_path / "wrong" / "robin")
    shutil.copytree(photos / "extra" / "kind 1", tmp_path / "wrong" / "robin" / "unseen")
    done = learn(tmp_path / "wrong", own_copy)
    assert done.exit_code == 0, done.output
    assert "note: 20 images of robin left out: known as kind 1" in done.stderr


def test_learn_claims_no_accuracy_for_one_photo_per_class(photos: Path, tmp_path: Path) -> None:
    for name in ("kind 0", "kind 1"):
        (tmp_path / "few" / name).mkdir(parents=True)
        shutil.copy(photos / "first" / name / "0.png", tmp_path / "few" / name)
    path = tmp_path / "m.upcl"
    done = learn(tmp_path / "few", path)
    assert done.exit_code == 0 and "2 classes" in done.output
    assert "Accuracy unknown: holding out an image needs at least two per class." in done.output
    assert "2 classes" in upcl("info", path).output
    predicted = upcl("predict", "--model", path, tmp_path / "few")
    assert predicted.exit_code == 0 and "not calibrated" in predicted.output and "0.0%" not in predicted.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "nccil"), "number of classes in advance"),
        (("--set", "prototypes=simplex"), "number of classes in advance"),
        (("--method", "upc"), "did you mean upcl"),
        (("--method", "mine.py:Mine"), "limited to the methods"),
        (("--set", "taau=1"), "did you mean tau"),
        (("--set", "recipe.lrr=1"), "did you mean lr"),
        (("--memory", "0"), "too small for a single image"),
        (("--backbone", "smal"), "did you mean small"),
        (("--memory", "10B"), "too small for a single image"),
    ],
)
def test_learn_refuses_wrong_options_before_anything_is_written(
    words: tuple[str, ...], message: str, photos: Path, tmp_path: Path
) -> None:
    done = upcl("learn", photos / "first", "--model", tmp_path / "m.upcl", *words)
    assert done.exit_code == 2 and message in done.output
    assert list(tmp_path.iterdir()) == []


def test_learn_can_change_fields_of_the_recipe_but_not_of_the_method(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    made = learn(photos / "first", path, "--method", "cos+fm", "--set", "recipe.lr=1e-9")
    assert made.exit_code == 0, made.output
    spec = load(path).spec
    assert VARIANTS["cos+fm"].options.items() <= spec.options.items()
    first = Learner(path).predictor.method.net.backbone.state_dict()
    fresh = make_method(spec, 3, torch.device("cpu")).net.backbone.state_dict()
    assert all(torch.allclose(first[name], value, atol=1e-6) for name, value in fresh.items() if "weight" in name)
    refused = learn(photos / "second", path, "--set", "margin=none")
    assert refused.exit_code == 2
    assert "margin cannot change after the model was created: stored fixed, requested none" in refused.output
    assert learn(photos / "second", path, "--set", "margin=fixed").exit_code == 0


def test_learn_rejects_too_much_forgetting_and_accepts_it_on_request(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    assert learn(photos / "first", path, "--method", "finetune").exit_code == 0
    before = path.read_bytes()
    refused = learn(photos / "second", path, "--max-forgetting", "5")
    assert refused.exit_code == 2 and "more than --max-forgetting 5: the model is unchanged" in refused.output
    assert path.read_bytes() == before
    accepted = learn(photos / "second", path, "--max-forgetting", "100")
    assert accepted.exit_code == 0 and len(Learner(path).classes) == 6


def test_a_killed_learn_leaves_the_file_and_ends_with_the_same_weights(
    model_file: Path, photos: Path, tmp_path: Path
) -> None:
    unbroken, killed = tmp_path / "unbroken.upcl", tmp_path / "killed.upcl"
    for path in (unbroken, killed):
        shutil.copy(model_file, path)
        Learner(path).rollback(0)
    before = killed.read_bytes()
    words = ["learn", str(photos / "second"), *QUICK_WORDS, "--epochs", "40", "--model"]
    command = [sys.executable, "-m", "upcl", *words, str(killed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events = tmp_path / "killed.upcl.work" / "events.jsonl"
    until = time.monotonic() + 60
    while not (events.is_file() and events.stat().st_size > 300):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert killed.read_bytes() == before
    for path in (killed, unbroken):
        done = upcl(*words, path)
        assert done.exit_code == 0, done.output
    weights = load(killed).state.weights
    assert all(torch.equal(weights[name], value) for name, value in load(unbroken).state.weights.items())
    assert not events.parent.exists()


# predict


@pytest.fixture
def folder(photos: Path, tmp_path: Path) -> Path:
    """20 photos of one class."""
    return Path(shutil.copytree(photos / "first" / "kind 2", tmp_path / "look"))


def test_predict_as_json_lines(model_file: Path, folder: Path) -> None:
    (folder / "broken.jpg").write_text("no image")
    done = upcl("predict", "--model", model_file, folder, "--format", "json")
    assert done.exit_code == 1, "one file could not be read"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    (failed,) = [row for row in rows if "error" in row]
    assert failed["image"].endswith("broken.jpg")
    good = [row for row in rows if "error" not in row]
    assert len(good) == 20
    for row in good:
        values = [guess["confidence"] for guess in row["top"]]
        assert len(values) == 3 and 1 >= values[0] >= values[1] >= values[2] >= 0
        assert row["name"] == (row["top"][0]["name"] if row["known"] else NONE_OF_THESE)


def test_predict_as_csv(model_file: Path, folder: Path) -> None:
    (folder / "broken.jpg").write_text("no image")
    done = upcl("predict", "--model", model_file, folder, "--format", "csv", "--top", "2")
    assert done.exit_code == 1
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 21 and set(rows[0]) >= {"image", "name", "confidence", "known", "names", "confidences", "error"}
    for row in rows:
        if row["error"]:
            assert row["image"].endswith("broken.jpg") and row["name"] == ""
            continue
        names, values = row["names"].split("|"), row["confidences"].split()
        assert len(names) == len(values) == 2
        expected = (names[0], values[0]) if row["known"] == "True" else (NONE_OF_THESE, "")
        assert (row["name"], row["confidence"]) == expected


def test_predict_as_a_table(model_file: Path, folder: Path) -> None:
    (folder / "broken.jpg").write_text("no image")
    done = upcl("predict", "--model", model_file, folder / "0.png", folder / "broken.jpg")
    (expected,) = Learner(model_file).predict(folder / "0.png").tolist()
    (row,) = [line for line in done.stdout.splitlines() if "0.png" in line]
    assert expected in row and "%" in row
    assert "error: " in done.stderr and "broken.jpg" in done.stderr and "held-out images" in done.stderr


def test_predict_from_standard_input(model_file: Path, folder: Path) -> None:
    words = ("predict", "--model", model_file, "-", "--format", "json")
    listed = json.loads(upcl(*words, input=f"{folder / '1.png'}\n").stdout)
    assert listed["image"].endswith("1.png")
    piped = json.loads(upcl(*words, input=(folder / "1.png").read_bytes()).stdout)
    assert piped["image"] == "-" and piped["top"] == listed["top"]


def test_predict_without_a_model_suggests_a_similar_file(model_file: Path, photos: Path) -> None:
    wrong = model_file.with_name("kinds2.upcl")
    done = upcl("predict", "--model", wrong, photos)
    assert done.exit_code == 2 and f"there is no model {wrong}: did you mean {model_file.name}?" in done.output


def test_predict_into_a_closed_pipe_is_silent(model_file: Path, photos: Path) -> None:
    words = [sys.executable, "-m", "upcl", "predict", "--model", str(model_file), str(photos), "--format", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# info, history, rollback, forget


def test_info_and_history_describe_the_file(model_file: Path) -> None:
    described = upcl("info", model_file).stdout
    assert "6 classes, 2 steps" in described and "24 exemplars" in described and "false alarms" in described
    assert "kind 3, kind 4, kind 5" in upcl("history", model_file).stdout


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_files_are_refused_without_a_traceback(kind: str, model_file: Path, tmp_path: Path) -> None:
    done = upcl("info", damage(model_file, tmp_path / "x.upcl", kind))
    assert done.exit_code == 1 and "Traceback" not in done.output and "x.upcl" in done.output


def test_no_command_runs_code_that_a_file_names(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "payload.py").write_text("raise SystemError('it ran')")
    monkeypatch.chdir(tmp_path)
    path = rewrite(model_file, tmp_path / "x.upcl", lambda manifest: manifest["spec"].update(method="payload.py:X"))
    for words in (("info", path), ("predict", "--model", path, "x.png"), ("history", path)):
        done = upcl(*words)
        assert done.exit_code == 1 and "not part of this package" in done.output


def test_rollback_returns_to_a_stored_step(own_copy: Path) -> None:
    done = upcl("rollback", own_copy, "--to", "0")
    assert done.exit_code == 0 and "3 classes" in done.output
    assert Learner(own_copy).classes == ["kind 0", "kind 1", "kind 2"]
    refused = upcl("rollback", own_copy, "--to", "7")
    assert refused.exit_code == 2 and "step 7 is not stored" in refused.output


def test_forget_removes_a_class_and_states_what_remains(own_copy: Path) -> None:
    done = upcl("forget", own_copy, "--class", "kind 1")
    assert done.exit_code == 0 and "weights of the network still reflect its images" in done.output
    assert "kind 1" not in Learner(own_copy).classes
    again = upcl("forget", own_copy, "--class", "kind 1")
    assert again.exit_code == 2 and "did you mean kind" in again.output


# export and serve


@pytest.mark.filterwarnings("error")
def test_export_writes_both_formats_without_warnings(
    model_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = upcl("export", model_file, "--torch", tmp_path / "m.pt2", "--onnx", tmp_path / "m.onnx")
    assert done.exit_code == 0 and done.stderr == ""
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert done.stdout.splitlines() == [f"written to {tmp_path / name}" for name in ("m.onnx", "m.pt2")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.pt2"]


def test_export_never_overwrites_a_model(model_file: Path) -> None:
    before = model_file.read_bytes()
    for words in (("--onnx", model_file), ("--torch", model_file.with_name("other.upcl"))):
        done = upcl("export", model_file, *words)
        assert done.exit_code == 2 and "choose another name" in done.output
    assert model_file.read_bytes() == before
    assert upcl("export", model_file).exit_code == 2


@pytest.mark.filterwarnings("ignore")
def test_serve_makes_up_a_token_for_other_hosts(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr("uvicorn.Server.run", lambda server, **_: served.append(server.config.app))
    done = upcl("serve", model_file, "--host", "0.0.0.0", "--port", "0", "--token", "")
    assert done.exit_code == 0, done.output
    token = done.output.splitlines()[0].rpartition(" ")[2]
    client = TestClient(served[0], base_url="http://127.0.0.1")
    assert client.get("/api/model").status_code == 401
    assert client.get("/api/model", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    local = upcl("serve", model_file, "--port", "0")
    assert "open http://127.0.0.1:" in local.output and "token" not in local.output


def test_serve_on_a_port_in_use_is_an_error(model_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = upcl("serve", model_file, "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 2 and "in use" in done.output and "open http" not in done.output


# corrections


@pytest.fixture
def feature_model(tmp_path: Path) -> Path:
    """A model in closed form, learned from numbered stand-ins for photos."""
    save(grow(None, {"ant": range(6), "bull": range(6), "cat": range(6)}), tmp_path / "m.upcl")
    return tmp_path / "m.upcl"


def test_rename_and_merge(feature_model: Path) -> None:
    renamed = upcl("rename", feature_model, "bull", "cow")
    assert renamed.exit_code == 0 and "'bull' is now 'cow'" in renamed.stdout
    merged = upcl("merge", feature_model, "cow", "cat")
    assert merged.exit_code == 0 and "2 classes" in merged.stdout
    assert Learner(feature_model).classes == ["ant", "cat"]
    unknown = upcl("rename", feature_model, "dog", "fox")
    assert unknown.exit_code == 2 and "unknown class 'dog'" in unknown.stderr


def test_correct_and_forget_a_photo(feature_model: Path, tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"bull 3")  # its SHA-256 is that of the stand-in
    corrected = upcl("correct", feature_model, photo, "--class", "cat")
    assert corrected.exit_code == 0 and "belongs to 'cat' now, no longer to 'bull'" in corrected.stdout
    forgotten = upcl("forget", feature_model, "--photo", photo)
    assert forgotten.exit_code == 0 and "known as 'cat'" in forgotten.stdout
    again = upcl("forget", feature_model, "--photo", photo)
    assert again.exit_code == 2 and "not learned this photo" in again.stderr


def test_forget_a_class_exactly_and_what_it_needs(feature_model: Path) -> None:
    neither = upcl("forget", feature_model)
    assert neither.exit_code == 2 and "--class NAME or --photo FILE" in neither.stderr
    forgotten = upcl("forget", feature_model, "--class", "bull")
    assert forgotten.exit_code == 0 and "computed without this class" in forgotten.stdout


def test_a_trained_model_refuses_to_merge(own_copy: Path) -> None:
    refused = upcl("merge", own_copy, "kind 0", "kind 1")
    assert refused.exit_code == 2 and "closed form" in refused.stderr
