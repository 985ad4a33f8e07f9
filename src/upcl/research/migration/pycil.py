"""PyCIL: what its models read, and what they set themselves (revision f3509b8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .program import (
    CIFAR_AND_IMAGENET,
    COSINE,
    STEPS,
    WORKERS,
    Backbone,
    BuiltIn,
    Model,
    Program,
    Source,
    step_constants,
)
from .pycil_others import OTHER_MODELS

ONE_RECIPE = {
    "epochs": "recipe.epochs",
    "lrate": "recipe.lr",
    "milestones": "recipe.milestones",
    "lrate_decay": "recipe.gamma",
    "weight_decay": "recipe.weight_decay",
    "batch_size": "recipe.batch_size",
}
"""Keys of a schedule that is the same in every task."""

WITHOUT_LAST_RELU = ("coil", "lucir", "podnet")  # methods here whose features are signed, as those of cosine_resnet are
AUTO_AUGMENT = "AutoAugment and Cutout, which are not here: --set recipe.augment=trivial is nearest"


MODELS: Mapping[str, Model] = {
    "finetune": Model(
        title="Finetune",
        file="models/finetune.py",
        method="finetune",
        settings=STEPS,
        constants=step_constants(80, (40, 70)),
        memory="none",
    ),
    "replay": Model(
        title="Replay",
        file="models/replay.py",
        method="replay",
        settings=STEPS,
        constants=step_constants(70, (30, 50)),
    ),
    "ewc": Model(
        title="EWC",
        file="models/ewc.py",
        method="ewc",
        settings={**STEPS, "lamda": "strength", "fishermax": "max_fisher"},
        constants={**step_constants(180, (70, 120, 150)), "lamda": 1000, "fishermax": 1e-4},
        implied={"fisher": "empirical"},
        memory="none",
        notes=(
            "Fisher information: PyCIL squares the mean gradient of each batch and averages over tasks by their "
            "numbers of classes; here the gradients of single images (`num_images`) are squared, and tasks add up",
        ),
    ),
    "lwf": Model(
        title="LwF",
        file="models/lwf.py",
        method="lwf",
        settings={**STEPS, "T": "temperature", "lamda": "strength"},
        constants={**step_constants(250, (60, 120, 180, 220), (60, 120, 160)), "T": 2, "lamda": 3},
        memory="none",
    ),
    "icarl": Model(
        title="iCaRL",
        file="models/icarl.py",
        method="icarl",
        settings={**STEPS, "T": "temperature"},
        constants={**step_constants(170, (80, 120)), "T": 2},
    ),
    "wa": Model(
        title="WA",
        file="models/wa.py",
        method="wa",
        settings={**STEPS, "T": "temperature"},
        constants={**step_constants(170, (60, 100, 140)), "T": 2},
    ),
    "bic": Model(
        title="BiC",
        file="models/bic.py",
        method="bic",
        settings={**ONE_RECIPE, "T": "temperature", "split_ratio": "held_out"},
        constants={"epochs": 170, "lrate": 0.1, "milestones": (60, 100, 140), "lrate_decay": 0.1, "weight_decay": 2e-4}
        | {"batch_size": 128, "T": 2, "split_ratio": 0.1},
        implied={"penalty": 0, "corrections": "all"},
        notes=(
            "second stage: PyCIL applies the softmax twice and keeps batch norms in training mode; here once, and the "
            "network is frozen",
        ),
    ),
    "coil": Model(
        title="Coil",
        file="models/coil.py",
        method="coil",
        settings={**ONE_RECIPE, "T": "temperature", "sinkhorn": "regularisation", "reg_term": "back_weight"},
        constants={"epochs": 160, "lrate": 0.1, "milestones": (80, 120), "lrate_decay": 0.1, "weight_decay": 5e-4}
        | {"batch_size": 128, "T": 2},
        implied={"ahead_weight": 1e-3, "refresh": 30},
        built_in={"norm_term": BuiltIn(here=3, default=3, meaning="norm of the transport costs")},
        unused={"calibration_term": "replaced by a ratio of norms before its first use"},
        memory="2000",
        notes=(
            "PyCIL computes class means for the transport from all training images of old classes, and those of the "
            "next task; here from exemplars and images of the present task",
        ),
    ),
    "der": Model(
        title="DER",
        file="models/der.py",
        method="der",
        settings=STEPS,
        constants=step_constants(170, (80, 120, 150)),
        implied={"head_share": 0},
        notes=("PyCIL aligns the head's weights after every task, as WA does; that is not an option here",),
    ),
    "foster": Model(
        title="FOSTER",
        file="models/foster.py",
        method="foster",
        nearest=("der",),
        why="it boosts one further network per task and compresses the two, DER keeps all",
        settings={
            **{key: value for key, value in COSINE.items() if key != "epochs"},
            "boosting_epochs": "later.epochs",
            "compression_epochs": "compression_share",
            "T": "temperature",
            "beta1": "align_beta",
            "beta2": "balance_beta",
            "lambda_okd": "strength",
        },
        relative={"compression_epochs": "boosting_epochs"},
        implied={"recipe.schedule": "cosine"},
        built_in={
            "oofc": BuiltIn(here="ft", default="ft", meaning="the whole head is trained"),
            "is_teacher_wa": BuiltIn(here=False, default=False, meaning="the larger network is not aligned"),
            "is_student_wa": BuiltIn(here=False, default=False, meaning="the compressed network is not aligned"),
        },
        absent={"num_workers": WORKERS, "wa_value": "strength of the alignment of weights, which is always off here"},
    ),
    "memo": Model(
        title="MEMO",
        file="models/memo.py",
        method="memo",
        nearest=("der",),
        why="it adds the last blocks of the network with every task, DER a whole network",
        settings={**STEPS, "scheduler": "recipe.schedule", "alpha_aux": "auxiliary", "train_base": "train_shared"},
        convert={"scheduler": lambda name: {"steplr": "step"}.get(name, name)},
        built_in={
            "skip": BuiltIn(here=False, default=False, meaning="the first task is trained"),
            "train_adaptive": BuiltIn(here=False, default=False, meaning="older branches stay as they are"),
        },
        absent={"t_max": "the cosine here ends with the task"},
    ),
    "pass": Model(
        title="PASS",
        file="models/pa2s.py",
        method="pass",
        nearest=("fetril", "lwf"),
        why="it trains on rotations and noisy prototypes; FeTrIL too keeps means only, with a frozen backbone",
        settings={
            "epochs": "recipe.epochs",
            "batch_size": "recipe.batch_size",
            "temp": "temperature",
            "lambda_fkd": "kd",
            "lambda_proto": "prototypes",
        },
        absent={
            "lr": "Adam's learning rate there; recipes here are for SGD",
            "weight_decay": "Adam's, which adds it to the gradient",
            "step_size": "epochs between two steps of the rate: use --set recipe.milestones",
            "gamma": "factor of the steps of the rate: use --set recipe.gamma",
            "num_workers": WORKERS,
        },
        memory="none",
    ),
    "podnet": Model(
        title="PODNet",
        file="models/podnet.py",
        method="podnet",
        nearest=("lucir",),
        why="it distils maps of all stages, LUCIR final features only",
        settings={
            **ONE_RECIPE,
            "ft_epochs": "tuning_share",
            "ft_lrate": "tuning_rate",
            "lambda_c_base": "spatial",
            "lambda_f_base": "flat",
            "nb_proxy": "proxies",
        },
        relative={"ft_epochs": "epochs", "ft_lrate": "lrate"},
        constants={"epochs": 160, "lrate": 0.1, "batch_size": 128, "weight_decay": 5e-4, "ft_epochs": 20}
        | {"ft_lrate": 0.005, "lambda_c_base": 5, "lambda_f_base": 1, "nb_proxy": 10},
        implied={"recipe.schedule": "cosine"},
    ),
    "tagfex": Model(
        title="TagFex",
        file="models/tagfex.py",
        method="tagfex",
        nearest=("der",),
        why="it adds a network that learns by contrast, without labels, to DER",
        settings={
            **STEPS,
            "infonce_temp": "contrast_tau",
            "kd_temp": "temperature",
            "aux_factor": "auxiliary",
            "contrast_factor": "contrast",
            "contrast_kd_factor": "contrast_kd",
            "trans_cls_factor": "transfer",
            "transfer_factor": "transfer_kd",
            "attn_num_heads": "num_heads",
            "proj_hidden_dim": "hidden",
            "proj_output_dim": "projected",
            "init_interpolation_factor": "agnostic_share",
        },
        convert={"init_interpolation_factor": lambda share: round(1 - share, 9)},
        absent={"infonce_kd_temp": "both contrasts have the temperature of infonce_temp"},
        constants=step_constants(170, (80, 120, 150)),
    ),
    "fetril": Model(
        title="FeTrIL",
        file="models/fetril.py",
        method="fetril",
        settings=COSINE,
        implied={"recipe.schedule": "cosine"},
        absent={"num_workers": WORKERS},
        memory="none",
        notes=(f"PyCIL trains with the augmentation of CIFAR, whatever the data, and with {AUTO_AUGMENT}",),
    ),
    **OTHER_MODELS,
}
"""The models of PyCIL."""


def find_backbone(content: Mapping[str, Any], model: Model) -> Backbone:
    """The network that PyCIL builds for a file.

    Args:
        content: the file.
        model: its model.

    Example:
        >>> find_backbone({"convnet_type": "resnet18", "dataset": "cifar100"}, MODELS["icarl"]).name
        'resnet18'
    """
    name = str(content.get("convnet_type", "")).lower()
    plain = name.removeprefix("cosine_").removeprefix("memo_")
    signed = name.startswith("cosine_") and model.method not in WITHOUT_LAST_RELU
    relu = "without its last ReLU, which this method keeps here" if signed else ""
    if plain == "resnet32":
        return Backbone("resnet32", relu, same=not signed)
    if plain not in ("resnet18", "resnet34", "resnet50"):
        return Backbone("resnet18", f"{name or 'no network'} is not among the backbones here; nearest", same=False)
    seven = Backbone(f"{plain}-7x7", relu, same=not signed)
    if "cifar" in str(content.get("dataset")):
        if model.title == "MEMO":  # as MEMO's own code does
            return seven
        remark = "" if plain == "resnet18" else f"{plain} with a 3x3 stem is not here; nearest"
        return Backbone("resnet18", relu or remark, same=not (relu or remark))
    if content.get("init_cls") == content.get("increment"):
        return seven
    return Backbone(seven.name, "unequal tasks get a 3x3 stem there: not the same", same=False)


PYCIL = Program(
    name="pycil",
    title="PyCIL",
    models=MODELS,
    sources={
        **CIFAR_AND_IMAGENET,
        "cifar10_aa": Source(names=("cifar10",), num_classes=10, remark=AUTO_AUGMENT),
        "cifar100_aa": Source(names=("cifar100",), num_classes=100, remark=AUTO_AUGMENT),
    },
    backbone_key="convnet_type",
    backbone=find_backbone,
    torch_seed=1,
    general={"aug": "number of views of each image, for TagFex"},
)
"""PyCIL."""
