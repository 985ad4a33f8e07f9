"""Claims on a folder that several hosts share: a file with a heartbeat, which another process takes over when it stops.

File locks are not reliable on network file systems. A lease is: a file is created by one process only, its owner keeps
counting in it, and whoever wants it watches the count by a clock of its own. So clocks of hosts need not agree.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import BusyError, TrainingError
from .files import errors_name

NAME = ".lease"
HEARTBEAT_SECONDS = 1.0
STALE_SECONDS = 30.0  # without a heartbeat, after which a lease is taken over
POLL_SECONDS = 0.2
DIGITS = 20  # of the count
HIDDEN = "hidden"  # the start of a process that is alive, but whose data cannot be read


class LostLeaseError(TrainingError):
    """Another process has taken over, since this one did not answer for a while.

    Example:
        >>> issubclass(LostLeaseError, TrainingError)
        True
    """


class Lease:
    """A claim that this process holds.

    Args:
        path: the file.
        token: what distinguishes this claim from all others.
        descriptor: the open file, in which this process counts.

    Example:
        >>> import tempfile
        >>> with hold_lease(Path(tempfile.mkdtemp()), busy="in use") as lease:
        ...     lease.check()
    """

    def __init__(self, path: Path, token: str, descriptor: int) -> None:
        self.path, self.token, self.descriptor = path, token, descriptor
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Make sure that this process still holds the claim; called before anything is written.

        Raises:
            LostLeaseError: if another process has taken over.
        """
        owner = read_owner(self.path)
        if owner is None or owner.token != self.token:
            raise LostLeaseError(
                f"another process took over {self.path.parent}, since this one did not answer for {STALE_SECONDS:.0f} s"
            )

    def release(self) -> None:
        """Give up the claim."""
        self._end.set()
        self._thread.join()
        os.close(self.descriptor)
        _remove(self.path, self.token)

    def _beat(self) -> None:
        """Count in the open file: if it was moved away, no other claim is touched."""
        count = 0
        while not self._end.wait(HEARTBEAT_SECONDS):
            count += 1
            with contextlib.suppress(OSError):  # a full disk, for one
                os.pwrite(self.descriptor, f"{count:0{DIGITS}d}".encode(), 0)
                os.fsync(self.descriptor)


@dataclass(frozen=True)
class Owner:
    """Who holds a claim, as its file states it.

    Args:
        count: heartbeats so far.
        token: what distinguishes the claim.
        host: the machine, or container, of the process.
        pid: number of the process there.
        started: when that process was started, as its operating system counts; another process may have its number.
        name: host name, for messages.

    Example:
        >>> Owner(3, "4f", host="", pid=7, started="81", name="gpu03").is_dead()
        False
    """

    count: int
    token: str
    host: str
    pid: int
    started: str
    name: str

    def is_dead(self) -> bool:
        """Whether it was a process of this machine that has ended; unknown for other machines."""
        if self.host != _this_host():
            return False
        return _started(self.pid) not in (self.started, HIDDEN)


def read_owner(path: Path) -> Owner | None:
    """Who holds a claim; None if nobody does.

    Args:
        path: the file.

    Example:
        >>> read_owner(Path("missing")) is None
        True
    """
    try:
        count, _, owner = path.read_text().partition("\n")
        return Owner(int(count), **json.loads(owner))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):  # just being created, or foreign: it counts as held until it is stale
        return Owner(0, "", "", 0, "", "unknown")


@contextmanager
def hold_lease(folder: Path, *, busy: str) -> Iterator[Lease]:
    """Claim a folder. A claim whose owner has ended is taken over; that of another machine when it is stale.

    Args:
        folder: an existing folder.
        busy: the message if another process holds it; who that is is added.

    Raises:
        BusyError: if another process holds it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with hold_lease(folder, busy="the run is in use"):
        ...     (folder / ".lease").exists()
        True
    """
    path = folder / NAME
    lease = None
    while lease is None:
        lease = _create(path)
        if lease is None:
            _wait_until_free(path, busy)
    for left in folder.glob(f"{NAME}-*"):
        left.unlink(missing_ok=True)
    try:
        yield lease
    finally:
        lease.release()


def _create(path: Path) -> Lease | None:
    token = uuid.uuid4().hex
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return None
    pid = os.getpid()
    owner = Owner(0, token, _this_host(), pid, _started(pid), platform.node())
    values = {name: value for name, value in vars(owner).items() if name != "count"}
    try:
        with errors_name(path):
            os.write(descriptor, f"{0:0{DIGITS}d}\n{json.dumps(values)}\n".encode())
            os.fsync(descriptor)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return Lease(path, token, descriptor)


def _wait_until_free(path: Path, busy: str) -> None:
    """Watch the owner's heartbeats until the claim is gone or stale; an owner that is alive is an error."""
    first, start = read_owner(path), time.monotonic()
    while first is not None:
        if first.is_dead() or time.monotonic() - start >= STALE_SECONDS:
            _remove(path, first.token)
            return
        owner = read_owner(path)
        if owner is None or owner.token != first.token:
            return
        if owner.count != first.count:
            raise BusyError(f"{busy} (process {owner.pid} on {owner.name})")
        time.sleep(POLL_SECONDS)


def _remove(path: Path, token: str) -> None:
    """Remove a claim, unless it has changed hands: renaming is atomic, and only one process succeeds."""
    owner = read_owner(path)
    if owner is None or owner.token != token:
        return
    moved = path.with_name(f"{NAME}-{uuid.uuid4().hex}")
    try:
        path.rename(moved)
    except FileNotFoundError:
        return
    owner = read_owner(moved)
    if owner and owner.token != token:
        with contextlib.suppress(OSError):
            os.link(moved, path)  # it changed hands in between: give it back
    moved.unlink(missing_ok=True)


def _started(pid: int) -> str:
    """When a process of this machine was started; empty if it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state == "Z" else fields[18]
    except (FileNotFoundError, ProcessLookupError):  # no /proc, or one that hides the processes of others
        return HIDDEN if _is_alive(pid) else ""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _this_host() -> str:
    """What distinguishes this machine, or container, from others: process numbers mean something only here."""
    parts = [platform.node(), str(uuid.getnode())]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)
