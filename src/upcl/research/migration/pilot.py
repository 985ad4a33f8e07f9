"""PILOT (LAMDA-PILOT): what its models read (revision 5240714). Nearly all of them tune a pretrained transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .program import CIFAR_AND_IMAGENET, Backbone, BuiltIn, Model, Program, Source

_SESSION = "tuned_epoch init_lr batch_size weight_decay min_lr optimizer"
_PROMPTS = (
    f"{_SESSION} scheduler reinit_optimizer init_milestones init_lr_decay freeze pretrained drop drop_path "
    "get_original_backbone prompt_pool size length top_k prompt_key prompt_key_init use_prompt_mask shared_prompt_pool "
    "shared_prompt_key batchwise_prompt embedding_key pull_constraint pull_constraint_coeff head_type"
)
_STEPS = (
    "init_epoch init_lr init_milestones init_lr_decay init_weight_decay epochs lrate milestones lrate_decay batch_size "
    "weight_decay"
)
_CALIBRATED = "epochs lrate lrate_decay milestones batch_size weight_decay ca_epochs ca_with_logit_norm bcb_lrscale"
_TUNED = "PILOT trains the whole pretrained transformer; `upcl train` keeps a pretrained backbone frozen"
_GROWN = "it adds a transformer, or blocks of one, with every task; `upcl train` keeps a pretrained backbone frozen"
_PROMPTED = "it learns prompts for a frozen transformer; RanPAC keeps the transformer frozen too, without prompts"
_ADAPTED = "PILOT tunes {} in the first task; the backbone here stays as it is"
_VPT = "it stops if backbone_type has no 'vpt' in its name, as in exps/aper_vpt_shallow_inr.json"
VIT_FEATURES = 768


def _adapted(title: str, file: str, what: str, *notes: str) -> Model:
    why = _ADAPTED.format(what)
    return Model(title=title, file=file, nearest=("ncm",), why=why, reads=_SESSION, memory="none", notes=notes)


MODELS: Mapping[str, Model] = {
    "simplecil": Model(
        title="SimpleCIL",
        file="models/simplecil.py",
        method="ncm",
        constants={"batch_size": 128},
        memory="none",
        notes=("means are those of features there, those of unit features here",),
    ),
    "ranpac": Model(
        title="RanPAC",
        file="models/ranpac.py",
        method="ranpac",
        settings={"M": "expansion"},
        convert={"M": lambda num: max(1, round(num / VIT_FEATURES))},
        built_in={"use_RP": BuiltIn(here=True, default=True, meaning="a random projection")},
        absent={key: _ADAPTED.format("adapters") for key in _SESSION.split()},
        memory="none",
        notes=(
            f"{_ADAPTED.format('adapters')}: accuracies will be lower",
            f"expansion is a whole number of times the {VIT_FEATURES} features; features are scaled to unit length",
        ),
    ),
    "aper_finetune": _adapted("APER (finetuned)", "models/aper_finetune.py", "the transformer"),
    "aper_ssf": _adapted("APER (SSF)", "models/aper_ssf.py", "scales and shifts of features"),
    "aper_vpt": _adapted("APER (VPT)", "models/aper_vpt.py", "prompts", _VPT),
    "aper_adapter": _adapted("APER (adapter)", "models/aper_adapter.py", "adapters"),
    "fecam": Model(
        title="FeCAM",
        file="models/fecam.py",
        nearest=("slda", "ncm"),
        why="it has a covariance for each class, SLDA one for all; and it tunes adapters in the first task",
        reads=_SESSION,
        memory="none",
    ),
    "l2p": Model(title="L2P", file="models/l2p.py", nearest=("ranpac",), why=_PROMPTED, reads=_PROMPTS, memory="none"),
    "dualprompt": Model(
        title="DualPrompt",
        file="models/dualprompt.py",
        nearest=("ranpac",),
        why=_PROMPTED,
        reads=f"{_PROMPTS} use_g_prompt g_prompt_length g_prompt_layer_idx use_prefix_tune_for_g_prompt use_e_prompt "
        "e_prompt_layer_idx use_prefix_tune_for_e_prompt same_key_value",
        memory="none",
    ),
    "coda_prompt": Model(
        title="CODA-Prompt",
        file="models/coda_prompt.py",
        nearest=("ranpac",),
        why=_PROMPTED,
        reads=f"{_SESSION} scheduler init_milestones init_lr_decay pretrained prompt_param",
        memory="none",
    ),
    "lae": Model(
        title="LAE",
        file="models/lae.py",
        nearest=("ranpac",),
        why="it tunes adapters online and keeps a slow copy of them; RanPAC keeps the transformer frozen",
        reads=f"{_SESSION} scheduler reinit_optimizer init_milestones init_lr_decay ema_decay num_freeze_epochs "
        "pet_cls pet_length down_sample_dim",
        memory="none",
    ),
    "ease": Model(
        title="EASE",
        file="models/ease.py",
        nearest=("ranpac", "ncm"),
        why="it adds adapters with every task and compares with means in all of their subspaces",
        reads="init_epochs init_lr later_epochs later_lr batch_size weight_decay min_lr optimizer scheduler "
        "init_milestones init_lr_decay ffn_num use_diagonal recalc_sim alpha use_init_ptm beta use_old_data "
        "use_reweight moni_adam adapter_num",
        memory="none",
    ),
    "mos": Model(
        title="MOS",
        file="models/mos.py",
        nearest=("ranpac",),
        why="it merges adapters of all tasks and retrieves them for each image",
        reads=f"{_SESSION} scheduler init_milestones init_lr_decay reg adapter_momentum ensemble crct_epochs ca_lr "
        "ca_storage_efficient_method n_centroids ffn_num",
        memory="none",
    ),
    "slca": Model(
        title="SLCA",
        file="models/slca.py",
        nearest=("slda", "ranpac"),
        why="it trains the transformer slowly and calibrates the head on samples of Gaussians",
        reads=f"{_CALIBRATED} save_before_ca",
        memory="none",
    ),
    "cofima": Model(
        title="CoFiMA",
        file="models/cofima.py",
        nearest=("slda", "ranpac"),
        why="it averages the weights of SLCA over tasks, by Fisher information",
        reads=f"{_CALIBRATED} save_before_ca fisher_weighting wt_lambda",
        memory="none",
    ),
    "duct": Model(
        title="DUCT",
        file="models/duct.py",
        nearest=("ranpac",),
        why="it merges task vectors of tuned transformers",
        reads="epochs lrate lrate_decay weight_decay batch_size num_workers bcb_lr_scale lr_re epc_re epc_init "
        "cls_fixed merge_scalar continual_merge ot_reg head_merge_ratio",
        memory="none",
    ),
    "finetune": Model(
        title="Finetune",
        file="models/finetune.py",
        nearest=("finetune",),
        why=_TUNED,
        reads=_STEPS,
        memory="none",
    ),
    "icarl": Model(title="iCaRL", file="models/icarl.py", nearest=("icarl",), why=_TUNED, reads=f"{_STEPS} T"),
    "coil": Model(
        title="Coil",
        file="models/coil.py",
        nearest=("coil",),
        why=_TUNED,
        unused={"calibration_term": "replaced by a ratio of norms before its first use"},
        reads="epochs sinkhorn norm_term reg_term lrate milestones lrate_decay batch_size T",
    ),
    "der": Model(title="DER", file="models/der.py", nearest=("icarl",), why=_GROWN, reads=_STEPS),
    "foster": Model(
        title="FOSTER",
        file="models/foster.py",
        nearest=("icarl",),
        why=_GROWN,
        reads="beta1 beta2 oofc is_teacher_wa is_student_wa lambda_okd wa_value init_epochs init_lr init_weight_decay "
        "boosting_epochs compression_epochs lr batch_size weight_decay num_workers T",
    ),
    "memo": Model(
        title="MEMO",
        file="models/memo.py",
        nearest=("icarl",),
        why=_GROWN,
        reads=f"{_STEPS} train_base train_adaptive skip scheduler t_max alpha_aux",
    ),
    "dgr": Model(
        title="DGR",
        file="models/dgr.py",
        nearest=("icarl",),
        why=_TUNED,
        reads="lambda gammar_r init_epoch init_lr init_weight_decay epochs lrate batch_size weight_decay T",
    ),
}
"""The models of PILOT."""

_READ_BY_NETWORK = {"_adapter": ("ffn_num",), "_vpt": ("vpt_type", "prompt_token_num")}


def read_by_network(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys that the network of a file reads, whatever its model.

    Args:
        content: the file.

    Example:
        >>> read_by_network({"backbone_type": "pretrained_vit_b16_224_vpt"})
        ('vpt_type', 'prompt_token_num')
    """
    name = str(content.get("backbone_type", ""))
    return tuple(key for part, keys in _READ_BY_NETWORK.items() if part in name for key in keys)


def find_backbone(content: Mapping[str, Any], model: Model) -> Backbone:  # noqa: ARG001
    """The pretrained transformer of a file, without what PILOT adds to it.

    Args:
        content: the file.
        model: its model.

    Example:
        >>> find_backbone({"backbone_type": "pretrained_vit_b16_224"}, MODELS["simplecil"]).name
        'timm:vit_base_patch16_224.augreg_in21k_ft_in1k'
    """
    name = str(content.get("backbone_type", "")).lower()
    weights = "augreg_in21k" if "in21k" in name else "augreg_in21k_ft_in1k"
    plain = name.removeprefix("pretrained_").removesuffix("_in21k") in ("vit_b16_224", "vit_base_patch16_224")
    added = "" if plain else f"without what {name or 'the file'} adds to it; "
    pixels = "PILOT does not normalise pixels, the weights' own normalisation is used here"
    return Backbone(f"timm:vit_base_patch16_224.{weights}", added + pixels, same=plain, frozen=True)


def _folder(path: str, num_classes: int) -> Source:
    return Source(folder=path, num_classes=num_classes)


PILOT = Program(
    name="pilot",
    title="PILOT",
    models=MODELS,
    sources={
        **CIFAR_AND_IMAGENET,
        "cifar224": Source(names=("cifar100",), num_classes=100, remark="CIFAR-100, enlarged to 224 pixels"),
        "imagenetr": Source(
            names=("imagenetr",),
            folder="data/imagenet-r",
            num_classes=200,
            remark="PILOT's archive has a split of its own: --data folder:data/imagenet-r",
        ),
        "imageneta": _folder("data/imagenet-a", 200),
        "cub": Source(names=("cub200",), folder="data/cub", num_classes=200),
        "objectnet": _folder("data/objectnet", 200),
        "omnibenchmark": _folder("data/omnibenchmark", 300),
        "vtab": _folder("data/vtab-cil/vtab", 50),
    },
    backbone_key="backbone_type",
    backbone=find_backbone,
    torch_seed=None,
    marks=frozenset({"backbone_type"}),
    network_keys=read_by_network,
    general={"print_forget": "forgetting is part of every record here"},
)
"""PILOT."""
