"""Shows that a refactoring changes no weight: short runs at another commit and here, compared bit for bit.

python benchmarks/same_weights.py BASE     # every method: two tasks of digits; some also as growing models
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[1]
METHODS = "joint finetune focal ldam la lwf fetril icarl lucir coil bic wa cwd nccil scrollnet upcl cos cos+dm up+fm"
MODELS = "upcl icarl bic fetril"
RUN = "--data digits:train=30,test=10 --tasks 2 --memory 20 --epochs 2 --device cpu"


def upcl(source: Path, *words: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run([sys.executable, "-m", "upcl", *words], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"upcl {' '.join(words)}:\n{done.stderr}")


def write_photos(folder: Path) -> list[Path]:
    """Digits 0 to 2, and then 3 and 4, as folders of images."""
    source = load_digits()
    lots = [folder / "first", folder / "second"]
    for number, (image, label) in enumerate(zip(source.images[:200], source.target[:200], strict=True)):
        if label < 5:
            place = lots[label > 2] / str(label)
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 15).astype(np.uint8)).save(place / f"{number}.png")
    return lots


def weights(source: Path, name: str, folder: Path) -> str:
    """The digest of all weights after a run of a method, or of a model (`model upcl`) after two lots of photos."""
    kind, _, method = name.rpartition(" ")
    if not kind:
        upcl(source, "train", method, *RUN.split(), "--out", str(folder))
        digest: str = json.loads((folder / "record.json").read_text())["weights_sha256"]
        return digest
    folder.mkdir(parents=True)
    for lot in write_photos(folder):
        words = ("--model", str(folder / "m.upcl"), "--method", method, "--epochs", "2", "--device", "cpu")
        upcl(source, "learn", str(lot), *words, "--set", "recipe.lr=0.02")
    with zipfile.ZipFile(folder / "m.upcl") as file:
        states = json.loads(file.read("manifest.json"))["states"]
    return " ".join(state["weights_sha256"] for state in states.values())


def compare(base: str) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        there = Path(temporary) / "base"
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--detach", str(there), base], check=True)
        try:
            names = [*METHODS.split(), *(f"model {method}" for method in MODELS.split())]
            sides = {"base": there / "src", "here": ROOT / "src"}
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = {
                    side: pool.map(
                        lambda name, s=side, p=source: weights(p, name, Path(temporary) / s / name.replace(" ", "-")),
                        names,
                    )
                    for side, source in sides.items()
                }
                rows = list(zip(names, found["base"], found["here"], strict=True))
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(there)], check=True)
    for name, before, now in rows:
        print(f"{name:16} {before[:16]} {now[:16]} {'same' if before == now else 'DIFFERENT'}")
    return all(before == now for _, before, now in rows)


if __name__ == "__main__":
    sys.exit(not compare(sys.argv[1]))
