"""Hostile clients of the server: slow, many, huge, malformed and of other origins. Honest ones are still served."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .images import hostile_image
from .materials import make_model, write_photos
from .trial import MAX_MB, FailedTrialError, Result, Trial, Verdict, command, expect

ATTACKS_PER_TRIAL = 12
BOUNDARY = "attack"
SECONDS = 60.0
POST = b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def _server(folder: Path) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and process."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.chdir(folder)
            log = os.open("server.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            command("serve", "m.upcl", "--port", str(port))()
        finally:
            os._exit(1)
    try:
        _await_server(port, folder)
        yield port, pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _await_server(port: int, folder: Path) -> None:
    due = time.monotonic() + SECONDS
    while time.monotonic() < due:
        with contextlib.suppress(OSError):
            if b" 200 " in _exchange(port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"):
                return
        time.sleep(0.05)
    raise FailedTrialError(Verdict.HUNG, f"the server does not start: {(folder / 'server.log').read_text()[-2000:]}")


def _exchange(port: int, request: bytes, seconds: float = SECONDS) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def upload(images: list[bytes], headers: str = "Host: 127.0.0.1") -> bytes:
    """A request that classifies images."""
    body = b"".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="images"; filename="{number}.png"\r\n\r\n'.encode()
        + image
        + b"\r\n"
        for number, image in enumerate(images)
    )
    body += f"--{BOUNDARY}--\r\n".encode()
    head = (
        f"POST /api/predict HTTP/1.1\r\n{headers}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _status(answer: bytes) -> int:
    found = answer[9:12]
    return int(found) if found.isdigit() else 0


def _image(rng: random.Random, port: int, _: bytes) -> Verdict:
    status = _status(_exchange(port, upload([hostile_image(rng) for _ in range(rng.randint(1, 3))])))
    expect(status in (200, 400, 413, 422, 503), f"status {status}")
    return Verdict.RIGHT if status == 200 else Verdict.REFUSED


def _foreign(rng: random.Random, port: int, photo: bytes) -> Verdict:
    headers = rng.choice(
        [
            "Host: 127.0.0.1\r\nOrigin: http://evil.example",
            "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site",
            "Host: 127.0.0.1\r\nOrigin: null",
            f"Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1.evil.example:{port}",
            "Host: evil.com",
            "Host: evil.com:",
            "Host: ",
            "Host: 127.0.0.1@evil.com",
            "Host: localhost.evil.com",
            "X-Forwarded-Host: 127.0.0.1\r\nHost: evil.com",
        ]
    )
    status = _status(_exchange(port, upload([photo], headers)))
    expect(status in (400, 401, 403, 421), f"status {status} for {headers!r}")
    return Verdict.REFUSED


def _malformed(rng: random.Random, port: int, photo: bytes) -> Verdict:
    valid = upload([photo])
    head, _, body = valid.partition(b"\r\n\r\n")
    request = rng.choice(
        [
            *(b"\r\n\r\n", b"GET", b"GET / HTTP/9.9\r\n\r\n", rng.randbytes(2000), b"\x16\x03\x01" + bytes(100)),
            *(
                valid.replace(b"form-data", b"x"),
                valid.replace(b"boundary=attack", b"boundary="),
                valid[: len(valid) // 2],
            ),
            *(
                head.replace(b"Content-Length: ", b"Content-Length: -") + b"\r\n\r\n" + body,
                head + b"\r\n" + head + b"\r\n\r\n",
            ),
            *(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50_000 + b"\r\n"),
            *(
                POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                valid * 3,
            ),
            *(
                b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                b"PUT /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            ),
            valid.replace(
                b"/api/predict", b"/api/predict?top=" + rng.choice((b"0", b"-1", b"x", b"999999999999", b"%00"))
            ),
        ]
    )
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(request)
        answer = connection.recv(65536)
        expect(_status(answer) != 500, f"internal error for {request[:200]!r}")
        return Verdict.RIGHT if _status(answer) == 200 else Verdict.REFUSED
    return Verdict.REFUSED


def _huge(rng: random.Random, port: int, photo: bytes) -> Verdict:
    claimed = rng.choice((10**9, 10**18))
    head = POST + f"Content-Type: multipart/form-data; boundary=a\r\nContent-Length: {claimed}\r\n\r\n".encode()
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(head)
        for _ in range(64):
            connection.sendall(photo + bytes(1 << 20))
        expect(_status(connection.recv(65536)) in (400, 413), "a huge body is not refused")
    return Verdict.REFUSED


def _many(rng: random.Random, port: int, photo: bytes) -> Verdict:
    """Connections that send nothing, or half a request, while an honest client calls."""
    with contextlib.ExitStack() as stack:
        for _ in range(rng.choice((50, 150, 300))):
            with contextlib.suppress(OSError):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                connection.sendall(rng.choice((b"", b"GET / HT", POST)))
        _expect_honest_answer(port, photo)
    return Verdict.REFUSED


ATTACKS: list[Callable[[random.Random, int, bytes], Verdict]] = [_image, _foreign, _malformed, _huge, _many]


def _expect_honest_answer(port: int, photo: bytes) -> None:
    due = time.monotonic() + SECONDS
    answer = b""
    while time.monotonic() < due:
        with contextlib.suppress(OSError):
            answer = _exchange(port, upload([photo]), seconds=20)
            if _status(answer) == 200:
                break
        time.sleep(0.5)
    else:
        raise FailedTrialError(Verdict.HUNG, f"an honest client is not served: {answer[:300]!r}")
    (response,) = json.loads(answer.partition(b"\r\n\r\n")[2])
    expect(response["top"][0]["name"] == "kind 1", f"wrong answer: {response}")


def _serve(rng: random.Random, folder: Path) -> Result:
    write_photos(folder)
    shutil.copy(make_model("upcl"), folder / "m.upcl")
    photo = (folder / "first" / "kind 1" / "0.png").read_bytes()
    counts: Counter[Verdict] = Counter()
    with _server(folder) as (port, pid):
        for _ in range(ATTACKS_PER_TRIAL):
            counts[rng.choice(ATTACKS)(rng, port, photo)] += 1
        _expect_honest_answer(port, photo)
        expect(os.waitpid(pid, os.WNOHANG)[0] == 0, "the server has ended")
        peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        if (mb := int(peak.split()[1]) // 1024) > MAX_MB:
            raise FailedTrialError(Verdict.OVER_MEMORY, f"{mb} MB")
        log = (folder / "server.log").read_text(errors="replace")
        if "Traceback" in log:
            raise FailedTrialError(Verdict.CRASHED, log[-3000:])
    return counts


def trials() -> dict[str, Trial]:
    """The kind of this module."""
    return {"request": _serve}
