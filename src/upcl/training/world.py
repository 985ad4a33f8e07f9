"""The processes of one run, started by torchrun or srun: who they are, and what they exchange.

Every process computes all losses over the complete batch; `sharding` divides the work of the backbone. The first
process alone reads and writes the run's folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from upcl.core.errors import LostProcessError, RelayedError, TrainingError, UserError

from .environment import select_device

T = TypeVar("T")
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
LAUNCHER_VARIABLES = {*TORCHRUN, *SLURM}  # which a process that is no part of the run must not inherit
TIMEOUT = 600  # seconds without an answer after which a process counts as lost; `UPCL_TIMEOUT` overrides it


@dataclass(frozen=True)
class World:
    """The processes of a run.

    Args:
        rank: number of this process.
        size: number of processes, a power of two.

    Example:
        >>> world = World()
        >>> world.is_first, world.share(lambda: {"epoch": 3})
        (True, {'epoch': 3})
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that reads and writes files."""
        return self.rank == 0

    def share(self, compute: Callable[[], T]) -> T:
        """Compute something in the first process and send it to all.

        Args:
            compute: returns nested containers of tensors and plain values.

        Raises:
            RelayedError: in the other processes, if the first one fails.
        """
        if self.size == 1:
            return compute()
        if not self.is_first:
            received: T = self._receive()
            return received
        try:
            value = compute()
        except Exception as error:
            with contextlib.suppress(LostProcessError):
                self._broadcast({"error": str(error)})
            raise
        self._broadcast({"value": value})
        return value

    def gather(self, rows: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Collect the rows of all processes.

        Args:
            rows: the rows of this process (n x ...).
            lengths: number of rows of every process.

        Returns:
            The rows of every process.
        """
        if self.size == 1:
            return [rows]
        padded = rows.new_zeros(max(lengths), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        self._call(lambda: dist.all_gather(parts, padded))
        return [part[:num] for part, num in zip(parts, lengths, strict=True)]

    def exchange(self, value: Tensor, partner: int) -> Tensor:
        """Swap tensors of equal shape with another process.

        Args:
            value: what to send.
            partner: rank of the other process.
        """
        received = torch.empty_like(value)

        def swap() -> None:
            calls = [dist.P2POp(dist.isend, value.contiguous(), partner), dist.P2POp(dist.irecv, received, partner)]
            for work in dist.batch_isend_irecv(calls):
                work.wait()

        self._call(swap)
        return received

    def require_equal(self, what: str, digest: str) -> None:
        """Compare something that all processes computed by themselves.

        Args:
            what: what it is, for the message.
            digest: its SHA-256.

        Raises:
            TrainingError: if it differs.
        """
        if self.size == 1:
            return
        digests = self.gather(torch.tensor([list(bytes.fromhex(digest))], dtype=torch.uint8), [1] * self.size)
        others = [rank for rank, other in enumerate(digests) if not torch.equal(other, digests[0])]
        if others:
            raise TrainingError(
                f"{what} differ between process 0 and {', '.join(map(str, others))}: use the same command and data on "
                "hosts with the same processors, devices and versions of the packages"
            )

    def _broadcast(self, message: object) -> None:
        buffer = io.BytesIO()
        torch.save(message, buffer)
        content = torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
        self._call(lambda: dist.broadcast(torch.tensor([len(content)]), 0))
        self._call(lambda: dist.broadcast(content, 0))

    def _receive(self) -> Any:
        length = torch.zeros(1, dtype=torch.int64)
        self._call(lambda: dist.broadcast(length, 0))
        content = torch.empty(int(length), dtype=torch.uint8)
        self._call(lambda: dist.broadcast(content, 0))
        message = torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=True)
        if "error" in message:
            raise RelayedError(message["error"])
        return message["value"]

    def _call(self, communicate: Callable[[], object]) -> None:
        try:
            communicate()
        except RuntimeError as error:
            self._lost(error)

    def _lost(self, error: RuntimeError) -> NoReturn:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise LostProcessError(
            f"process {self.rank} of {self.size}: another process ended or does not answer ({reason}); what was saved "
            "is intact: start all processes again with --resume"
        ) from None


def is_first_process() -> bool:
    """Whether this is the first process of a run, or the only one: the one that prints and writes.

    Example:
        >>> is_first_process()
        True
    """
    return _launched()[0] == 0


def _launched() -> tuple[int, int, int]:
    """Rank, number of processes, and rank on this host, as torchrun or srun state them."""
    for rank, size, local in (TORCHRUN, SLURM):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size]), int(os.environ.get(local, 0))
    return 0, 1, 0


@contextmanager
def open_world(shards: int, device: str) -> Iterator[tuple[World, torch.device]]:
    """Connect the processes of a run.

    With several shards, a process on a CPU computes in one thread, since the number of threads would change the last
    bits of the results: parallelism comes from processes. (Not tested: NCCL and GPUs.)

    Args:
        shards: into how many parts every batch is divided.
        device: auto, cpu, cuda, cuda:1 or mps; `auto` and `cuda` give every process of a host a GPU of its own.

    Yields:
        The processes, and the device of this one.

    Raises:
        UserError: if the processes cannot share the shards.

    Example:
        >>> with open_world(1, "cpu") as (world, device):
        ...     world.size, device.type
        (1, 'cpu')
    """
    rank, size, local = _launched()
    if size > shards or shards % size:
        raise UserError(
            f"{size} processes cannot share {shards} shard{'s' * (shards > 1)}: add --shards {_next_power(size)}, or "
            "any power of two that the number of processes divides"
        )
    if size > 1 and device in ("auto", "cuda") and torch.cuda.is_available():
        device = f"cuda:{local}"
    chosen, threads = select_device(device), torch.get_num_threads()
    if shards > 1 and chosen.type == "cpu":
        torch.set_num_threads(1)
    try:
        with _connected(rank, size, chosen):
            yield World(rank, size), chosen
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _connected(rank: int, size: int, device: torch.device) -> Iterator[None]:
    """A process group for the time of a run; one that exists already is used."""
    if size == 1 or dist.is_initialized():
        yield
        return
    _find_meeting_point()
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=float(os.environ.get("UPCL_TIMEOUT", TIMEOUT)))
    try:
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=timeout)
    except RuntimeError as error:
        World(rank, size)._lost(error)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _find_meeting_point() -> None:
    """Derive the address of the first process from Slurm's variables, unless a launcher gave it."""
    if "MASTER_ADDR" in os.environ:
        return
    nodes = os.environ.get("SLURM_STEP_NODELIST", "localhost")
    first = re.sub(r"\[([^\],-]+)[^\]]*\].*", r"\1", nodes).partition(",")[0]  # gpu[03-05,9],x -> gpu03
    numbers = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID")]
    place = sum(int(number) * by for number, by in zip(numbers, (1, 101), strict=True) if number.isdigit())
    os.environ["MASTER_ADDR"] = first
    os.environ.setdefault("MASTER_PORT", str(20_000 + place % 20_000))


def _next_power(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()
