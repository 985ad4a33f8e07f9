"""Downloads against a local server, and archives that mean harm."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from upcl import UserError, load_dataset
from upcl.data.io import download
from upcl.data.io.archives import unpack
from upcl.data.io.download import Remote, fetch, get

from .test_files_of_data import make_cifar, make_tiny


class Server(ThreadingHTTPServer):
    """Serves one body; can break off early, and remembers what was asked."""

    body = b""
    break_after: int | None = None
    ranges: list[str | None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if self.path.endswith("missing.zip"):
            self.send_error(404)
            return
        if start >= len(self.server.body):
            self.send_error(416)
            return
        rest = self.server.body[start:]
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest if self.server.break_after is None else rest[: self.server.break_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def tar_of(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    return buffer.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def cifar(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Remote:
    make_cifar(tmp_path / "made")
    server.body = tar_of(tmp_path / "made" / "cifar-100-python")
    remote = Remote(server.url("cifar-100-python.tar.gz"), md5(server.body), "cifar-100-python")
    monkeypatch.setitem(download.REMOTES, "cifar100", remote)
    return remote


@pytest.mark.usefixtures("cifar")
def test_a_data_set_is_downloaded_checked_and_unpacked_once(tmp_path: Path, server: Server) -> None:
    root = tmp_path / "root"
    assert get("cifar100", root) == root / "cifar-100-python"
    assert len(load_dataset("cifar100", root).train) == 12
    get("cifar100", root)
    assert len(server.ranges) == 1
    assert not list(root.glob("*.part")) + list(root.glob(".unpacking*"))


def test_a_broken_transfer_goes_on_where_it_stopped(tmp_path: Path, server: Server, cifar: Remote) -> None:
    server.break_after = 1000
    for _ in range(2):
        with pytest.raises(UserError, match="broke after"):
            fetch(cifar, tmp_path)
        assert not (tmp_path / cifar.archive).exists(), "a part is never taken for the whole"
    server.break_after = None
    assert fetch(cifar, tmp_path).read_bytes() == server.body
    assert server.ranges == [None, "bytes=1000-", "bytes=2000-"]


def test_a_wrong_checksum_is_thrown_away(tmp_path: Path, server: Server, cifar: Remote) -> None:
    wrong = Remote(cifar.url, "0" * 32, cifar.folder)
    with pytest.raises(UserError, match=r"md5 .* not 000"):
        fetch(wrong, tmp_path)
    assert list(tmp_path.glob("cifar*")) == []
    (tmp_path / f"{cifar.archive}.part").write_bytes(server.body)
    assert fetch(cifar, tmp_path).exists(), "a part that is whole needs nothing more"


def test_absent_addresses_and_full_disks_are_named(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"missing.zip could not be read: Not Found"):
        fetch(Remote(server.url("missing.zip"), "", ""), tmp_path)
    with pytest.raises(UserError, match="could not be read"):
        fetch(Remote("http://127.0.0.1:1/x.zip", "", ""), tmp_path)
    with pytest.raises(UserError, match="did you mean cifar100"):
        get("cifar1000", tmp_path)

    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "fetch", full)
    with pytest.raises(UserError, match=r"disk of .* is full"):
        get("cifar100", tmp_path)


def test_an_archive_in_the_root_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    make_tiny(tmp_path / "made")
    root = tmp_path / "root"
    root.mkdir()
    with zipfile.ZipFile(root / "tiny-imagenet-200.zip", "w") as archive:
        for path in sorted((tmp_path / "made").rglob("*")):
            archive.write(path, path.relative_to(tmp_path / "made"))
    assert len(load_dataset("tinyimagenet", root).train) == 9


def bad_tar(path: Path, member: tarfile.TarInfo, content: bytes = b"") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return path


def test_archives_that_mean_harm_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir()
    link = tarfile.TarInfo("x/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    cases = [
        (bad_tar(tmp_path / "up.tar.gz", tarfile.TarInfo("../escaped"), b"x"), "outside of its folder"),
        (bad_tar(tmp_path / "root.tar.gz", tarfile.TarInfo("/escaped"), b"x"), "outside of its folder"),
        (bad_tar(tmp_path / "link.tar.gz", link), "links or devices"),
        (bad_tar(tmp_path / "other.tar.gz", tarfile.TarInfo("y/a"), b"x"), "does not hold the folder x"),
    ]
    (tmp_path / "cut.tar.gz").write_bytes((tmp_path / "up.tar.gz").read_bytes()[:40])
    (tmp_path / "no.zip").write_bytes(b"no archive")
    cases += [(tmp_path / "cut.tar.gz", "is damaged"), (tmp_path / "no.zip", "is damaged")]
    with zipfile.ZipFile(tmp_path / "up.zip", "w") as archive:
        archive.writestr("../escaped", b"x")
    cases.append((tmp_path / "up.zip", "outside of its folder"))
    for path, message in cases:
        with pytest.raises(UserError, match=message):
            unpack(path, root, "x")
    monkeypatch.setattr("upcl.data.io.archives.MOST_BYTES", 3)
    with pytest.raises(UserError, match="unpacks to more than 3"):
        unpack(bad_tar(tmp_path / "big.tar.gz", tarfile.TarInfo("x/a"), b"12345"), root, "x")
    monkeypatch.setattr("upcl.data.io.archives.TAR_OVERHEAD", 0)
    with pytest.raises(
        UserError, match="unpacks to more than 3"
    ):  # said while the stream is read, before any header is
        unpack(tmp_path / "big.tar.gz", root, "x")
    assert [p.name for p in root.iterdir()] == [".x.lock"]
    assert not (tmp_path / "escaped").exists()


def test_a_flipped_bit_in_an_archive_is_found(tmp_path: Path) -> None:
    """tarfile takes a damaged header for the end of the archive; gzip's checksum at the end is what tells."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ("x/one", "x/two"):
            member = tarfile.TarInfo(name)
            member.size = 600
            tar.addfile(member, io.BytesIO(b"." * 600))
    whole = bytearray((tmp_path / "a.tar").read_bytes())
    compressed = gzip.compress(bytes(whole))
    whole[1536] ^= 1  # the second header
    damaged = gzip.compress(bytes(whole))[:-8] + compressed[-8:]
    (tmp_path / "a.tar.gz").write_bytes(damaged)
    with pytest.raises(UserError, match="is damaged"):
        unpack(tmp_path / "a.tar.gz", tmp_path, "x")
    assert not (tmp_path / "x").exists()
    (tmp_path / ".unpacking-x-killed").mkdir()
    (tmp_path / "a.tar.gz").write_bytes(compressed)
    assert {p.name for p in unpack(tmp_path / "a.tar.gz", tmp_path, "x").iterdir()} == {"one", "two"}
    assert not list(tmp_path.glob(".unpacking-*")), "what a kill left is cleaned up"
    assert unpack(tmp_path / "a.tar.gz", tmp_path, "x") == tmp_path / "x"  # as when another process was quicker


def test_imagenet_is_not_promised() -> None:
    with pytest.raises(UserError, match=r"not open to download: image-net\.org"):
        download.get("imagenet100", Path())


@pytest.mark.parametrize("name", download.REMOTES)
def test_official_addresses_are_whole(name: str) -> None:
    remote = download.REMOTES[name]
    assert remote.url.startswith("http")
    assert len(remote.md5) == 32
    assert remote.archive.endswith((".tar.gz", ".zip"))
