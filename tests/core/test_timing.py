from __future__ import annotations

import pytest
import torch

from upcl.core.timing import duration, growth_exponent, overhead, single_thread, speedup, time_in_turns


def test_ratios_are_taken_round_by_round() -> None:
    measured = overhead("g", "n", {"ours": [1.0, 2.0, 9.0], "bare": [1.0, 1.0, 3.0]}, 2.5)
    assert (measured.value, measured.low, measured.high, measured.met) == (2.0, 1.5, 2.5, True)
    assert (measured.ours, measured.other) == ("ours 2.00 s", "bare 1.00 s")
    faster = speedup("g", "n", {"ours": [0.001, 0.001], "plain": [0.003, 0.005]}, 4.5)
    assert faster.value == pytest.approx(4.0) and faster.met is False
    assert faster.other == "plain 4 ms"


def test_durations_are_milliseconds() -> None:
    assert duration("g", "n", [0.002], 1.0).met is False
    assert duration("g", "n", [0.002], 3.0).met is True
    untargeted = duration("g", "n", [0.002])
    assert (untargeted.value, untargeted.unit, untargeted.met) == (2.0, "ms", None)


def test_exponent_is_fitted_and_may_exceed_its_formula_by_the_noise() -> None:
    assert growth_exponent("n", [10, 100], [1.0, 100.0], 2).value == pytest.approx(2)
    assert growth_exponent("n", [10, 100], [1.0, 100.0], 1).met is False
    assert growth_exponent("n", [10, 100], [1.0, 10**1.1], 1).met is True


def test_workloads_take_turns_after_a_warm_up() -> None:
    order: list[str] = []
    times = time_in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3
    assert [len(seconds) for seconds in times.values()] == [2, 2]


def test_threads_are_restored() -> None:
    before = torch.get_num_threads()
    with single_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
