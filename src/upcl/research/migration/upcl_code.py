"""The UPCL paper's own code, which is made from PyCIL: what its models read (revision 3766b32)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import pycil
from .program import CIFAR_AND_IMAGENET, STEPS, Backbone, BuiltIn, Model, Program, Source

_SHARED = ("finetune", "lwf", "wa", "replay", "foster", "memo")
_SELECTION = "the program looks at the test accuracy of every fifth epoch, --protocol paper at that of every epoch"
_SUPPLIED = {key: value for key, value in pycil.MODELS["icarl"].constants.items() if key != "batch_size"}
_WEIGHT = BuiltIn(here=1, default=0.5, meaning="factor on the distillation")
_KIND = BuiltIn(here="fkd", default="rkd", meaning="distillation of features")


def margin_of(strength: float, new: float = 0.1) -> dict[str, Any]:
    """The options that `dyn_margin_tro`, or `adj_margin_tro`, stands for.

    Args:
        strength: its value: above 0 a factor on the log prior, below 0 a margin of old classes.
        new: the margin of new classes in the latter case.

    Example:
        >>> margin_of(1.0), margin_of(0)
        ({'margin': 'prior', 'prior_strength': 1.0}, {'margin': 'none'})
    """
    if strength == 0:
        return {"margin": "none"}
    if strength > 0:
        return {"margin": "prior", "prior_strength": strength}
    return {"margin": "columns", "margin_old": -strength, "margin_size": new}


MODELS: Mapping[str, Model] = {
    **{name: pycil.MODELS[name] for name in _SHARED},
    "icarl": dataclasses.replace(pycil.MODELS["icarl"], constants=_SUPPLIED),
    "nccil": Model(
        title="NCCIL",
        file="models/nccil.py",
        method="nccil",
        settings={**STEPS, "with_ftc": "flight", "with_fhtc": "*"},
        convert={
            "with_ftc": lambda moves: "full" if moves else "off",
            "with_fhtc": lambda half: {"flight": "half"} if half else {},
        },
        built_in={
            "kd_labmda": BuiltIn(here=5, default=5, meaning="weight of the distillation"),
            "with_etfhead": BuiltIn(here=True, default=True, meaning="corners of a simplex"),
            "max_nb_classes": BuiltIn(here=100, default=100, meaning="number of corners; here the number of classes"),
        },
        notes=("the first new class of every task has a zero centroid there",),
    ),
    "upcl": Model(
        title="UPCL",
        file="models/upcl.py",
        method="upcl",
        settings={**STEPS, "temperature": "tau", "dyn_margin_tro": "*", "feature_dim": "projector"},
        convert={"dyn_margin_tro": margin_of, "feature_dim": lambda dim: max(0, dim)},
        built_in={
            "kd_lambda": _WEIGHT,
            "kd_loss_type": _KIND,
            "use_norm_feature": BuiltIn(here=True, default=True, meaning="unit features"),
            "global_class_match": BuiltIn(here=False, default=False, meaning="only new classes are assigned"),
            "online_match": BuiltIn(here=True, default=True, meaning="L_proto starts late: --set proto_warmup=0"),
        },
        defaults={"batch_size": 128},
        unused={"kd_temperature": "belongs to the distillation of logits (kd_loss_type rkd)"},
        select="test",
        notes=(_SELECTION,),
    ),
    "cosinebaseline": Model(
        title="Cosine baseline",
        file="models/upcl.py",
        method="cos",
        settings={**STEPS, "adj_margin_tro": "*", "adj_margin": "*"},  # in this order: the second overrides the first
        convert={
            "adj_margin_tro": partial(margin_of, new=2.0),
            "adj_margin": lambda margin: {} if margin else {"margin": "none"},
        },
        defaults={"batch_size": 32, "adj_margin_tro": 1.0, "adj_margin": False},
        select="test",
        notes=(_SELECTION, "the head's new rows are zero there, and the teacher's features are not normalised"),
    ),
}
"""The models of the UPCL paper's code."""


def find_backbone(content: Mapping[str, Any], model: Model) -> Backbone:
    """The network that the latest revision builds for a file: its ResNets have a 7x7 stem for every data set.

    Args:
        content: the file.
        model: its model.

    Example:
        >>> find_backbone({"convnet_type": "resnet18", "dataset": "cifar100"}, MODELS["upcl"]).name
        'resnet18-7x7'
    """
    name = str(content.get("convnet_type", "")).lower()
    if name not in ("resnet18", "resnet34", "resnet50"):
        return pycil.find_backbone(content, model)
    earlier = pycil.find_backbone(content, model)
    remark = ""
    if earlier.name == "resnet18":
        remark = "the first three revisions have a 3x3 stem for CIFAR: --backbone resnet18"
    elif not earlier.same:
        remark = "the first three revisions have a 3x3 stem for unequal tasks"
    return Backbone(f"{name}-7x7", remark)


UPCL_CODE = Program(
    name="upcl",
    title="UPCL's code",
    models=MODELS,
    sources={
        **CIFAR_AND_IMAGENET,
        "tinyimagenet": Source(
            names=("tinyimagenet",), num_classes=200, remark="random resized crops of 64 pixels there"
        ),
        "food101": Source(names=("food101",), folder="data/food-101/images", num_classes=101),
        "cub200": Source(names=("cub200",), folder="data/CUB200-2011/images", num_classes=200),
        "stanfordcars": Source(names=("stanfordcars",), folder="data/StanfordCars", num_classes=196),
    },
    backbone_key="convnet_type",
    backbone=find_backbone,
    torch_seed=1,
    marks=frozenset(
        {"lt", "lt_imb_factor", "imb_factor", "max_nb_classes", "kd_loss_type", "dyn_margin_tro", "save_test"}
    ),
    general={
        "save_test": "writes features to a .pth file there",
        "debug": "two epochs on 1,024 images there: --epochs 2 and a data set such as cifar100:train=10",
    },
    notes=("an exception is logged there, and the program ends with exit code 0",),
)
"""The UPCL paper's own code."""
