from __future__ import annotations

import pytest

from tests.research.altered import alter
from upcl.core.errors import UserError
from upcl.research.pairing import (
    describe_seed,
    differing_conditions,
    require_both,
    runs_by_conditions,
    runs_by_method,
    runs_by_pair,
    unpaired,
)
from upcl.research.record import Record


def test_runs_are_grouped_by_every_condition(records: list[Record]) -> None:
    changed = alter(records[1], config={"memory": "6", "sharing": "floor"})
    groups = runs_by_conditions([records[0], changed, records[2]])
    assert list(groups.values()) == [[records[0], records[2]], [changed]]
    assert len(runs_by_conditions([records[0], changed], ["memory", "sharing"])) == 1
    assert differing_conditions(*([key] for key in groups)) == (
        "memory differs (12 in total; 6 in total); sharing differs (exact; floor)"
    )


def test_the_nearest_conditions_are_named(records: list[Record]) -> None:
    near = alter(records[0], config={"memory": "6"})
    far = alter(records[0], config={"memory": "6", "backbone": "medium"})
    reasons = differing_conditions(runs_by_conditions([records[2]]), runs_by_conditions([far, near]))
    assert reasons == "memory differs (12 in total; 6 in total)"


def test_runs_of_several_configurations_are_refused(records: list[Record]) -> None:
    options = {**records[2].config.options, "tau": 0.5}
    with pytest.raises(UserError, match=r"UPCL holds runs of several configurations \(tau is 0.07 or 0.5\)"):
        runs_by_pair("UPCL", [records[2], alter(records[3], config={"options": options})])


def test_digests_in_messages_are_short(records: list[Record]) -> None:
    other = alter(records[0], config={"data_sha256": "ab" * 32})
    reasons = differing_conditions(*(runs_by_conditions([each]) for each in (records[0], other)))
    assert reasons == f"data_sha256 differs ({records[0].config.data_sha256[:12]}; abababababab)"


def test_runs_of_a_method_on_both_sides(records: list[Record]) -> None:
    left, right = runs_by_method(records), runs_by_method(records[:1])
    assert {name: len(runs) for name, runs in left.items()} == {"iCaRL": 2, "UPCL": 2}
    assert require_both("iCaRL", ("a", left), ("b", right)) == [records[:2], records[:1]]
    with pytest.raises(UserError, match=r"^not in b$"):
        require_both("UPCL", ("a", left), ("b", right))
    with pytest.raises(UserError, match="the same runs on both sides"):
        require_both("UPCL", ("a", left), ("b", left))


def test_runs_without_a_partner_are_named(records: list[Record]) -> None:
    left = runs_by_pair("iCaRL", records[:2])
    right = runs_by_pair("UPCL", [records[2], alter(records[3], seed=7)])
    assert unpaired([("iCaRL", left), ("UPCL", right)]) == [
        "iCaRL, seed 1, class order 1993",
        "UPCL, seed 7, class order 1993",
    ]
    assert describe_seed(alter(records[0], config={"order": (5, 4, 3, 2, 1, 0)})) == "seed 0, class order (custom)"
