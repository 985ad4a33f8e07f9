"""Weights from a server that answers as Hugging Face's hub does."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors.torch
import torch
from PIL import Image

from tests.nets.test_pretrained import torchvision_weights
from upcl.core.errors import UserError
from upcl.model.learner import Learner
from upcl.nets import make_backbone
from upcl.training.hub import hub_preprocessing, hub_weights, is_downloaded
from upcl.training.pretrained import find_pretrained, load_backbone, weights_file

CONFIG = {"architecture": "any", "pretrained_cfg": {"mean": [0.1] * 3, "std": [0.3] * 3, "input_size": [3, 96, 96]}}


class Hub(BaseHTTPRequestHandler):
    files: dict[str, bytes] = {}  # noqa: RUF012  # by path
    requests: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        type(self).requests.append(self.path)
        content = self.files.get(self.path)
        self.send_response(401 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}/")
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    Hub.files, Hub.requests = {}, []
    yield Hub
    server.shutdown()
    server.server_close()


def publish(hub: type[Hub], repository: str, weights: dict[str, Any], name: str = "model.safetensors") -> None:
    content = safetensors.torch.save(weights)
    entry = {"rfilename": name, "size": len(content), "lfs": {"sha256": hashlib.sha256(content).hexdigest()}}
    siblings = [{"rfilename": "README.md", "size": 3}, entry]
    hub.files[f"/api/models/{repository}?blobs=true"] = json.dumps({"sha": "abc", "siblings": siblings}).encode()
    hub.files[f"/{repository}/resolve/abc/{name}"] = content
    hub.files[f"/{repository}/resolve/main/config.json"] = json.dumps(CONFIG).encode()


def test_weights_on_the_hub_become_a_backbone_with_its_own_preprocessing(hub: type[Hub]) -> None:
    weights = torchvision_weights("resnet18-7x7")
    publish(hub, "someone/resnet", weights)
    found = find_pretrained("hf:someone/resnet")
    assert (found.architecture, found.size, found.mean, found.std) == ("resnet18-7x7", 96, (0.1,) * 3, (0.3,) * 3)
    assert found.installed and is_downloaded("someone/resnet")
    stored = load_backbone("hf:someone/resnet").state_dict()["stem.0.0.weight"]
    assert torch.equal(stored, weights["conv1.weight"])
    num = len(hub.requests)
    hub.files = {}
    assert weights_file("hf:someone/resnet").is_file() and hub_preprocessing("someone/resnet")["size"] == 96
    assert len(hub.requests) == num, "once downloaded, no network is needed"


def test_a_changed_file_is_refused(hub: type[Hub]) -> None:
    publish(hub, "someone/resnet", {"x": torch.zeros(1)})
    hub.files["/someone/resnet/resolve/abc/model.safetensors"] = b"other"
    with pytest.raises(UserError, match="wrong sha256 checksum"):
        hub_weights("someone/resnet")
    assert not is_downloaded("someone/resnet")


def test_what_is_missing_is_named(hub: type[Hub]) -> None:
    with pytest.raises(UserError, match=r"hf:a/b: .* answered 401 .*: there is no such public repository"):
        hub_weights("a/b")
    publish(hub, "a/b", {"x": torch.zeros(1)}, name="tf_model.h5")
    with pytest.raises(UserError, match=r"hf:a/b contains neither model\.safetensors nor pytorch_model\.bin"):
        hub_weights("a/b")
    publish(hub, "a/c", {"x": torch.zeros(1)})
    with pytest.raises(UserError, match=r"fits none of resnet18-7x7"):
        find_pretrained("hf:a/c")
    hub.files["/api/models/a/d?blobs=true"] = b"<html>"
    with pytest.raises(UserError, match="did not answer with JSON"):
        hub_weights("a/d")


def test_a_server_that_cannot_be_reached_is_named(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"downloading http://127.0.0.1:9/api/models/a/b.* failed: .*refused"):
        hub_weights("a/b")


@pytest.mark.parametrize("name", ["resnet18", "../x", "a/../b", "a/b/c", "a/.."])
def test_names_that_are_no_repository_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="is not a repository of Hugging Face"):
        hub_weights(name)


def test_weights_of_timm_come_from_the_hub(hub: type[Hub], timm: ModuleType) -> None:
    reference = timm.create_model("test_resnet", num_classes=10)
    publish(hub, "timm/test_resnet.r160_in1k", reference.state_dict())
    found = find_pretrained("timm:test_resnet")
    assert (found.size, found.mean, found.licence) == (160, (0.5,) * 3, "apache-2.0") and not found.installed
    stored = load_backbone("timm:test_resnet").state_dict()
    assert torch.equal(stored["net.conv1.0.weight"], reference.state_dict()["conv1.0.weight"])
    assert found.installed and stored.keys() == make_backbone("timm:test_resnet").state_dict().keys()


def test_photos_are_learned_with_a_network_of_timm(hub: type[Hub], timm: ModuleType, tmp_path: Path) -> None:
    publish(hub, "timm/test_resnet.r160_in1k", timm.create_model("test_resnet", num_classes=10).state_dict())
    for name, colour in (("red", (200, 30, 30)), ("blue", (30, 30, 200))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(5):
            Image.new("RGB", (64 + k, 64), colour).save(tmp_path / "photos" / name / f"{k}.png")
    learner = Learner(tmp_path / "model.upcl").learn(tmp_path / "photos", backbone="timm:test_resnet")
    spec = learner.require_bundle().spec
    assert (spec.backbone, spec.size, spec.mean, spec.features) == ("timm:test_resnet", 160, (0.5,) * 3, True)
    hub.files = {}  # the file holds the network
    loaded = Learner(tmp_path / "model.upcl")
    (found,) = loaded.predictor.predict_files([tmp_path / "photos" / "blue" / "0.png"])
    assert found.prediction and found.prediction.names[0] == "blue"


def test_networks_of_timm_without_weights_are_refused(timm: ModuleType) -> None:
    with pytest.raises(UserError, match=r"unknown network of timm 'resnet188': did you mean"):
        find_pretrained("timm:resnet188")
    bare = next(name for name in timm.list_models() if not timm.get_pretrained_cfg(name).hf_hub_id)
    with pytest.raises(UserError, match=f"timm has no pretrained weights for {bare}"):
        find_pretrained(f"timm:{bare}")
