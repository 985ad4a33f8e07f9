from __future__ import annotations

import pytest

from upcl.model.bundle import MAX_STATES, Bundle, HistoryEntry


def test_only_the_most_recent_states_are_stored(bundle: Bundle) -> None:
    long = bundle
    for _ in range(MAX_STATES + 3):
        long = long.with_step(bundle.history[0], bundle.state)
    assert sorted(long.states) == list(range(len(long.history) - MAX_STATES, len(long.history)))
    assert len(long.history) == 2 + MAX_STATES + 3


def test_state_is_that_of_the_last_step(bundle: Bundle) -> None:
    assert bundle.state is bundle.states[1]
    assert bundle.with_step(HistoryEntry("now"), bundle.states[0]).state is bundle.states[0]


def test_rolling_back_drops_later_steps(bundle: Bundle) -> None:
    earlier = bundle.rolled_back(0)
    assert earlier.history == bundle.history[:1] and list(earlier.states) == [0]
    assert earlier.state.class_names == ["kind 0", "kind 1", "kind 2"]


def test_mean_accuracy_leaves_out_classes_without_held_out_images() -> None:
    entry = HistoryEntry("now", by_class={"cat": 80.0, "dog": 40.0, "owl": None}, accuracy={"head": 60.0, "nme": 70.0})
    assert entry.mean_accuracy(["cat", "owl", "unknown"]) == 80.0
    assert entry.mean_accuracy(entry.by_class) == pytest.approx(60)
    assert entry.mean_accuracy(["owl"]) is None
    assert entry.best_accuracy == 70.0 and HistoryEntry("now").best_accuracy is None
