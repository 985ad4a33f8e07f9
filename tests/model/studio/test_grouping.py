"""Mixed photos are grouped by similarity, and groups get names."""

from __future__ import annotations

import pytest
import torch

from tests.model.feature_models import NAMES, feature
from upcl.model.studio import grouping
from upcl.model.studio.grouping import group_photos, propose_name


@pytest.mark.parametrize("compared", [2000, 20])
def test_groups_are_the_classes(compared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "MAX_PHOTOS", compared)
    mixed = [(name, photo) for photo in range(8) for name in NAMES[::2]]
    features = torch.stack([feature(name, photo) for name, photo in mixed])
    for groups in (group_photos(features), group_photos(features, num_groups=3)):
        assert sorted(row for rows in groups for row in rows) == list(range(24))
        assert [{mixed[row][0] for row in rows} for rows in groups] == [{mixed[rows[0]][0]} for rows in groups]
        assert len(groups) == 3


def test_few_photos_are_groups_as_well() -> None:
    assert group_photos(torch.rand(0, 4)) == [] and group_photos(torch.rand(1, 4)) == [[0]]
    assert sorted(map(len, group_photos(torch.eye(4)[[0, 0, 1]], num_groups=9))) == [1, 1, 1]


@pytest.mark.parametrize(
    ("files", "answers", "name"),
    [
        (["a.jpg", "b.jpg"], ["robin", "robin"], "robin"),
        (["birds/robin/1.jpg", "birds/robin/2.jpg", "birds/wren/1.jpg"], [""] * 3, "robin"),
        (["IMG_0001.jpg", "IMG_0002.jpg"], ["", ""], ""),
        (["robin-1.jpg", "wren-2.jpg"], ["", ""], ""),
        ([], [], ""),
    ],
)
def test_names_come_from_the_model_or_the_files(files: list[str], answers: list[str], name: str) -> None:
    assert propose_name(files, answers) == name
