"""Pretrained weights, under the names and prefixes of torchvision and timm."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.nets import Backbone, make_backbone
from upcl.nets.pretrained import PRETRAINED, infer_backbone, load_pretrained, read_weights

STAGES = {"resnet18-7x7": (2, 2, 2, 2), "resnet34-7x7": (3, 4, 6, 3), "resnet50-7x7": (3, 4, 6, 3)}


def torchvision_weights(name: str) -> dict[str, Tensor]:
    """New weights of our backbone under torchvision's names, with a classifier and counters, as in its files."""
    backbone = make_backbone(name)
    ends = [sum(STAGES[name][: i + 1]) for i in range(4)]
    found = {}
    for key, value in backbone.state_dict().items():
        key = re.sub(r"^stem\.0\.0", "conv1", re.sub(r"^stem\.0\.1", "bn1", key))
        if block := re.match(r"blocks\.(\d+)\.", key):
            index = int(block[1])
            stage = next(i for i, end in enumerate(ends) if index < end)
            inside = index - (ends[stage - 1] if stage else 0)
            rest = key[block.end() :].replace("shortcut.", "downsample.")
            for word, number in (("first", 1), ("second", 2), ("third", 3)):
                rest = re.sub(rf"^{word}\.0", f"conv{number}", re.sub(rf"^{word}\.1", f"bn{number}", rest))
            key = f"layer{stage + 1}.{inside}.{rest}"
        found[key] = value + 0.01 * torch.rand_like(value) if value.is_floating_point() else value
        if re.search(r"layer.*bn[23]\.weight", key):  # features of trained networks do not explode
            found[key] = 0.1 * found[key]
    return {**found, "fc.weight": torch.randn(1000, backbone.dim), "fc.bias": torch.randn(1000)}


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("style", ["torchvision.pth", "timm.safetensors", "wrapped.pth"])
def test_weights_are_loaded_whatever_their_file(name: str, style: str, tmp_path: Path) -> None:
    weights, path = torchvision_weights(name), tmp_path / style
    if style.startswith("timm"):
        safetensors.torch.save_file(weights, path)
    else:
        wrapped = {f"module.{k}": v for k, v in weights.items()}
        torch.save({"state_dict": wrapped} if style.startswith("wrapped") else weights, path)
    read = read_weights(path)
    assert infer_backbone(read, path) == name
    backbone = make_backbone(name)
    assert isinstance(backbone, Backbone)
    load_pretrained(backbone, name, read, path)
    own = backbone.state_dict()
    assert torch.equal(own["stem.0.0.weight"], weights["conv1.weight"])
    last = "third" if "50" in name else "second"
    number = 3 if "50" in name else 2
    at, end = len(backbone.blocks) - 1, STAGES[name][3] - 1
    assert torch.equal(own[f"blocks.{at}.{last}.0.weight"], weights[f"layer4.{end}.conv{number}.weight"])
    assert torch.equal(own[f"blocks.{at}.{last}.1.running_var"], weights[f"layer4.{end}.bn{number}.running_var"])


def test_weights_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    weights, path = torchvision_weights("resnet18-7x7"), tmp_path / "w.pth"
    backbone = make_backbone("resnet18-7x7")
    with pytest.raises(UserError, match=r"1 tensors are missing, such as stem\.0\.0\.weight"):
        load_pretrained(backbone, "resnet18-7x7", {k: v for k, v in weights.items() if k != "conv1.weight"}, path)
    with pytest.raises(UserError, match=r"1 tensors are of another shape, such as stem\.0\.0\.weight"):
        load_pretrained(backbone, "resnet18-7x7", {**weights, "conv1.weight": torch.zeros(64, 1, 7, 7)}, path)
    with pytest.raises(UserError, match="1 tensors are unexpected, such as strange"):
        load_pretrained(backbone, "resnet18-7x7", {**weights, "strange": torch.zeros(1)}, path)
    with pytest.raises(UserError, match=r"1 tensors are of another type, such as stem\.0\.0\.weight"):
        load_pretrained(backbone, "resnet18-7x7", {**weights, "conv1.weight": weights["conv1.weight"].long()}, path)
    for value in (float("nan"), float("inf"), 1e300):  # the last is too large for the network
        spoiled = torch.full_like(weights["conv1.weight"], value, dtype=torch.float64)
        with pytest.raises(UserError, match=r"1 tensors are not finite, such as stem\.0\.0\.weight"):
            load_pretrained(backbone, "resnet18-7x7", {**weights, "conv1.weight": spoiled}, path)
    with pytest.raises(UserError, match=r"w\.pth fits none of resnet18-7x7, .*: its first names are x$"):
        infer_backbone({"x": torch.zeros(1)}, path)
    path.write_bytes(b"no weights")
    with pytest.raises(UserError, match="cannot read weights from"):
        read_weights(path)
    with pytest.raises(UserError, match="no such file"):
        read_weights(tmp_path / "missing.safetensors")


def test_a_state_dict_that_contains_itself_has_no_tensors(tmp_path: Path) -> None:
    endless: dict[str, Any] = {}
    endless["state_dict"] = endless
    torch.save(endless, tmp_path / "w.pth")
    with pytest.raises(UserError, match="contains no named tensors"):
        read_weights(tmp_path / "w.pth")
    torch.save({"state_dict": {"model": {"fc.bias": torch.zeros(2)}}}, tmp_path / "w.pth")
    assert list(read_weights(tmp_path / "w.pth")) == ["fc.bias"]


def test_deeply_nested_tuples_are_refused(tmp_path: Path) -> None:
    """Hashing them would overflow the stack and end the process."""
    deep = b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s."
    with zipfile.ZipFile(tmp_path / "w.pth", "w") as archive:
        archive.writestr("w/data.pkl", deep)
    (tmp_path / "legacy.pth").write_bytes(deep)
    for name in ("w.pth", "legacy.pth"):
        with pytest.raises(UserError, match="tuples are nested more than 100 deep"):
            read_weights(tmp_path / name)


def test_files_of_old_versions_of_torch_are_read(tmp_path: Path) -> None:
    torch.save({"fc.bias": torch.ones(2)}, tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    assert torch.equal(read_weights(tmp_path / "w.pth")["fc.bias"], torch.ones(2))


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of sparse and quantised tensors
@pytest.mark.parametrize(
    "strange",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.eye(2).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8),
        lambda: torch.empty(2, 2, device="meta"),
        lambda: torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)]),
    ],
    ids=["coo", "csr", "quantised", "meta", "nested"],
)
def test_tensors_that_are_not_plain_are_errors(strange: Callable[[], Tensor], tmp_path: Path) -> None:
    torch.save({"conv1.weight": strange()}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"conv1\.weight is sparse, quantised or without values"):
        read_weights(tmp_path / "w.pth")


@pytest.mark.parametrize("name", ["model." * 100_000 + "x", "layer1." + "9" * 5000 + ".conv1.weight", ("a", "b"), 5])
def test_names_are_short_texts(name: object, tmp_path: Path) -> None:
    torch.save({name: torch.zeros(1)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match="a tensor whose name is not text of at most 250 characters"):
        read_weights(tmp_path / "w.pth")


def test_a_small_file_that_unpacks_to_a_large_one_is_not_read(tmp_path: Path) -> None:
    torch.save({"x": torch.zeros(1_000_000)}, tmp_path / "w.pth")
    with (
        zipfile.ZipFile(tmp_path / "w.pth") as old,
        zipfile.ZipFile(tmp_path / "x.pth", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(UserError, match=r"cannot read weights from .*x\.pth: it unpacks to 4,0\d\d,\d\d\d bytes"):
        read_weights(tmp_path / "x.pth")


@pytest.mark.parametrize("name", PRETRAINED)
def test_weights_with_a_gap_are_still_recognised(name: str) -> None:
    weights = dict(list(make_backbone(name).state_dict().items())[3:])
    assert infer_backbone(weights, Path("w.pth")) == name
    with pytest.raises(UserError, match="tensors are missing"):
        load_pretrained(make_backbone(name), name, weights, Path("w.pth"))


@pytest.mark.parametrize(
    ("content", "message"), [([1, 2], "is not a state dict but a list"), ({"epoch": 3}, "contains no named tensors")]
)
def test_files_without_tensors_are_errors(content: object, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(UserError, match=message):
        read_weights(tmp_path / "w.pth")
