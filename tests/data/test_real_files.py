"""The loaders on real files, where they are available."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from upcl.cli import main
from upcl.data import load_dataset

ROOT = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="the real data is not next to this checkout")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Thousands of images are decoded once for all tests."""
    monkeypatch.setenv("UPCL_CACHE", str(shared_cache))
    return shared_cache / "decoded"


def test_cifar100() -> None:
    dataset = load_dataset("cifar100/T10", ROOT)
    assert dataset.train.counts(100).tolist() == [500] * 100
    assert dataset.test.counts(100).tolist() == [100] * 100
    assert (dataset.classes[0], dataset.classes[99]) == ("apple", "worm")
    pixels = dataset.train.inputs[::10].float() / 255
    assert pixels.mean((0, 2, 3)).tolist() == pytest.approx(dataset.transform.mean, abs=5e-3)
    assert pixels.transpose(0, 1).flatten(1).std(1).tolist() == pytest.approx(dataset.transform.std, abs=5e-3)


def test_tiny_imagenet() -> None:
    dataset = load_dataset("tinyimagenet/T40", ROOT)
    assert dataset.train.counts(200).tolist() == [50] * 200
    assert dataset.test.counts(200).tolist() == [10] * 200
    assert dataset.classes[:2] == ("goldfish", "European fire salamander")
    pixels = dataset.train.inputs[::7].float() / 255
    assert pixels.mean((0, 2, 3)).tolist() == pytest.approx((0.480, 0.448, 0.398), abs=0.01)


def test_omniglot() -> None:
    dataset = load_dataset(f"npz:{next((ROOT / 'omniglot-small').glob('*.npz'))}")
    assert (len(dataset.classes), dataset.channels) == (242, 1)
    assert len(dataset.train) == 242 * 15


def train(out: Path, data: str, method: str = "upcl") -> dict[str, Any]:
    """Train for one epoch through the command line."""
    options = ["--backbone", "small", "--recipe", "quick", "--memory", "100", "--epochs", "1"]
    result = CliRunner().invoke(
        main, ["train", method, "--data", data, "--data-root", str(ROOT), "--out", str(out), *options]
    )
    assert result.exit_code == 0, result.output
    record: dict[str, Any] = json.loads((out / "record.json").read_text())
    return record


def test_cifar100_is_learned_in_the_usual_class_order(tmp_path: Path) -> None:
    record = train(tmp_path / "run", "cifar100/T2:train=1,test=1")
    assert record["task_sizes"] == [50, 50] and record["class_order"][:3] == [68, 56, 78]


def test_tiny_imagenet_is_learned_in_the_usual_class_order(tmp_path: Path) -> None:
    record = train(tmp_path / "run", "tinyimagenet/T2:train=1,test=1", "finetune")
    assert record["task_sizes"] == [100, 100] and record["class_order"][:3] == [168, 136, 51]


def test_folder_of_jpeg_files_is_learned(tmp_path: Path) -> None:
    wnids = ["n01443537", "n01629819", "n01641577"]
    for wnid in wnids:
        (tmp_path / "photos" / wnid).mkdir(parents=True)
        for path in sorted((ROOT / "tiny-imagenet-200" / "train" / wnid / "images").iterdir())[:8]:
            (tmp_path / "photos" / wnid / path.name).write_bytes(path.read_bytes())
    record = train(tmp_path / "run", f"folder/T3:{tmp_path / 'photos'}")
    assert record["finished"] and sorted(record["classes"]) == wnids
    assert [sum(row) for row in record["confusion"]["head"]] == [1, 1, 1], "a fifth of each class is held out"
