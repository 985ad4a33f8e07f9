"""Samples, tasks and batches."""

from __future__ import annotations

import pytest
import torch

from upcl.core.types import NO_SAMPLES, Batch, Samples, Task

SOME = Samples(torch.arange(3, dtype=torch.uint8)[:, None, None, None], torch.tensor([0, 2, 2]))


def test_samples_can_be_joined() -> None:
    joined = SOME + SOME
    assert joined.inputs.flatten().tolist() == [0, 1, 2, 0, 1, 2]
    assert joined.labels.tolist() == [0, 2, 2, 0, 2, 2]
    assert (SOME + NO_SAMPLES) is SOME
    assert (NO_SAMPLES + SOME) is SOME


def test_samples_can_be_selected_and_counted() -> None:
    selected = SOME[torch.tensor([2, 0])]
    assert (selected.inputs.flatten().tolist(), selected.labels.tolist()) == ([2, 0], [2, 0])
    assert SOME[:1].labels.tolist() == [0]
    assert (SOME + SOME).counts(4).tolist() == [2, 0, 4, 0]


def test_labels_are_integers_and_match_the_inputs() -> None:
    assert Samples(SOME.inputs, torch.tensor([0.0, 2.0, 2.0])).labels.dtype == torch.int64
    with pytest.raises(ValueError, match="3 inputs but 2 labels"):
        Samples(SOME.inputs, SOME.labels[:2])


def test_task_counts_all_classes_and_has_no_extra_images_by_default() -> None:
    task = Task(1, 4, 2, SOME)
    assert task.num_seen == 6
    assert len(task.extra) == 0


def test_batch_progress_is_the_share_of_completed_epochs() -> None:
    assert Batch(torch.zeros(1), torch.zeros(1), epoch=3, epochs=4, step=0, steps=1).progress == 0.75
