"""Changed and damaged copies of a model file."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
from PIL import Image
from torch import Tensor

DAMAGES = {  # what is wrong with the file, and what the error mentions
    "cut": "damaged",
    "flipped byte": "damaged",
    "foreign": "not a upcl model",
    "newer version": "upgrade upcl",
    "other format": "declares another format",
    "no manifest": r"no manifest\.json",
    "wrong label": "class that does not exist",
    "path as digest": "damaged",
    "changed weights": "does not match its digest",
    "huge images": "unexpected shape",
}


def rewrite(model: Path, path: Path, change_manifest: Callable[[Any], None]) -> Path:
    """A copy of a model with another manifest."""
    return _copy(model, path, lambda name, body: _changed(body, change_manifest) if name == "manifest.json" else body)


def rewrite_weights(model: Path, path: Path, change: Callable[[str, Tensor], Tensor]) -> Path:
    """A copy of a model with other weights of the same names, and digests that match them."""
    digests = {}

    def changed(name: str, body: bytes) -> bytes:
        if not name.startswith("weights/"):
            return body
        tensors = {key: change(key, value) for key, value in safetensors.torch.load(body).items()}
        content = safetensors.torch.save(tensors)
        digests[name.removeprefix("weights/").removesuffix(".safetensors")] = hashlib.sha256(content).hexdigest()
        return content

    def with_digests(manifest: Any) -> None:
        manifest["shared_sha256"] = digests.pop("shared")
        for number, digest in digests.items():
            manifest["states"][number]["weights_sha256"] = digest

    return rewrite(_copy(model, path.with_suffix(".tmp"), changed), path, with_digests)


def damage(model: Path, path: Path, kind: str) -> Path:
    """A copy of a model with one of `DAMAGES`."""
    content = model.read_bytes()
    middle = len(content) // 2
    raw = {
        "cut": content[:middle],
        "flipped byte": content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :],
        "foreign": b"GIF89a" + bytes(100),
    }
    if kind in raw:
        path.write_bytes(raw[kind])
        return path
    if kind in MANIFESTS:
        return rewrite(model, path, MANIFESTS[kind])

    def change(name: str, body: bytes) -> bytes | None:
        if kind == "no manifest" and name == "manifest.json":
            return None
        if kind == "changed weights" and name.startswith("weights/1"):
            return body[:-4] + b"\0\0\0\1"
        return _large_png() if kind == "huge images" and name.startswith("images/") else body

    return _copy(model, path, change)


def _copy(model: Path, path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if (body := change(name, old.read(name))) is not None:
                new.writestr(name, body)
    return path


def _changed(body: bytes, change: Callable[[Any], None]) -> bytes:
    manifest = json.loads(body)
    change(manifest)
    return json.dumps(manifest).encode()


def _set(*keys: Any) -> Callable[[Any], None]:
    """Sets the value at a path of keys to the last of them."""

    def change(manifest: Any) -> None:
        for key in keys[:-2]:
            manifest = manifest[key]
        manifest[keys[-2]] = keys[-1]

    return change


MANIFESTS = {
    "newer version": _set("version", 99),
    "other format": _set("format", "something"),
    "wrong label": _set("states", "1", "exemplars", "labels", 0, 77),
    "path as digest": _set("states", "1", "exemplars", "images", 0, "../../etc/passwd"),
}


@functools.cache
def _large_png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (3000, 3000)).save(buffer, "PNG")
    return buffer.getvalue()
