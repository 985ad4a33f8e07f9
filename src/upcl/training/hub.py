"""Weights from Hugging Face's hub, verified by the checksums that it publishes."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError
from upcl.core.files import write_atomic
from upcl.data.io.download import TIMEOUT_SECONDS, fetch_file
from upcl.data.io.paths import cache_root

WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # in this order


def hub_weights(repository: str) -> Path:
    """Download the weights of a repository and verify their checksum. Once they are there, no network is needed.

    The environment variable `HF_ENDPOINT` names another server, such as a mirror.

    Args:
        repository: `OWNER/NAME`.

    Raises:
        UserError: if there is no such repository, it has no weights, or the transfer failed.

    Example:
        >>> hub_weights("timm/resnet18.a1_in1k").name  # doctest: +SKIP
        'model.safetensors'
        >>> hub_weights("resnet18")
        Traceback (most recent call last):
        upcl.core.errors.UserError: 'resnet18' is not a repository of Hugging Face: expected OWNER/NAME
    """
    known = _folder(repository) / "weights.json"
    if not known.is_file():
        found = _read_json(f"{_endpoint()}/api/models/{repository}?blobs=true", repository)
        files = {entry["rfilename"]: entry.get("lfs") or {} for entry in found.get("siblings", [])}
        name = next((name for name in WEIGHTS if "sha256" in files.get(name, {})), None)
        if name is None:
            raise UserError(f"hf:{repository} contains neither {' nor '.join(WEIGHTS)}")
        content = {"file": name, "sha256": files[name]["sha256"], "revision": found.get("sha", "main")}
        known.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(known, json.dumps(content).encode())
    entry = json.loads(known.read_text())
    url = f"{_endpoint()}/{repository}/resolve/{entry['revision']}/{entry['file']}"
    return fetch_file(url, known.parent / entry["file"], "sha256", entry["sha256"])


def hub_preprocessing(repository: str) -> dict[str, Any]:
    """What the weights of a repository expect of images, as timm's repositories describe it in their `config.json`.

    Args:
        repository: `OWNER/NAME`.

    Returns:
        `size`, `mean` and `std`, as far as they are given.

    Raises:
        UserError: if the file cannot be downloaded.

    Example:
        >>> hub_preprocessing("timm/resnet18.a1_in1k")["size"]  # doctest: +SKIP
        224
    """
    path = _folder(repository) / "config.json"
    if not path.is_file():
        content = _read_json(f"{_endpoint()}/{repository}/resolve/main/config.json", repository)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(content).encode())
    described = json.loads(path.read_text()).get("pretrained_cfg", {})
    found: dict[str, Any] = {name: tuple(described[name]) for name in ("mean", "std") if name in described}
    return found | ({"size": described["input_size"][-1]} if "input_size" in described else {})


def is_downloaded(repository: str) -> bool:
    """Whether the weights of a repository are on this machine.

    Args:
        repository: `OWNER/NAME`.

    Example:
        >>> is_downloaded("nobody/nothing")
        False
    """
    return any((_folder(repository) / name).is_file() for name in WEIGHTS)


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _folder(repository: str) -> Path:
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", repository):
        raise UserError(f"'{repository}' is not a repository of Hugging Face: expected OWNER/NAME")
    return cache_root() / "weights" / repository.replace("/", "--")


def _read_json(url: str, repository: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            content = json.loads(response.read())
    except urllib.error.HTTPError as error:
        hint = ": there is no such public repository" if error.code in (401, 404) else ""
        raise UserError(f"hf:{repository}: {url} answered {error.code} {error.reason}{hint}") from None
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise UserError(f"downloading {url} failed: {getattr(error, 'reason', error)}") from None
    except ValueError:
        raise UserError(f"{url} did not answer with JSON") from None
    return content if isinstance(content, dict) else {}
