from __future__ import annotations

import json
import math
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.model.model_files import DAMAGES, damage, rewrite, rewrite_weights
from tests.model.photos import noise
from upcl.cli.model import model_tables
from upcl.core.errors import TrainingError
from upcl.model.bundle import Bundle
from upcl.model.file import ModelFileError, load, save
from upcl.model.learner import Learner
from upcl.model.manifest import VERSION


def same_bundles(one: Bundle, other: Bundle) -> bool:
    """Whether two models are equal in everything, tensors included."""
    assert one.spec == other.spec and one.history == other.history and one.states.keys() == other.states.keys()
    for number, state in one.states.items():
        twin = other.states[number]
        assert (state.growth, state.classes, state.reading) == (twin.growth, twin.classes, twin.reading)
        assert state.calibration == twin.calibration and state.trained == twin.trained
        assert all(torch.equal(twin.weights[name], value) for name, value in state.weights.items())
        for part, copy in ((state.exemplars, twin.exemplars), (state.held_out, twin.held_out)):
            assert torch.equal(part.inputs, copy.inputs) and torch.equal(part.labels, copy.labels)
    return True


def test_a_saved_model_loads_unchanged(bundle: Bundle, tmp_path: Path) -> None:
    save(bundle, tmp_path / "new folder" / "copy.upcl")
    again = load(tmp_path / "new folder" / "copy.upcl")
    assert same_bundles(bundle, again)
    assert set(again.written_by) == {"upcl", "torch"}


def test_each_image_is_stored_once(model_file: Path, bundle: Bundle) -> None:
    stored = sum(len(state.exemplars) + len(state.held_out) for state in bundle.states.values())
    with zipfile.ZipFile(model_file) as archive:
        images = [name for name in archive.namelist() if name.startswith("images/")]
    assert len(images) == len(set(images)) < stored


def test_version_1_is_upgraded_on_reading(model_file: Path, bundle: Bundle, tmp_path: Path) -> None:
    def downgrade(manifest: Any) -> None:
        manifest["version"], manifest["making"] = 1, manifest.pop("spec")
        for entry in manifest["history"]:
            entry["more"] = entry.pop("extra")
        for state in manifest["states"].values():
            calibration = state["calibration"]
            calibration["false_alarms"] = calibration.pop("false_alarm_rate")
            calibration["images"] = calibration.pop("num_images")

    upgraded = load(rewrite(model_file, tmp_path / "old.upcl", downgrade))
    assert same_bundles(bundle, upgraded)
    save(upgraded, tmp_path / "new.upcl")
    with zipfile.ZipFile(tmp_path / "new.upcl") as archive:
        assert json.loads(archive.read("manifest.json"))["version"] == VERSION == 4


def test_histories_of_version_1_without_extra_images_are_upgraded(model_file: Path, tmp_path: Path) -> None:
    def downgrade(manifest: Any) -> None:
        manifest["version"], manifest["making"] = 1, manifest.pop("spec")
        for entry in manifest["history"]:
            del entry["extra"]
        for state in manifest["states"].values():
            state["calibration"] = {"temperature": 1.0, "threshold": 0.5, "false_alarms": 0.25, "images": 12}

    upgraded = load(rewrite(model_file, tmp_path / "old.upcl", downgrade))
    assert [entry.extra for entry in upgraded.history] == [{}, {}]
    assert upgraded.state.calibration.false_alarm_rate == 0.25 and upgraded.state.calibration.num_images == 12


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_and_foreign_files_are_refused_with_the_reason(kind: str, model_file: Path, tmp_path: Path) -> None:
    path = damage(model_file, tmp_path / "x.upcl", kind)
    with pytest.raises(ModelFileError, match=DAMAGES[kind]) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_folders_and_missing_files_are_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"is a folder: name a file, such as .*model\.upcl"):
        load(tmp_path)
    with pytest.raises(ModelFileError, match=r"there is no model .*: create it with `upcl learn FOLDER"):
        load(tmp_path / "missing.upcl")


@pytest.mark.parametrize("method", ["payload.py:X", "/tmp/x.py:X", "upcl; rm", ""])
def test_a_file_cannot_name_code_to_run(method: str, model_file: Path, tmp_path: Path) -> None:
    path = rewrite(model_file, tmp_path / "x.upcl", lambda manifest: manifest["spec"].update(method=method))
    with pytest.raises(ModelFileError, match="not part of this package"):
        load(path)


def test_hostile_sizes_are_refused_before_memory_is_allocated(model_file: Path, tmp_path: Path) -> None:
    def many_images(manifest: Any) -> None:
        manifest["spec"]["size"] = 1024
        manifest["states"]["1"]["held_out"]["images"] *= 2000

    def many_states(manifest: Any) -> None:
        manifest["states"] |= {str(number): manifest["states"]["1"] for number in range(2, 20)}

    for change, message in (
        (_with_many_classes, "number of classes does not match the network"),
        (many_images, r"its images would take [\d,]+ bytes, more than"),
        (many_states, "at most 10 items"),
        (lambda manifest: manifest["spec"]["options"].update(projector=10**12), "do not fit its network: head.frame"),
    ):
        with pytest.raises(ModelFileError, match=message):
            load(rewrite(model_file, tmp_path / "x.upcl", change))


def _with_many_classes(manifest: Any) -> None:
    for state in manifest["states"].values():
        state["classes"] += [str(k) for k in range(20_000)]
        state["growth"].append(20_000)


def test_a_manifest_that_is_much_larger_than_the_file_is_not_read(model_file: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(model_file, tmp_path / "x.upcl"))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("manifest.json", '{"format": "upcl-model", "x": [' + "[]," * 20_000_000 + "[]]}")
    with pytest.raises(ModelFileError, match=r"damaged: it unpacks to [\d,]+ bytes, more than a file of"):
        load(path)


def test_a_thousand_errors_make_one_short_message(model_file: Path, tmp_path: Path) -> None:
    def many_errors(manifest: Any) -> None:
        manifest["states"]["1"]["exemplars"]["labels"] = [[]] * 1000

    def many_keys(manifest: Any) -> None:
        manifest["states"]["1"]["trained"] = {str(k): 0 for k in range(1000)}

    with pytest.raises(ModelFileError, match=r"should be a valid integer \(1\.exemplars\.labels\.0\)") as caught:
        load(rewrite(model_file, tmp_path / "x.upcl", many_errors))
    assert len(str(caught.value)) < 500
    with pytest.raises(ModelFileError, match="it has 1,000 errors"):
        load(rewrite(model_file, tmp_path / "x.upcl", many_keys))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_refused(value: float, model_file: Path, tmp_path: Path) -> None:
    def spoiled(name: str, tensor: Tensor) -> Tensor:
        return torch.full_like(tensor, value) if name == "head.centroids" else tensor

    with pytest.raises(ModelFileError, match=r"damaged: head\.centroids has values that are not finite"):
        load(rewrite_weights(model_file, tmp_path / "x.upcl", spoiled))


def test_weights_out_of_range_are_refused(model_file: Path, tmp_path: Path) -> None:
    for name, value, message in (
        ("head.assignment", 6, "a prototype that does not exist"),
        ("head.assignment", -1, "a prototype that does not exist"),
        ("backbone.stem.0.1.running_var", -1, "has negative values"),
    ):

        def spoiled(key: str, tensor: Tensor, name: str = name, value: int = value) -> Tensor:
            return torch.full_like(tensor, value) if key == name else tensor

        with pytest.raises(ModelFileError, match=message):
            load(rewrite_weights(model_file, tmp_path / "x.upcl", spoiled))


def test_rows_without_bytes_are_no_classes(model_file: Path, tmp_path: Path) -> None:
    def emptied(name: str, tensor: Tensor) -> Tensor:
        return tensor.new_empty(20_003 if tensor.ndim == 1 else (20_003, 0)) if name.startswith("head.") else tensor

    path = rewrite_weights(model_file, tmp_path / "y.upcl", emptied)
    with pytest.raises(ModelFileError, match=r"do not fit its network: head\.frame has the shape \(20003, 0\)"):
        load(rewrite(path, tmp_path / "x.upcl", _with_many_classes))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("spec", {"mean": [math.nan] * 3}),
        ("spec", {"mean": [1e30] * 3}),
        ("calibration", {"temperature": 1e-300}),
        ("calibration", {"temperature": 1e300}),
        ("calibration", {"threshold": -math.inf}),
        ("history", {"by_class": {"kind 0": math.nan}}),
        ("state", {"trained": {"nobody": ["0" * 16]}}),
        ("state", {"classes": ["kind 0"] * 6}),
    ],
)
def test_numbers_and_names_out_of_range_are_refused(
    part: str, change: dict[str, Any], model_file: Path, tmp_path: Path
) -> None:
    def spoiled(manifest: Any) -> None:
        state = manifest["states"]["1"]
        parts = {"spec": manifest["spec"], "calibration": state["calibration"], "history": manifest["history"][0]}
        parts.get(part, state).update(change)

    with pytest.raises(ModelFileError, match="is damaged: "):
        load(rewrite(model_file, tmp_path / "x.upcl", spoiled))


def test_a_model_that_could_not_be_read_again_is_not_written(bundle: Bundle, own_copy: Path) -> None:
    before = own_copy.read_bytes()
    bundle.state.weights["head.centroids"][0] = math.nan
    with pytest.raises(TrainingError, match=r"copy\.upcl was not changed, .* values that are not finite"):
        save(bundle, own_copy)
    assert own_copy.read_bytes() == before and list(own_copy.parent.iterdir()) == [own_copy]


STRANGE: tuple[Any, ...] = (None, -1, 10**12, 1e400, "x", "mine.py:Mine", [], {}, [[]], True)


def positions(value: Any, position: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The positions of all values in JSON; of a list, its first and last."""
    yield position
    if isinstance(value, dict):
        for key in value:
            yield from positions(value[key], (*position, key))
    elif isinstance(value, list) and value:
        for index in {0, len(value) - 1}:
            yield from positions(value[index], (*position, index))


def test_a_strange_value_anywhere_in_the_manifest_is_refused_or_harmless(model_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(model_file) as old:
        bodies = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(bodies.pop("manifest.json"))
    path = tmp_path / "x.upcl"
    with zipfile.ZipFile(path, "w") as new:
        for name, body in bodies.items():
            new.writestr(name, body)
    without_manifest, refused = path.read_bytes(), 0
    for turn, position in enumerate(positions(manifest)):
        changed: Any = {"root": json.loads(json.dumps(manifest))}
        inner, last = changed, "root"
        for key in position:
            inner, last = inner[last], key
        inner[last] = STRANGE[turn % len(STRANGE)]
        path.write_bytes(without_manifest)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("manifest.json", json.dumps(changed["root"]))
        try:
            assert len(Learner(path).predictor.predict(noise(1)).top(3)) == 1
            assert list(model_tables(load(path), path))
        except ModelFileError:
            refused += 1
    assert refused > 50
