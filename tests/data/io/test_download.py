"""Downloads from a local server that can break off, and from addresses that do not exist."""

from __future__ import annotations

import errno
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.data.conftest import ProgressRecorder
from tests.data.files import make_cifar100, make_cub200
from tests.full_disk import files_up_to
from upcl.core.errors import UserError
from upcl.data import load_dataset
from upcl.data.io import download
from upcl.data.io.download import REMOTE_ARCHIVES, RemoteArchive, download_dataset, fetch_archive, find_dataset


class Server(ThreadingHTTPServer):
    """Serves one body, can break off early, and remembers the requested ranges."""

    body = b""
    break_after: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        requested = self.headers["Range"]
        self.server.ranges.append(requested)
        start = int(requested.removeprefix("bytes=").rstrip("-")) if requested else 0
        if self.path.endswith("missing.zip"):
            self.send_error(404)
            return
        if start >= len(self.server.body):
            self.send_error(416)
            return
        rest = self.server.body[start:]
        self.send_response(206 if requested else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest if self.server.break_after is None else rest[: self.server.break_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def running_server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def server(running_server: Server) -> Server:
    running_server.break_after = None
    running_server.ranges.clear()
    return running_server


@pytest.fixture
def remote(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> RemoteArchive:
    """A small CIFAR-100 on the local server."""
    folder = make_cifar100(tmp_path / "source")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder, folder.name)
    server.body = buffer.getvalue()
    md5 = hashlib.md5(server.body, usedforsecurity=False).hexdigest()
    remote = RemoteArchive("CIFAR-100", server.url("cifar-100-python.tar.gz"), md5, "cifar-100-python")
    monkeypatch.setitem(REMOTE_ARCHIVES, "cifar100", remote)
    return remote


@pytest.mark.usefixtures("remote")
def test_data_set_is_downloaded_verified_and_unpacked_once(tmp_path: Path, server: Server) -> None:
    root = tmp_path / "root"
    assert download_dataset("cifar100", root) == root / "cifar-100-python"
    assert len(load_dataset("cifar100", root).train) == 12
    download_dataset("cifar100", root)
    assert len(server.ranges) == 1
    assert not list(root.glob("*.part")) + list(root.glob(".unpacking*"))


@pytest.mark.usefixtures("remote")
def test_archive_in_the_data_root_is_unpacked(tmp_path: Path, server: Server) -> None:
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(server.body)
    assert find_dataset("cifar100", tmp_path) == tmp_path / "cifar-100-python"
    assert len(load_dataset("cifar100", tmp_path).train) == 12 and not server.ranges


def test_interrupted_transfer_is_resumed(tmp_path: Path, server: Server, remote: RemoteArchive) -> None:
    server.break_after = 1000
    for _ in range(2):
        with pytest.raises(UserError, match=r"failed: connection lost after .*rerun the command to resume"):
            fetch_archive(remote, tmp_path)
        assert not (tmp_path / remote.filename).exists(), "a part is never mistaken for the archive"
    server.break_after = None
    assert fetch_archive(remote, tmp_path).read_bytes() == server.body
    assert server.ranges == [None, "bytes=1000-", "bytes=2000-"]


def test_progress_counts_bytes_and_continues_after_an_interruption(
    tmp_path: Path, server: Server, remote: RemoteArchive, progress: ProgressRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "CHUNK_BYTES", 400)
    server.break_after = 1000
    with pytest.raises(UserError):
        fetch_archive(remote, tmp_path)
    server.break_after = None
    fetch_archive(remote, tmp_path)
    broken, resumed = progress.work
    assert broken.description == resumed.description == "downloading cifar-100-python.tar.gz"
    assert broken.total == resumed.total == len(server.body) and broken.unit == resumed.unit == "bytes"
    assert broken.amounts == [0, 400, 400, 200]
    assert resumed.amounts[0] == 1000 and resumed.completed == len(server.body)


def test_wrong_checksum_is_discarded(tmp_path: Path, remote: RemoteArchive) -> None:
    wrong = RemoteArchive("CIFAR-100", remote.url, "0" * 32, remote.folder)
    with pytest.raises(UserError, match=r"wrong md5 checksum, \w{32} instead of 0{32}: file discarded"):
        fetch_archive(wrong, tmp_path)
    assert list(tmp_path.glob("cifar*")) == []


def test_complete_part_needs_no_further_transfer(tmp_path: Path, server: Server, remote: RemoteArchive) -> None:
    (tmp_path / f"{remote.filename}.part").write_bytes(server.body)
    assert fetch_archive(remote, tmp_path).read_bytes() == server.body
    assert not list(tmp_path.glob("*.part"))


def test_verified_archive_is_not_downloaded_again(tmp_path: Path, server: Server, remote: RemoteArchive) -> None:
    (tmp_path / remote.filename).write_bytes(server.body)
    fetch_archive(remote, tmp_path)
    assert not server.ranges
    (tmp_path / remote.filename).write_bytes(b"damaged")
    assert fetch_archive(remote, tmp_path).read_bytes() == server.body


def test_unreachable_addresses_are_named(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UserError, match=r"missing\.zip failed: Not Found"):
        fetch_archive(RemoteArchive("", server.url("missing.zip"), "", ""), tmp_path)
    with pytest.raises(UserError, match=r"x\.zip failed: .*refused"):
        fetch_archive(RemoteArchive("", "http://127.0.0.1:1/x.zip", "", ""), tmp_path)


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "fetch_archive", full)
    with pytest.raises(UserError, match=r"disk of .* is full: free some space"):
        download_dataset("cifar100", tmp_path)


def test_full_disk_is_named_by_a_download(tmp_path: Path, remote: RemoteArchive) -> None:
    with pytest.raises(OSError, match="File too large") as caught, files_up_to(10):
        fetch_archive(remote, tmp_path)
    assert caught.value.filename == str(tmp_path / remote.filename)


def test_other_names_are_explained() -> None:
    with pytest.raises(UserError, match="did you mean cifar100"):
        download_dataset("cifar1000", Path())
    with pytest.raises(UserError, match=r"imagenet100 cannot be downloaded automatically: .*image-net\.org"):
        download_dataset("imagenet100", Path())
    with pytest.raises(UserError, match=r"stanfordcars cannot be downloaded .*put cars_train/.*into stanford_cars/"):
        download_dataset("stanfordcars", Path())


def test_photos_are_downloaded_and_found(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUB-200-2011, whose archive holds a file beside the folder."""
    folder = make_cub200(tmp_path / "source")
    (tmp_path / "source" / "attributes.txt").write_text("1 has_bill_shape::curved")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path in (tmp_path / "source" / "attributes.txt", folder):
            tar.add(path, path.name)
    server.body = buffer.getvalue()
    md5 = hashlib.md5(server.body, usedforsecurity=False).hexdigest()
    official = REMOTE_ARCHIVES["cub200"]
    local = RemoteArchive(official.title, server.url(official.filename), md5, official.folder)
    monkeypatch.setitem(REMOTE_ARCHIVES, "cub200", local)
    root = tmp_path / "root"
    assert download_dataset("cub200", root) == root / "CUB_200_2011"
    assert len(load_dataset("cub200", root).train) == 4
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == ["CUB_200_2011"]
    monkeypatch.setitem(REMOTE_ARCHIVES, "cub200", RemoteArchive(local.title, local.url, official.md5, local.folder))
    with pytest.raises(UserError, match="wrong md5 checksum"):
        download_dataset("cub200", tmp_path / "other")


@pytest.mark.parametrize("name", REMOTE_ARCHIVES)
def test_official_addresses_are_complete(name: str) -> None:
    remote = REMOTE_ARCHIVES[name]
    assert remote.url.startswith("http") and remote.filename.endswith((".tar.gz", ".tgz", ".tar", ".zip"))
    assert len(bytes.fromhex(remote.md5)) == 16
