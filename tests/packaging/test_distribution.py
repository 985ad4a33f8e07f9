"""The sdist and the wheel: complete, and usable without the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import upcl
from upcl.methods import METHODS

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@dataclass(frozen=True)
class Distribution:
    """What `python -m build` wrote, and a folder with the wheel installed in it."""

    sdist: Path
    wheel: Path
    installed: Path

    def run(self, *words: str, cwd: Path) -> str:
        """The output of an installed command, far from the repository."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
        env |= {"PYTHONPATH": str(self.installed), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        done = subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """Build the wheel from the sdist, as an index would get both, and install it without its dependencies."""
    source = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    python("-m", "build", "--no-isolation", "--outdir", "dist", cwd=source)
    (sdist,), (wheel,) = (source / "dist").glob("*.tar.gz"), (source / "dist").glob("*.whl")
    installed = tmp_path_factory.mktemp("installed")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
    python(
        "-m", "pip", "install", *quiet, "--no-index", "--no-deps", "--target", str(installed), str(wheel), cwd=source
    )
    return Distribution(sdist, wheel, installed)


def python(*words: str, cwd: Path) -> None:
    done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def package_files() -> set[str]:
    """Every file of the package, relative to `src`: modules, type marker, YAML, CSV, HTML, JavaScript, style sheets."""
    found = (path for path in (ROOT / "src" / "upcl").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in found}


def test_wheel_and_sdist_hold_every_file_of_the_package(distribution: Distribution) -> None:
    files = package_files()
    assert {".yaml", ".csv", ".html", ".js", ".css"} <= {Path(name).suffix for name in files}
    assert "upcl/py.typed" in files
    with zipfile.ZipFile(distribution.wheel) as wheel:
        inside = {name for name in wheel.namelist() if name.startswith("upcl/")}
    assert inside == files
    with tarfile.open(distribution.sdist) as sdist:
        inside = {name.partition("/src/")[2] for name in sdist.getnames() if "/src/upcl/" in name}
    assert files <= inside


def test_installed_wheel_is_what_runs(distribution: Distribution, tmp_path: Path) -> None:
    place = distribution.run("-c", "import upcl; print(upcl.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(distribution.installed)
    script = str(distribution.installed / "bin" / "upcl")
    assert upcl.__version__ in distribution.run(script, "--version", cwd=tmp_path)


def test_installed_wheel_lists_methods_and_experiments(distribution: Distribution, tmp_path: Path) -> None:
    methods = distribution.run("-m", "upcl", "methods", cwd=tmp_path)
    assert all(name in methods for name in METHODS)
    assert "ablation" in distribution.run("-m", "upcl", "reproduce", "--list", cwd=tmp_path)


def test_installed_wheel_trains_a_method(distribution: Distribution, tmp_path: Path) -> None:
    words = "train upcl --data digits:train=5,test=2 --tasks 2 --memory 10 --epochs 1 --device cpu --out run"
    distribution.run("-m", "upcl", *words.split(), cwd=tmp_path)
    assert (tmp_path / "run" / "record.json").is_file()
