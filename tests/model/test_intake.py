from __future__ import annotations

import pytest
import torch
from torch import Tensor

from upcl.core.types import Samples
from upcl.model.bundle import ModelState
from upcl.model.intake import NewImages, NothingNewError, image_digest, sort_images


def images(*values: int) -> Tensor:
    """One grey image for each value."""
    return torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 8, 8).contiguous()


def samples(values: list[int], labels: list[int]) -> Samples:
    return Samples(images(*values), torch.tensor(labels, dtype=torch.int64))


def digests(*values: int) -> tuple[str, ...]:
    return tuple(image_digest(image) for image in images(*values))


@pytest.fixture
def state() -> ModelState:
    """Knows cat (learned from 1, 2; stores 1; holds out 3) and a removed class."""
    return ModelState(
        weights={},
        growth=(2,),
        classes=("cat", None),
        exemplars=samples([1], [0]),
        held_out=samples([3], [0]),
        trained={"cat": digests(1, 2)},
    )


def test_new_classes_are_sorted_by_name_after_the_known_ones(state: ModelState) -> None:
    offered = NewImages(images(10, 11, 12), ["owl", "dog", "dog"], images(13), ["owl"])
    intake = sort_images(offered, state)
    assert intake.classes == ("cat", None, "dog", "owl") and intake.num_old == 2
    assert intake.added == ("dog", "owl") and intake.num_new == 2
    assert intake.train.labels.tolist() == [3, 2, 2] and not len(intake.extra)
    assert intake.held_out.labels.tolist() == [3]


def test_unseen_images_of_known_classes_are_extra(state: ModelState) -> None:
    intake = sort_images(NewImages(images(20, 21), ["cat", "dog"], images(22), ["cat"]), state)
    assert intake.extra.inputs[:, 0, 0, 0].tolist() == [20] and intake.extra.labels.tolist() == [0]
    assert intake.extra_counts == {"cat": 1}
    assert intake.train.inputs[:, 0, 0, 0].tolist() == [21]
    assert intake.held_out.inputs[:, 0, 0, 0].tolist() == [22]


def test_images_learned_stored_or_held_out_are_left_out(state: ModelState) -> None:
    intake = sort_images(NewImages(images(1, 2, 3, 30), ["cat"] * 4, images(1, 2, 3, 31), ["cat"] * 4), state)
    assert intake.extra.inputs[:, 0, 0, 0].tolist() == [30]
    assert intake.held_out.inputs[:, 0, 0, 0].tolist() == [31]
    assert intake.notes == ()


def test_an_image_is_never_both_learned_from_and_held_out() -> None:
    intake = sort_images(NewImages(images(1, 2), ["cat"] * 2, images(2, 3), ["cat"] * 2), None)
    assert intake.train.inputs[:, 0, 0, 0].tolist() == [1, 2]
    assert intake.held_out.inputs[:, 0, 0, 0].tolist() == [3]


def test_digests_of_all_learned_images_accumulate(state: ModelState) -> None:
    intake = sort_images(NewImages(images(40, 41), ["cat", "dog"], images(), []), state)
    assert intake.trained == {"cat": digests(1, 2, 40), "dog": digests(41)}


def test_images_known_under_another_name_are_left_out_with_a_note(state: ModelState) -> None:
    intake = sort_images(NewImages(images(1, 2, 50), ["dog"] * 3, images(3), ["dog"]), state)
    (note,) = intake.notes
    assert note.startswith("3 images of dog left out: known as cat")
    assert intake.train.inputs[:, 0, 0, 0].tolist() == [50] and not len(intake.held_out)


def test_nothing_new_is_an_error_that_names_conflicts(state: ModelState) -> None:
    with pytest.raises(NothingNewError, match=r"already has every one of these images$"):
        sort_images(NewImages(images(1, 3), ["cat"] * 2, images(60), ["cat"]), state)
    with pytest.raises(NothingNewError, match="2 images of dog left out"):
        sort_images(NewImages(images(1, 2), ["dog"] * 2, images(), []), state)


def test_held_out_images_of_classes_without_training_images_are_left_out() -> None:
    intake = sort_images(NewImages(images(1), ["cat"], images(2, 3), ["cat", "ghost"]), None)
    assert intake.held_out.inputs[:, 0, 0, 0].tolist() == [2] and intake.classes == ("cat",)


def test_a_removed_class_that_returns_gets_a_new_label() -> None:
    before = ModelState({}, (2,), ("cat", None), samples([], []), samples([], []))
    assert sort_images(NewImages(images(70), ["dog"], images(), []), before).classes == ("cat", None, "dog")


def test_photos_in_the_folders_of_several_classes_are_left_out() -> None:
    features = torch.eye(4).half()
    digests = (["a", "b", "b", "c"], ["d", "d"])
    images = NewImages(features, ["cat", "cat", "dog", "dog"], features[:2], ["cat", "dog"], digests)
    intake = sort_images(images, None)
    assert intake.trained == {"cat": ("a",), "dog": ("c",)} and intake.tested == {"cat": (), "dog": ()}
    assert intake.notes == ("2 photos left out: in the folders of several classes",)
    same = NewImages(features[:2], ["cat", "cat"], features[:0], [], (["a", "a"], []))
    assert sort_images(same, None).trained == {"cat": ("a",)}, "copies within a class are one photo"
