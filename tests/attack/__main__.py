"""Run attacks and print a table; the exit code is 1 if any attack succeeded."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", TERM="dumb")  # before torch is imported: processes are forked

import torch
from rich.console import Console
from rich.table import Table

from upcl.core.files import exclusive_lock, write_json

from .trial import FAILURES, FailedTrialError, Trial, Verdict

Counts = dict[str, Counter[str]]


def all_trials() -> dict[str, Trial]:
    """Every kind of attack by name."""
    from . import commands, faults, files, growth, images, kills, requests

    modules = (kills, faults, files, images, requests, commands, growth)
    return {kind: trial for module in modules for kind, trial in module.trials().items()}


def run_trial(kind: str, trial: Trial, seed: int, number: int) -> Counter[str]:
    """Attack once; a failure is printed with the command that repeats it."""
    with tempfile.TemporaryDirectory(prefix="upcl-attack-", ignore_cleanup_errors=True) as root:
        folder = Path(root) / "trial"
        folder.mkdir()
        try:
            result = trial(random.Random(f"{seed} {kind} {number}"), folder)
        except FailedTrialError as error:
            repeat = f"python -m tests.attack --only {kind} --seed {seed} --trial {number}"
            print(f"\n{error.verdict}: {repeat}\n{error}", file=sys.stderr, flush=True)
            return Counter({error.verdict: 1})
    return Counter({result: 1}) if isinstance(result, Verdict) else Counter(result)


def attack(trials: dict[str, Trial], seed: int, seconds: float, limit: int) -> Counts:
    """Attack in turn, each kind for the same time, until the time or the number of trials of each kind is used up."""
    counts: Counts = {kind: Counter() for kind in trials}
    spent, numbers, start = defaultdict[str, float](float), Counter[str](), time.monotonic()
    while time.monotonic() - start < seconds:
        open_kinds = [kind for kind in trials if numbers[kind] < limit]
        if not open_kinds:
            break
        kind = min(open_kinds, key=lambda kind: spent[kind])
        before = time.monotonic()
        counts[kind] += run_trial(kind, trials[kind], seed, numbers[kind])
        spent[kind] += time.monotonic() - before
        numbers[kind] += 1
    return counts


def make_table(counts: Counts, title: str) -> Table:
    table = Table(title=title)
    for column in ("kind", "tried", *Verdict):
        table.add_column(column, justify="left" if column == "kind" else "right")
    total: Counter[str] = sum(counts.values(), Counter())
    for kind, found in (*counts.items(), ("all", total)):
        table.add_row(kind, *(f"{number:,}" for number in (found.total(), *(found[verdict] for verdict in Verdict))))
    return table


def add_totals(path: Path, counts: Counts, seconds: float) -> tuple[Counts, float]:
    """Add counts to those in a file, and return all."""
    with exclusive_lock(path.with_suffix(".lock")):
        stored: dict[str, Any] = {"seconds": 0.0, "counts": {}}
        if path.exists():
            stored = json.loads(path.read_text())
        total: Counts = {kind: Counter(found) for kind, found in stored["counts"].items()}
        for kind, found in counts.items():
            total[kind] = total.get(kind, Counter()) + found
        seconds += stored["seconds"]
        write_json(path, {"seconds": round(seconds), "counts": total})
    return total, seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Attack the program.")
    parser.add_argument("--minutes", type=float, default=60.0, help="time to attack for")
    parser.add_argument("--trials", type=int, default=sys.maxsize, help="number of trials of each kind at most")
    parser.add_argument("--only", action="append", help="a kind of attack; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="repeat this trial of the kind --only")
    parser.add_argument("--totals", type=Path, help="JSON file to which the counts are added")
    options = parser.parse_args()
    torch.set_num_threads(1)
    trials = all_trials()
    if options.only:
        trials = {kind: trials[kind] for kind in options.only}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="upcl-attack-") as cache:
        os.environ["UPCL_CACHE"] = cache
        if options.trial is not None:
            counts = {kind: run_trial(kind, trial, options.seed, options.trial) for kind, trial in trials.items()}
        else:
            counts = attack(trials, options.seed, 60 * options.minutes, options.trials)
    seconds = time.monotonic() - start
    console = Console(width=120)
    console.print(make_table(counts, f"seed {options.seed}, {seconds:,.0f} s"))
    if options.totals:
        total, seconds = add_totals(options.totals, counts, seconds)
        console.print(make_table(total, f"all runs so far, {seconds / 3600:,.1f} hours"))
    return int(any(found[verdict] for found in counts.values() for verdict in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
