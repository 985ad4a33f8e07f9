from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.files import make_cub200
from upcl.core.errors import UserError
from upcl.data.io.layouts import Layout

CUB = Layout("cub200", "CUB-200-2011", ("CUB_200_2011", "cub"), ("images.txt",))
CARS = Layout("stanfordcars", "Stanford Cars", ("stanford_cars",), ("devkit",))


def test_any_of_the_folders_is_found(tmp_path: Path) -> None:
    folder = make_cub200(tmp_path)
    assert CUB.find(tmp_path) == folder
    folder.rename(tmp_path / "cub")
    assert CUB.find(tmp_path) == tmp_path / "cub"


def test_missing_data_set_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"CUB-200-2011 is not in .* \(expected CUB_200_2011/ or CUB_200_2011\.tgz\): run `upcl data get cub200`",
    ):
        CUB.find(tmp_path)
    with pytest.raises(UserError, match=r"\(expected stanford_cars/\): its official address is gone; put cars_train/"):
        CARS.find(tmp_path / "nowhere")


def test_data_root_that_is_the_data_set_itself_is_explained(tmp_path: Path) -> None:
    folder = make_cub200(tmp_path)
    with pytest.raises(
        UserError, match="is CUB-200-2011 itself: name the folder CUB_200_2011 and give the folder above"
    ):
        CUB.find(folder)


def test_one_folder_too_deep_is_explained(tmp_path: Path) -> None:
    folder = make_cub200(tmp_path / "CUB_200_2011")
    with pytest.raises(UserError, match=f"too deep, in {folder}: move its content up, into {folder.parent}"):
        CUB.find(tmp_path)


def test_another_layout_is_explained(tmp_path: Path) -> None:
    (tmp_path / "CUB_200_2011" / "train").mkdir(parents=True)
    with pytest.raises(UserError, match=r"is not CUB-200-2011 as its archive unpacks \(images\.txt is missing\): run"):
        CUB.find(tmp_path)
