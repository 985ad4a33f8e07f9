"""Shows that a refactoring changes no weight: short runs at another commit and here, compared bit for bit.

python benchmarks/same_weights.py BASE     # every method on two tasks of digits; some also as growing models
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


def upcl(source: Path, *arguments: str) -> None:
    """Run the command line of the package in `source`."""
    env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run([sys.executable, "-m", "upcl", *arguments], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"upcl {' '.join(arguments)}:\n{done.stderr}")


def write_photos(folder: Path) -> list[Path]:
    """Two folders of images: the digits 0 to 2, and the digits 3 and 4."""
    source = load_digits()
    folders = [folder / "first", folder / "second"]
    for number, (image, label) in enumerate(zip(source.images[:200], source.target[:200].tolist(), strict=True)):
        if label < 5:
            target = folders[label // 3] / str(label)
            target.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 15).astype(np.uint8)).save(target / f"{number}.png")
    return folders


def train(source: Path, method: str, folder: Path) -> str:
    """The digest of all weights after two tasks."""
    upcl(source, "train", method, *RUN.split(), "--out", str(folder))
    digest: str = json.loads((folder / "record.json").read_text())["weights_sha256"]
    return digest


def grow(source: Path, method: str, folder: Path) -> str:
    """The digests of all weights after each of two updates of a model."""
    model = folder / "model.upcl"
    folder.mkdir(parents=True)
    for photos in write_photos(folder):
        options = ("--model", str(model), "--method", method, "--epochs", "2", "--device", "cpu")
        upcl(source, "learn", str(photos), *options, "--set", "recipe.lr=0.02")
    with zipfile.ZipFile(model) as file:
        states = json.loads(file.read("manifest.json"))["states"]
    return " ".join(state["weights_sha256"] for state in states.values())


def compare(base: str) -> bool:
    """Print a line per run; whether all weights are equal."""
    jobs = [(train, method) for method in METHODS.split()] + [(grow, method) for method in MODELS.split()]
    with tempfile.TemporaryDirectory() as temporary:
        checkout = Path(temporary) / "base"
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--detach", str(checkout), base], check=True)
        try:
            sources = {"before": checkout / "src", "now": ROOT / "src"}
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                digests = {
                    side: [
                        pool.submit(job, source, method, Path(temporary) / side / f"{job.__name__}-{method}")
                        for job, method in jobs
                    ]
                    for side, source in sources.items()
                }
                found = {side: [future.result() for future in futures] for side, futures in digests.items()}
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(checkout)], check=True)
    for (job, method), before, now in zip(jobs, found["before"], found["now"], strict=True):
        print(f"{job.__name__:6} {method:10} {before[:16]} {now[:16]} {'same' if before == now else 'DIFFERENT'}")
    return found["before"] == found["now"]


if __name__ == "__main__":
    sys.exit(not compare(sys.argv[1]))
