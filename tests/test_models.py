"""Models in one file: learn, grow, name, forget, go back; and files that are not what they say."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from sklearn.datasets import load_sample_images

from upcl import UserError, load_dataset
from upcl.cli import main
from upcl.cli.rendering import model_tables
from upcl.data.io.images import decode_now, fit_square
from upcl.methods.registry import METHODS, VARIANTS
from upcl.model.bundle import KEPT_STATES, Bundle
from upcl.model.calibration import calibrate, confidence, fit_temperature
from upcl.model.export import grey, middle_square, to_torch
from upcl.model.file import ModelFileError, load, save
from upcl.model.intake import image_digest
from upcl.model.learner import Learner
from upcl.model.predictor import NONE_OF_THESE
from upcl.model.spec import LearnOptions, make_method
from upcl.nets import CosineHead

QUICK = LearnOptions(epochs=4, backbone="small", memory="4/class", max_forgetting=None)
WORDS = ("--epochs", "4", "--backbone", "small", "--memory", "4/class", "--most-lost", "100")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `first` and `second` with three classes each, and `unlike` with noise."""
    root = tmp_path_factory.mktemp("photos")
    data = load_dataset("synthetic:classes=6,train=20,test=1,noise=20")
    for image, label in zip(data.train.inputs, data.train.labels.tolist(), strict=True):
        folder = root / ("first" if label < 3 else "second") / f"kind {label}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{len(list(folder.iterdir()))}.png"
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / name)
    return root


@pytest.fixture(scope="module")
def model(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "kinds.upcl"
    Learner(path).learn(photos / "first", QUICK)
    Learner(path).learn(photos / "second", QUICK)
    return path


def upcl(*words: str) -> Any:
    return CliRunner().invoke(main, list(words), env={"COLUMNS": "160"})


def test_a_model_grows_without_the_old_photos(model: Path, photos: Path) -> None:
    learner = Learner(model)
    assert learner.classes == [f"kind {k}" for k in range(6)]
    bundle = learner.require_bundle()
    assert [step.added for step in bundle.history] == [
        ("kind 0", "kind 1", "kind 2"),
        ("kind 3", "kind 4", "kind 5"),
    ]
    assert bundle.state.exemplars.counts(6).tolist() == [4] * 6
    right = [max(v for v in step.accuracy.values() if v is not None) for step in bundle.history]
    assert right[1] >= 60, right
    paths = [p for k in (0, 4) for p in sorted((photos / ("first" if k < 3 else "second") / f"kind {k}").iterdir())]
    names = learner.predict(paths)
    assert np.mean(names == np.repeat(["kind 0", "kind 4"], 20)) > 0.6


def test_held_out_images_are_never_learned_from(model: Path) -> None:
    for state in load(model).states.values():
        kept = {image.numpy().tobytes() for image in state.exemplars.inputs}
        assert not kept & {image.numpy().tobytes() for image in state.held_out.inputs}


def test_the_same_images_again_are_noticed_and_more_of_a_class_are_taken(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    shutil.copy(model, path)
    more = tmp_path / "more" / "kind 1"
    more.mkdir(parents=True)
    data = load_dataset("synthetic:classes=6,train=20,test=9,noise=20")
    for place, image in enumerate(data.test.inputs[data.test.labels == 1]):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(more / f"{place}.png")
    before = load(path).state
    learner = Learner(path).learn(tmp_path / "more", QUICK)
    step = learner.require_bundle().history[-1]
    assert step.extra == {"kind 1": 8} and step.added == ()
    assert "weights stayed" in step.note
    assert all(torch.equal(before.weights[k], v) for k, v in learner.require_bundle().state.weights.items())
    kept = tmp_path / "kept" / "kind 0"
    kept.mkdir(parents=True)
    for place, image in enumerate(before.exemplars.inputs[before.exemplars.labels == 0]):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(kept / f"{place}.png")
    with pytest.raises(UserError, match="every one of these images already"):
        Learner(path).learn(tmp_path / "kept", QUICK)


def test_images_known_under_another_name_are_told(model: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copy(model, tmp_path / "m.upcl")
    shutil.copytree(photos / "first" / "kind 1", tmp_path / "wrong" / "robin")
    with pytest.raises(UserError, match=r"20 images of robin .* knows them as kind 1"):
        Learner(tmp_path / "m.upcl").learn(tmp_path / "wrong", QUICK)
    for place, image in enumerate(load_sample_images().images):
        Image.fromarray(image).save(tmp_path / "wrong" / "robin" / f"own{place}.png")
    done = upcl("learn", str(tmp_path / "wrong"), "--model", str(tmp_path / "m.upcl"), *WORDS)
    assert done.exit_code == 0 and "20 images of robin were left out" in done.output


def test_a_photo_for_each_class_is_learned_and_nothing_is_claimed_of_it(photos: Path, tmp_path: Path) -> None:
    for name in ("kind 0", "kind 1"):
        (tmp_path / "few" / name).mkdir(parents=True)
        shutil.copy(photos / "first" / name / "0.png", tmp_path / "few" / name)
    path = str(tmp_path / "m.upcl")
    done = upcl("learn", str(tmp_path / "few"), "--model", path, *WORDS)
    assert done.exit_code == 0 and "2 classes" in done.output and "is not known" in done.output
    assert "0 classes" not in upcl("info", path).output
    named = upcl("predict", "--model", path, str(tmp_path / "few"))
    assert named.exit_code == 0 and "not calibrated" in named.output and "0.0%" not in named.output


def test_a_model_that_is_not_there_is_named(model: Path, photos: Path) -> None:
    wrong = model.with_name("kinds2.upcl")
    done = upcl("predict", "--model", str(wrong), str(photos))
    assert done.exit_code == 2 and f"there is no model {wrong}: did you mean {model.name}?" in done.output


def test_no_export_overwrites_a_model(model: Path) -> None:
    before = model.read_bytes()
    for words in (("--onnx", str(model)), ("--torch", str(model.with_name("other.upcl")))):
        done = upcl("export", str(model), *words)
        assert done.exit_code == 2 and "choose another name" in done.output
    assert model.read_bytes() == before


def test_a_reader_that_saw_enough_is_no_error(model: Path, photos: Path) -> None:
    words = [sys.executable, "-m", "upcl", "predict", "--model", str(model), str(photos), "--format", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_one_file_may_be_named_alone(model: Path, photos: Path) -> None:
    path = photos / "first" / "kind 0" / "0.png"
    alone = Learner(model).predict(path)
    assert alone.tolist() == Learner(model).predict(str(path)).tolist() == Learner(model).predict([path]).tolist()


def test_files_survive_the_way_to_disk_and_back(model: Path, tmp_path: Path) -> None:
    bundle = load(model)
    save(bundle, tmp_path / "copy.upcl")
    again = load(tmp_path / "copy.upcl")
    assert again.spec == bundle.spec and again.history == bundle.history
    for number, state in bundle.states.items():
        assert torch.equal(again.states[number].exemplars.inputs, state.exemplars.inputs)
        assert all(torch.equal(again.states[number].weights[k], v) for k, v in state.weights.items())


def with_manifest(kind: str, body: bytes) -> bytes:
    manifest = json.loads(body)
    exemplars = manifest["states"]["1"]["exemplars"]
    if kind == "newer":
        manifest["version"] = 99
    elif kind == "labels":
        exemplars["labels"][0] = 77
    elif kind == "other":
        manifest["format"] = "something"
    elif kind == "path":
        exemplars["images"][0] = "../../etc/passwd"
    return json.dumps(manifest).encode()


def large_png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3000, 3000)).save(buffer, "PNG")
    return buffer.getvalue()


def damaged(model: Path, path: Path, kind: str) -> Path:
    content = bytearray(model.read_bytes())
    flipped = content.copy()
    flipped[len(content) // 2] ^= 0xFF
    raw = {"cut": bytes(content[: len(content) // 2]), "flipped": bytes(flipped), "foreign": b"GIF89a" + bytes(100)}
    if kind in raw:
        path.write_bytes(raw[kind])
        return path
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            body, name = old.read(entry), entry.filename
            if name == "manifest.json":
                body = with_manifest(kind, body)
            elif kind == "weights" and name.startswith("weights/1"):
                body = body[:-4] + b"\0\0\0\1"
            elif kind == "bomb" and name.startswith("images/"):
                body = large_png()
            if (kind, name) != ("no manifest", "manifest.json"):
                new.writestr(name, body)
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cut", "damaged"),
        ("flipped", "damaged"),
        ("foreign", "not a model"),
        ("newer", "upgrade upcl"),
        ("other", "another format"),
        ("no manifest", r"no manifest\.json"),
        ("labels", "has no class"),
        ("path", "damaged"),
        ("weights", "do not match their digest"),
        ("bomb", "another shape"),
    ],
)
def test_what_is_no_whole_model_is_refused(model: Path, tmp_path: Path, kind: str, said: str) -> None:
    path = damaged(model, tmp_path / "x.upcl", kind)
    with pytest.raises(ModelFileError, match=said):
        load(path)
    done = upcl("info", str(path))
    assert done.exit_code != 0
    assert "Traceback" not in done.output


STRANGE: tuple[Any, ...] = (None, -1, 10**12, 1e400, "x", "mine.py:Mine", [], {}, [[]], True)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in JSON, lists by their first and last."""
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*place, key))
    elif isinstance(value, list) and value:
        for index in {0, len(value) - 1}:
            yield from leaves(value[index], (*place, index))


def test_no_value_of_the_manifest_breaks_more_than_its_own_file(model: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(model) as old:
        bodies = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(bodies.pop("manifest.json"))
    path, image = tmp_path / "x.upcl", torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    with zipfile.ZipFile(path, "w") as new:
        for name, body in bodies.items():
            new.writestr(name, body)
    stem, refused = path.read_bytes(), 0
    for turn, place in enumerate(leaves(manifest)):
        changed: Any = {"whole": json.loads(json.dumps(manifest))}
        inner, last = changed, "whole"
        for key in place:
            inner, last = inner[last], key
        inner[last] = STRANGE[turn % len(STRANGE)]
        path.write_bytes(stem)
        with zipfile.ZipFile(path, "a") as file:
            file.writestr("manifest.json", json.dumps(changed["whole"]))
        try:
            assert len(Learner(path).answers(image)) == 1
            assert list(model_tables(load(path), path))
        except ModelFileError:
            refused += 1
    assert refused > 50


def test_no_file_names_code_to_run(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "payload.py").write_text("raise SystemError('it ran')")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.upcl"
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            body = old.read(name).replace(b'"method": "upcl"', b'"method": "payload.py:X"')
            new.writestr(name, body)
    for words in (("info", str(path)), ("predict", "--model", str(path), "x.png"), ("history", str(path))):
        done = upcl(*words)
        assert done.exit_code == 1 and "none of this package's" in done.output


def test_hostile_sizes_are_refused_at_once(model: Path, tmp_path: Path) -> None:
    def changed(change: Callable[[Any], None]) -> Path:
        path = tmp_path / "x.upcl"
        with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                body = old.read(name)
                if name == "manifest.json":
                    manifest = json.loads(body)
                    change(manifest)
                    body = json.dumps(manifest).encode()
                new.writestr(name, body)
        return path

    def many_classes(manifest: Any) -> None:
        state = manifest["states"]["1"]
        state["growth"], state["classes"] = [20_000], [str(k) for k in range(20_000)]

    def many_images(manifest: Any) -> None:
        manifest["spec"]["size"] = 1024
        manifest["states"]["1"]["held_out"]["images"] *= 2000

    with pytest.raises(ModelFileError, match="does not fit the network"):
        load(changed(many_classes))
    with pytest.raises(ModelFileError, match="more than"):
        load(changed(many_images))


def test_two_processes_do_not_change_one_file_at_once(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    first = Learner(path).learn(photos / "first", QUICK)
    second = Learner(path)
    with first._changing(), pytest.raises(UserError, match="another process"):
        second.learn(photos / "second", QUICK)
    first.learn(photos / "second", QUICK)
    second.forget("kind 0")  # from the file as it is now
    assert len(load(path).history) == 3 and "kind 5" in Learner(path).classes
    assert not path.with_name("m.upcl.lock").exists()


def test_what_was_learned_from_is_never_held_out(photos: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    shutil.copytree(photos / "first", both)
    learner = Learner(tmp_path / "m.upcl").learn(both, QUICK)
    before = learner.require_bundle().state
    shutil.copytree(photos / "second", both, dirs_exist_ok=True)
    for folder in both.iterdir():
        for extra in sorted(folder.iterdir())[::3]:
            extra.rename(folder / f"a{extra.name}")  # another order, another split
    after = learner.learn(both, dataclasses.replace(QUICK, memory="6/class")).require_bundle()
    assert after.history[-1].extra == {}, "none of these images is new"
    trained = {digest for digests in before.trained.values() for digest in digests}
    assert not trained & {image_digest(image) for image in after.state.held_out.inputs}
    assert set(after.state.trained) == {f"kind {k}" for k in range(6)}
    assert after.spec.memory == "6/class" and after.written_by == {}
    assert set(load(tmp_path / "m.upcl").written_by) == {"upcl", "torch"}


def test_more_images_beside_a_new_class_are_kept_once(photos: Path, tmp_path: Path) -> None:
    some, rest = tmp_path / "some", tmp_path / "rest"
    for folder in (photos / "first").iterdir():
        files = sorted(folder.iterdir())
        for part, chosen in ((some, files[:10]), (rest, files[10:])):
            (part / folder.name).mkdir(parents=True)
            for file in chosen:
                shutil.copy(file, part / folder.name)
    shutil.copytree(photos / "second" / "kind 3", rest / "kind 3")
    one = tmp_path / "one" / "kind 1"
    one.mkdir(parents=True)
    shutil.move(next((rest / "kind 1").iterdir()), one)
    learner = Learner(tmp_path / "m.upcl").learn(some, QUICK).learn(rest, dataclasses.replace(QUICK, memory="20/class"))
    kept = [image_digest(image) for image in learner.require_bundle().state.exemplars.inputs]
    assert len(kept) == len(set(kept)) and learner.require_bundle().history[-1].extra["kind 0"] > 0
    learner.learn(one.parent, QUICK)
    assert learner.require_bundle().history[-1].extra == {"kind 1": 1}, "one photo is taken too"


def test_confidence_leaves_room_for_what_was_not_seen() -> None:
    scores, labels = torch.eye(3).repeat(8, 1), torch.arange(3).repeat(8)
    sure = confidence(scores, fit_temperature(scores, labels)).max(1).values
    assert 0.9 < sure.min() <= sure.max() < 0.99, "all 24 were right, which proves no 100 %"
    gone = torch.cat([scores, torch.full((24, 1), -torch.inf)], 1)
    assert fit_temperature(gone, labels) == pytest.approx(fit_temperature(scores, labels))


def test_going_back_and_only_the_newest_states_are_kept(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    shutil.copy(model, path)
    whole = load(path)
    done = upcl("rollback", str(path), "--to", "0")
    assert done.exit_code == 0, done.output
    assert Learner(path).classes == ["kind 0", "kind 1", "kind 2"]
    assert "not kept" in upcl("rollback", str(path), "--to", "7").output
    long: Bundle = whole
    for _ in range(KEPT_STATES + 3):
        long = long.grown(whole.history[0], whole.state)
    assert len(long.states) == KEPT_STATES and max(long.states) == len(long.history) - 1


def test_forgetting_removes_the_class_from_the_file(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    shutil.copy(model, path)
    images = [i.numpy().tobytes() for i in load(path).state.exemplars.inputs[load(path).state.exemplars.labels == 1]]
    done = upcl("forget", str(path), "--class", "kind 1")
    assert done.exit_code == 0
    assert "cannot be taken out" in done.output
    with zipfile.ZipFile(path) as file:
        assert b"kind 1" not in file.read("manifest.json")
    bundle = load(path)
    assert all(i.numpy().tobytes() not in images for i in bundle.state.exemplars.inputs)
    assert list(bundle.states) == [2], "earlier states would still have it"
    learner = Learner(path)
    assert "kind 1" not in learner.classes and len(learner.classes) == 5
    answers = learner.answers(torch.randint(0, 256, (8, 3, 8, 8), dtype=torch.uint8), top=6)
    assert all("kind 1" not in answer.names and len(answer.names) == 5 for answer in answers)
    assert "did you mean kind" in upcl("forget", str(path), "--class", "kind 1").output


def test_a_model_that_forgot_goes_on_learning(model: Path, photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    shutil.copy(model, path)
    Learner(path).rollback(0).forget("kind 1").learn(photos / "second", QUICK)
    assert Learner(path).classes == ["kind 0", "kind 2", "kind 3", "kind 4", "kind 5"]


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name]().needs_num_classes])
def test_every_method_grows_goes_on_and_forgets(method: str, photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    asked = dataclasses.replace(QUICK, method=method, epochs=1)
    Learner(path).learn(photos / "first", asked).learn(photos / "second", asked)
    learner = Learner(path)
    assert len(learner.classes) == 6 and len(learner.require_bundle().state.classes) == 6
    learner.forget("kind 1").forget("kind 4")
    head = learner.reader.method.net.head
    rows = {name: value for name, value in head.state_dict().items() if value.shape[:1] == (6,) and name != "frame"}
    if isinstance(head, CosineHead):
        rows = {"vectors": head.vectors}
    learned = [value for name, value in rows.items() if value.is_floating_point()]
    assert learned and all(len(value[label].unique()) == 1 for value in learned for label in (1, 4)), (
        "they tell nothing"
    )
    learner.learn(photos / "second", asked)
    assert len(learner.classes) == 5
    assert all(
        value.isfinite().all() and value.float().abs().max() < 1e4
        for value in learner.require_bundle().state.weights.values()
    )
    path = tmp_path / "m.upcl"
    learner.forget("kind 4")
    answers = Learner(path).answers(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), top=6)
    assert all(sorted(answer.names) == ["kind 0", "kind 2", "kind 3", "kind 5"] for answer in answers)


def test_fields_of_the_recipe_can_change_and_those_of_the_method_cannot(photos: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "m.upcl")
    made = upcl(
        "learn", str(photos / "first"), "--model", path, *WORDS, "--method", "cos+fm", "--set", "recipe.lr=1e-9"
    )
    assert made.exit_code == 0, made.output
    spec = load(Path(path)).spec
    assert VARIANTS["cos+fm"].options.items() <= spec.options.items()
    first = Learner(path).reader.method.net.backbone.state_dict()
    fresh = make_method(spec, 3, torch.device("cpu")).net.backbone.state_dict()
    assert all(torch.allclose(first[name], value, atol=1e-6) for name, value in fresh.items() if "weight" in name)
    refused = upcl("learn", str(photos / "second"), "--model", path, *WORDS, "--set", "margin=none")
    assert refused.exit_code == 2 and "was made with margin fixed: that cannot change" in refused.output
    assert upcl("learn", str(photos / "second"), "--model", path, *WORDS, "--set", "margin=fixed").exit_code == 0


def test_the_guard_refuses_and_leaves_the_file_alone(model: Path, photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    shutil.copy(model, path)
    Learner(path).rollback(0)
    before = path.read_bytes()
    strict = dataclasses.replace(QUICK, max_forgetting=-1000.0)
    with pytest.raises(UserError, match=r"old classes would lose .* points on average \(most: kind"):
        Learner(path).learn(photos / "second", strict)
    assert path.read_bytes() == before
    epochs: list[int] = []
    Learner(path).learn(photos / "second", QUICK, lambda end: epochs.append(end.epoch))
    assert len(Learner(path).classes) == 6 and epochs == [], "what was learned is taken, not learned again"


def test_killed_learning_leaves_the_old_file_and_goes_on(model: Path, photos: Path, tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.upcl", tmp_path / "killed.upcl"
    for each in (whole, path):
        shutil.copy(model, each)
        Learner(each).rollback(0)
    before = path.read_bytes()
    words = ["learn", str(photos / "second"), *WORDS, "--epochs", "40"]
    command = [sys.executable, "-m", "upcl", *words, "--model", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    events = path.with_name("killed.upcl.work") / "events.jsonl"
    until = time.monotonic() + 60
    while not (events.is_file() and events.stat().st_size > 300):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert path.read_bytes() == before
    for each in (path, whole):
        done = subprocess.run([*command[:-1], str(each)], capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
    killed, unbroken = load(path).state, load(whole).state
    assert all(torch.equal(killed.weights[name], value) for name, value in unbroken.weights.items())
    assert not events.parent.exists()


def test_predict_in_every_format(model: Path, photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "look"
    shutil.copytree(photos / "first" / "kind 2", folder)
    (folder / "broken.jpg").write_text("no image")
    done = upcl("predict", "--model", str(model), str(folder), "--format", "json")
    assert done.exit_code == 1, "one file could not be read"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 21
    assert next(row for row in rows if "error" in row)["image"].endswith("broken.jpg")
    good = [row for row in rows if "error" not in row]
    assert all(0 <= row["top"][0]["confidence"] <= 1 and len(row["top"]) == 3 for row in good)
    (folder / "broken.jpg").unlink()
    assert upcl("predict", "--model", str(model), str(folder), "--format", "csv").stdout.count("\n") == 21
    table = upcl("predict", "--model", str(model), str(folder / "0.png")).stdout
    assert "0.png" in table and ("kind" in table or NONE_OF_THESE in table)
    piped = CliRunner().invoke(
        main, ["predict", "--model", str(model), "-", "--format", "json"], input=f"{folder / '1.png'}\n"
    )
    assert json.loads(piped.stdout)["image"].endswith("1.png")
    words = ["predict", "--model", str(model), "-", "--format", "json"]
    row = json.loads(CliRunner().invoke(main, words, input=(folder / "1.png").read_bytes()).stdout)
    assert row["image"] == "-" and row["top"] == json.loads(piped.stdout)["top"]


def test_noise_is_none_of_these(model: Path) -> None:
    noise = torch.randint(0, 256, (64, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    known = sum(answer.known for answer in Learner(model).answers(noise))
    assert known < 60, "most noise is further from the classes than the classes' own images"


def test_info_and_history_tell_what_is_in_the_file(model: Path) -> None:
    told = upcl("info", str(model)).stdout
    assert "6 classes, 2 steps" in told and "24 exemplars" in told and "false alarms" in told
    listed = upcl("history", str(model)).stdout
    assert "kind 3, kind 4, kind 5" in listed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "nccil"), "number of classes in advance"),
        (("--set", "prototypes=simplex"), "number of classes in advance"),
        (("--method", "upc"), "did you mean upcl"),
        (("--method", "mine.py:Mine"), "keep to the methods"),
        (("--set", "taau=1"), "did you mean tau"),
        (("--set", "recipe.lrr=1"), "did you mean lr"),
        (("--memory", "0"), "keeps no image"),
        (("--backbone", "smal"), "did you mean small"),
        (("--memory", "10B"), "keeps no image"),
    ],
)
def test_wrong_wishes_are_told_before_anything_is_written(
    words: tuple[str, ...], said: str, photos: Path, tmp_path: Path
) -> None:
    done = upcl("learn", str(photos / "first"), "--model", str(tmp_path / "m.upcl"), *words)
    assert done.exit_code == 2 and said in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")
def test_exports_answer_as_the_model_does(model: Path, photos: Path, tmp_path: Path) -> None:
    import onnx
    import onnxruntime

    done = upcl("export", str(model), "--onnx", str(tmp_path / "m.onnx"), "--torch", str(tmp_path / "m.pt2"))
    assert done.exit_code == 0, done.output
    learner = Learner(model)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    program = torch.export.load(str(tmp_path / "m.pt2")).module()
    learned = [np.asarray(Image.open(path)) for path in sorted((photos / "first" / "kind 0").iterdir())[:7]]
    photo = load_sample_images().images[0]  # 427 x 640
    for images in (learned, learned[:1], [photo, photo[::-1]], [photo[:, :300]], [photo[50:53, 90:94]]):
        answers = learner.answers(squares_of(images, tmp_path), top=6)
        sure, familiar = session.run(None, {"images": np.stack(images)})
        same, _ = program(torch.from_numpy(np.stack(images)))
        for answer, row, other, near in zip(answers, sure, same.tolist(), familiar, strict=True):
            ours = dict(zip(answer.names, answer.confidence, strict=True))
            assert learner.classes[int(row.argmax())] == answer.names[0]
            assert [ours[name] for name in learner.classes] == pytest.approx(row.tolist(), abs=1e-4)
            assert other == pytest.approx(row.tolist(), abs=1e-4)
            assert near == pytest.approx(answer.familiarity, abs=1e-4)
    props = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(props["classes"]) == learner.classes and "any height and width" in props["input"]
    extra = {"upcl.json": ""}
    torch.export.load(str(tmp_path / "m.pt2"), extra_files=extra)
    assert json.loads(json.loads(extra["upcl.json"])["classes"]) == learner.classes


@pytest.mark.filterwarnings("ignore")
def test_exports_read_the_head_as_the_method_does(photos: Path, tmp_path: Path) -> None:
    asked = dataclasses.replace(QUICK, method="fetril", options={"classifier": "svm"})  # looks at unit features
    learner = Learner(tmp_path / "m.upcl").learn(photos / "first", asked)
    to_torch(learner, tmp_path / "m.pt2")
    photo = load_sample_images().images[0]
    found, _ = torch.export.load(str(tmp_path / "m.pt2")).module()(torch.from_numpy(photo[None]))
    wanted = learner.reader.confidence(learner.reader.look(squares_of([photo], tmp_path)))
    assert learner.require_bundle().state.reading == "head" and torch.allclose(found.double(), wanted, atol=1e-4)


def squares_of(images: list[np.ndarray], folder: Path) -> torch.Tensor:
    """What the models get of these images when they are files."""
    paths = [folder / f"{place}.png" for place in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    return decode_now(paths, 8, 3, "images")


@pytest.mark.parametrize("size", [8, 64, 224])
@pytest.mark.parametrize(
    "shape", [(427, 640), (427, 301), (426, 640), (224, 224), (64, 48), (20, 31), (2, 3), (1, 1), (7, 640), (427, 99)]
)
def test_scaling_in_the_graph_is_pillows(shape: tuple[int, int], size: int) -> None:
    photo = load_sample_images().images[1][: shape[0], : shape[1]]
    wanted = torch.from_numpy(np.array(fit_square(Image.fromarray(photo), size))).permute(2, 0, 1)[None]
    found = middle_square(torch.from_numpy(photo.copy()).permute(2, 0, 1)[None], size)
    assert torch.equal(found, wanted.float())
    in_grey = np.array(Image.fromarray(wanted[0].permute(1, 2, 0).numpy()).convert("L"))
    assert torch.equal(grey(found)[0, 0], torch.from_numpy(in_grey).float())


def test_temperature_makes_confidence_as_large_as_it_is_right() -> None:
    draw = torch.Generator().manual_seed(0)
    true = torch.randn(4000, 5, generator=draw)
    labels = true.softmax(1).multinomial(1, generator=draw)[:, 0]
    found = fit_temperature(10 * true, labels)
    assert found == pytest.approx(10, rel=0.1)
    sure = confidence(10 * true, found).max(1)
    assert float(sure.values.mean()) == pytest.approx(float((sure.indices == labels).double().mean()), abs=0.02)


def test_false_alarms_are_measured_on_other_images() -> None:
    familiar = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    found = calibrate(torch.zeros(1000, 2), torch.zeros(1000, dtype=torch.int64), familiar)
    assert found.threshold == pytest.approx(0.05, abs=0.02)
    assert 0.02 < found.false_alarm_rate < 0.09


def test_the_example_grows_a_model(tmp_path: Path) -> None:
    import onnxruntime

    path = Path(__file__).parents[1] / "examples" / "growing_model.py"
    spec = importlib.util.spec_from_file_location("growing_model", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(tmp_path) >= 0.6
    first, forgot = (
        Learner(tmp_path / name).require_bundle().history[-1].right_on("0123") or 0.0
        for name in ("digits.upcl", "finetune.upcl")
    )
    assert first > forgot + 30
    session = onnxruntime.InferenceSession(str(tmp_path / "digits.onnx"))
    look = sorted((tmp_path / "look").iterdir())
    sure, _ = session.run(None, {"images": np.stack([np.asarray(Image.open(path).convert("RGB")) for path in look])})
    learner = Learner(tmp_path / "digits.upcl")
    ours = learner.reader.confidence(learner.reader.look(decode_now(look, 8, 1, "digits"))).numpy()
    assert (sure.argmax(1) == ours.argmax(1)).all() and np.abs(sure - ours).max() < 1e-4, "on real images"
