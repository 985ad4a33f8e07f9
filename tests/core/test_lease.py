"""Claims on a folder: one process at a time, whatever happens to the processes and their clocks."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from upcl.core import lease
from upcl.core.errors import UserError
from upcl.core.lease import LostLeaseError, Owner, hold_lease, read_owner

HOLDER = """
import sys, time, pathlib
from upcl.core import lease
lease.HEARTBEAT_SECONDS, lease.STALE_SECONDS = 0.1, 1.0
{before}
with lease.hold_lease(pathlib.Path(sys.argv[1]), busy="busy") as held:
    print("held", flush=True)
    while True:
        time.sleep(0.05)
        try:
            held.check()
        except lease.LostLeaseError:
            print("lost", flush=True)
            break
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(lease, "STALE_SECONDS", 1.0)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with holding(tmp_path) as process:
        yield process


@contextmanager
def holding(folder: Path, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that holds a claim."""
    command = [sys.executable, "-c", HOLDER.format(before=before), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)  # signals are not delivered at once


def pretend_other_host(folder: Path) -> None:
    """Whoever holds the claim is now on another machine, where nobody can see its processes."""
    path = folder / lease.NAME
    count, _, owner = path.read_text().partition("\n")
    values = {**json.loads(owner), "host": "another", "name": "another"}
    with path.open("r+") as file:
        file.write(f"{count}\n{json.dumps(values)}\n")
        file.truncate()


def test_a_living_owner_is_named(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    message = rf"in use \(process {holder.pid} on {platform.node()}\)"
    with pytest.raises(UserError, match=message), hold_lease(tmp_path, busy="in use"):
        pass
    assert holder.poll() is None and (tmp_path / lease.NAME).exists()


def test_the_claim_of_a_killed_process_is_taken_over_at_once(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    start = time.monotonic()  # not even reaped yet
    with hold_lease(tmp_path, busy="in use") as held:
        held.check()
    assert time.monotonic() - start < 0.9 and not (tmp_path / lease.NAME).exists()


def test_a_process_of_another_host_that_died_is_taken_over_when_stale(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    pretend_other_host(tmp_path)
    with pytest.raises(UserError, match="on another"), hold_lease(tmp_path, busy="in use"):
        pass
    holder.kill()
    holder.wait()
    start = time.monotonic()
    with hold_lease(tmp_path, busy="in use"):
        assert time.monotonic() - start >= 1.0


def test_a_stopped_process_is_taken_over_and_notices_when_it_wakes_up(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    stop(holder)
    with hold_lease(tmp_path, busy="in use") as held:
        holder.send_signal(signal.SIGCONT)
        output, _ = holder.communicate(timeout=20)
        assert output == "lost\n", "it stops"
        time.sleep(0.3)
        held.check()
        assert read_owner(tmp_path / lease.NAME).pid == os.getpid()  # type: ignore[union-attr]


@pytest.mark.parametrize("minutes", [-1, 1])
def test_clocks_need_not_agree(minutes: int, tmp_path: Path) -> None:
    shifted = f"real = time.time; time.time = lambda: real() + {60 * minutes}"
    with holding(tmp_path, shifted) as process:
        pretend_other_host(tmp_path)
        os.utime(tmp_path / lease.NAME, (time.time() + 60 * minutes,) * 2)
        with pytest.raises(UserError, match="in use"), hold_lease(tmp_path, busy="in use"):
            pass
        stop(process)
        with hold_lease(tmp_path, busy="in use"):
            pass


def test_of_many_processes_that_want_a_stale_claim_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "STALE_SECONDS", 4.0)  # on a busy machine, a heartbeat may take more than a second
    values = {"token": "old", "host": "another", "pid": 1, "started": "1", "name": "another"}
    (tmp_path / lease.NAME).write_text(f"{7:020d}\n{json.dumps(values)}\n")
    inside, most, refused = [], [], []

    def claim() -> None:
        try:
            with hold_lease(tmp_path, busy="in use") as held:
                inside.append(held)
                most.append(len(inside))
                time.sleep(0.5)
                held.check()
                inside.remove(held)
        except UserError:
            refused.append(True)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1} and len(refused) + len(most) == 8
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_claim_that_changed_hands_is_given_back(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    lease._remove(tmp_path / lease.NAME, "another token")
    time.sleep(0.3)
    assert holder.poll() is None
    owner = read_owner(tmp_path / lease.NAME)
    assert owner is not None and owner.pid == holder.pid
    lease._remove(tmp_path / "missing", "any")


def test_foreign_content_counts_as_held_until_it_is_stale(tmp_path: Path) -> None:
    (tmp_path / lease.NAME).write_text("something else")
    assert read_owner(tmp_path / lease.NAME) == Owner(0, "", "", 0, "", "unknown")
    (tmp_path / f"{lease.NAME}-left").touch()
    with hold_lease(tmp_path, busy="in use"):
        assert [path.name for path in tmp_path.iterdir()] == [lease.NAME], "what a crash left behind is removed"


def test_a_claim_that_vanished_is_lost(tmp_path: Path) -> None:
    with hold_lease(tmp_path, busy="in use") as held:
        (tmp_path / lease.NAME).unlink()
        with pytest.raises(LostLeaseError, match="another process took over"):
            held.check()


def test_nothing_is_left_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space") as caught, hold_lease(tmp_path, busy="in use"):
        pass
    assert caught.value.filename == str(tmp_path / lease.NAME)
    assert list(tmp_path.iterdir()) == []


def test_processes_are_recognised_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lease._is_alive(os.getpid()) and not lease._is_alive(2**22 + 1)
    assert lease._started(2**22 + 1) == ""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert lease._is_alive(1) and lease._started(2**22 + 1) == lease.HIDDEN
    hidden = Owner(0, "a", lease._this_host(), 2**22 + 1, "7", "here")
    assert not hidden.is_dead(), "a process of another user whose data are hidden counts as alive"
