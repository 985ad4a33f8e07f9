"""Runs that form pairs: equal conditions, equal seed, equal class order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from upcl.core.errors import UserError

from .grouping import comparison_fields, condition_fields, method_title, option_fields
from .record import Record
from .statistics import pairing_key

Conditions = tuple[tuple[str, str], ...]
Key = tuple[object, ...]


def runs_by_conditions(records: Sequence[Record], ignored: Collection[str] = ()) -> dict[Conditions, list[Record]]:
    """Group runs by all conditions that must be equal in a comparison.

    Args:
        records: the runs.
        ignored: names of conditions that need not be equal.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1}
        >>> records = [run(Request(method="icarl", memory=memory, **stream)) for memory in ("4", "8")]
        >>> len(runs_by_conditions(records)), len(runs_by_conditions(records, ignored=["memory"]))
        (2, 1)
    """
    groups: dict[Conditions, list[Record]] = {}
    for record in records:
        conditions = tuple(item for item in condition_fields(record).items() if item[0] not in ignored)
        groups.setdefault(conditions, []).append(record)
    return groups


def differing_conditions(left: Iterable[Conditions], right: Iterable[Conditions]) -> str:
    """Describe why no conditions are equal, by the two that differ least.

    Args:
        left: conditions of one side.
        right: conditions of the other side.

    Example:
        >>> differing_conditions([(("memory", "20"), ("data", "digits"))], [(("memory", "40"), ("data", "digits"))])
        'memory differs (20; 40)'
    """
    others = list(right)
    pairs = [(dict(a), dict(b)) for a in left for b in others]
    a, b = min(pairs, key=lambda pair: sum(pair[0][name] != pair[1][name] for name in pair[0]))
    return "; ".join(f"{name} differs ({_short(a[name])}; {_short(b[name])})" for name in a if a[name] != b[name])


def _short(value: str) -> str:
    """A digest by its first digits, as everywhere in messages; other values as they are."""
    return re.sub(r"\b[0-9a-f]{64}\b", lambda digest: digest[0][:12], value)


def runs_by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs by the title of their method.

    Args:
        records: the runs.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1}
        >>> list(runs_by_method([run(Request(method=method, **stream)) for method in ("icarl", "wa")]))
        ['iCaRL', 'WA']
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(method_title(record), []).append(record)
    return groups


def require_both(method: str, *sides: tuple[str, Mapping[str, list[Record]]]) -> list[list[Record]]:
    """Find the runs of a method on each side.

    Args:
        method: title of the method.
        sides: the name of each side, and its runs as `runs_by_method` returns them.

    Raises:
        UserError: if a side has no run of the method, or both sides have the same runs.

    Example:
        >>> require_both("iCaRL", ("a", {"iCaRL": []}), ("b", {}))
        Traceback (most recent call last):
        upcl.core.errors.UserError: not in b
    """
    if missing := [name for name, runs in sides if method not in runs]:
        raise UserError(f"not in {' or '.join(missing)}")
    found = [runs[method] for _, runs in sides]
    if len({frozenset(record.config_digest for record in runs) for runs in found}) == 1:
        raise UserError("the same runs on both sides")
    return found


def runs_by_pair(name: str, records: Sequence[Record]) -> dict[Key, Record]:
    """Find each run by its seed and class order.

    Args:
        name: what to call the runs in a message.
        records: runs of one configuration.

    Raises:
        UserError: if they are of several configurations, whose mean would mean nothing.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> records = [run(Request(method="icarl", seed=seed, **stream)) for seed in (0, 1)]
        >>> list(runs_by_pair("iCaRL", records))
        [(0, 1993, ()), (1, 1993, ())]
    """
    fields = [{**option_fields(each), **comparison_fields(each)} for each in records]
    values = {key: sorted({each.get(key, "-") for each in fields}) for each in fields for key in each}
    if several := [f"{key} is {_alternatives(found)}" for key, found in values.items() if len(found) > 1]:
        raise UserError(
            f"{name} holds runs of several configurations ({'; '.join(several)}): name the folder of one of them"
        )
    return {pairing_key(record): record for record in records}


def _alternatives(values: Sequence[str]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


def describe_seed(record: Record) -> str:
    """Describe what a run shares with its partner: seed and class order.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> describe_seed(record)
        'seed 0, class order 1993'
    """
    order = "(custom)" if record.config.order else str(record.order_seed)
    return f"seed {record.seed}, class order {order}"


def unpaired(sides: Sequence[tuple[str, Mapping[Key, Record]]]) -> list[str]:
    """Describe the runs of two sides that have no partner.

    Args:
        sides: the name of each side, and its runs as `runs_by_pair` returns them.

    Example:
        >>> unpaired([("UPCL", {}), ("iCaRL", {})])
        []
    """
    (first, runs), (second, others) = sides
    alone = [(first, runs[key]) for key in runs if key not in others]
    alone += [(second, others[key]) for key in others if key not in runs]
    return [f"{name}, {describe_seed(record)}" for name, record in alone]
