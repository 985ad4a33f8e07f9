"""Entries of a model file: each is read once, and names what there is."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.model.feature_models import grow
from tests.model.model_files import rewrite
from upcl.model.file import ModelFileError, load, save
from upcl.model.reader import EntryReader


def test_an_image_that_is_named_many_times_is_decoded_once(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repeated(manifest: Any) -> None:
        held_out = manifest["states"]["1"]["held_out"]
        held_out["images"], held_out["labels"] = held_out["images"][:1] * 5000, [0] * 5000

    read: collections.Counter[str] = collections.Counter()
    decode = EntryReader._read_image

    def counted(self: EntryReader, digest: str) -> Tensor:
        read[digest] += 1
        return decode(self, digest)

    monkeypatch.setattr(EntryReader, "_read_image", counted)
    images = load(rewrite(model_file, tmp_path / "x.upcl", repeated)).state.held_out.inputs
    assert set(read.values()) == {1}
    assert len(images) == 5000 and torch.equal(images, images[:1].expand_as(images))


def _more_rows(manifest: Any) -> None:
    manifest["states"]["0"]["exemplars"]["rows"][0] = 10**6


def _other_digests(manifest: Any) -> None:
    trained = manifest["states"]["0"]["trained"]
    trained["ant"], trained["cat"] = trained["ant"][1:], [*trained["cat"], "0" * 16]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_more_rows, "names features that it does not have"),
        (_other_digests, "numbers of photos and digests differ"),
    ],
)
def test_features_that_do_not_exist_or_match_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    save(grow(None, {"ant": range(3), "cat": range(3)}, {"ant": range(3, 5)}), tmp_path / "m.upcl")
    assert len(load(tmp_path / "m.upcl").state.exemplars) == 6
    with pytest.raises(ModelFileError, match=message):
        load(rewrite(tmp_path / "m.upcl", tmp_path / "x.upcl", change))
