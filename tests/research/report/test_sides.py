from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.research.report.sides import find_sides


def test_sides_are_folders_or_methods(runs_folder: Path) -> None:
    by_method = find_sides(["upcl", "icarl"], runs_folder)
    assert [(side.name, len(side.records)) for side in by_method] == [("UPCL", 2), ("iCaRL", 2)]
    by_folder = find_sides([str(runs_folder / "upcl-1"), "icarl"], runs_folder)
    assert [(side.name, len(side.records)) for side in by_folder] == [("upcl-1", 1), ("iCaRL", 2)]


def test_a_folder_with_runs_goes_before_a_method(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "upcl").mkdir()
    assert len(find_sides(["upcl", "icarl"], runs_folder)[0].records) == 2, "an empty folder is not meant"
    shutil.copytree(runs_folder / "upcl-1", tmp_path / "upcl" / "a")
    assert len(find_sides(["upcl", "icarl"], runs_folder)[0].records) == 1


def test_sides_with_one_name_are_called_as_they_were_passed(runs_folder: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        shutil.copytree(runs_folder / f"upcl-{number}", tmp_path / name / "same")
    names = [str(tmp_path / name / "same") for name in ("a", "b")]
    assert [side.name for side in find_sides(names, runs_folder)] == names


def test_mistakes_are_named(runs_folder: Path, tmp_path: Path) -> None:
    for names, folder, message in (
        (["icral", "upcl"], runs_folder, "'icral': did you mean icarl"),
        (["upcl"], runs_folder, "needs two sides"),
        (["upcl", "upcl"], runs_folder, "upcl and upcl are the same runs"),
        (["upcl", "icarl"], tmp_path / "none", "does not exist: name the folder by --runs"),
        (["none/here", "icarl"], runs_folder, "none/here does not exist"),
    ):
        with pytest.raises(UserError, match=message):
            find_sides(names, folder)


def test_unfinished_runs_are_left_out_and_noted(runs_folder: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(runs_folder, runs)
    path = runs / "upcl-1" / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "finished": False}))
    notes: list[str] = []
    assert len(find_sides(["upcl", "icarl"], runs, notes)[0].records) == 1
    assert notes == ["upcl, seed 1: not finished, left out"]
    with pytest.raises(UserError, match="none of its runs is finished"):
        find_sides([str(runs / "upcl-1"), "icarl"], runs)
