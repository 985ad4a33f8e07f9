"""The models of PyCIL that have no equivalent here: what they read, and what comes nearest."""

from __future__ import annotations

from collections.abc import Mapping

from .program import Model, step_constants

OTHER_MODELS: Mapping[str, Model] = {
    "acil": Model(
        title="ACIL",
        file="models/acil.py",
        nearest=("ridge",),
        why="it trains the backbone on the first task and projects features at random; ridge takes a pretrained one",
        reads="configurations num_workers train_eval_freq init_batch_size IL_batch_size inplace_repeat base_weight "
        "buffer_size gamma init_weight_decay scheduler type init_lr init_epochs warmup milestones decay",
        memory="none",
    ),
    "ds-al": Model(
        title="DS-AL",
        file="models/dsal.py",
        nearest=("ridge",),
        why="it adds a second, compensating regression to ACIL",
        reads="configurations num_workers train_eval_freq init_batch_size IL_batch_size inplace_repeat base_weight "
        "buffer_size gamma gamma_comp compensation_ratio init_weight_decay scheduler type init_lr init_epochs warmup "
        "milestones decay",
        memory="none",
    ),
    "aper_finetune": Model(
        title="APER (finetuned)",
        file="models/aper_finetune.py",
        nearest=("ncm",),
        why="its means are those of two networks, one trained on the first task and one tuned on the second",
        reads="trained_epoch tuned_epoch optimizer batch_size init_lr min_lr init_weight_decay weight_decay "
        "finetune_lr",
        memory="none",
    ),
    "beefiso": Model(
        title="BEEF",
        file="models/beef_iso.py",
        nearest=("der",),
        why="it fuses independently trained networks by energies; DER trains a head on all of them",
        reads="logits_alignment energy_weight is_compress reduce_batch_size init_epochs init_lr init_weight_decay "
        "expansion_epochs fusion_epochs lr batch_size weight_decay num_workers random imbalance",
    ),
    "gem": Model(
        title="GEM",
        file="models/gem.py",
        nearest=("replay",),
        why="it projects gradients so that no loss on exemplars grows; Replay trains on them",
        constants=step_constants(100, (30, 60, 80)),
    ),
    "il2a": Model(
        title="IL2A",
        file="models/il2a.py",
        nearest=("pass", "fetril"),
        why="it mixes classes and augments prototypes by covariances",
        reads="lambda_fkd lambda_proto temp epochs lr batch_size weight_decay step_size gamma num_workers ratio",
        memory="none",
    ),
    "rmm-icarl": Model(
        title="RMM + iCaRL",
        file="models/rmm.py",
        nearest=("icarl",),
        why="it sets training images of new classes aside to keep more exemplars, by rates that a policy has learned",
        constants={**step_constants(170, (80, 120)), "T": 2, "num_workers": 8},
        reads="m_rate_list c_rate_list",
    ),
    "rmm-foster": Model(
        title="RMM + FOSTER",
        file="models/rmm.py",
        nearest=("foster", "der"),
        why="it sets training images of new classes aside to keep more exemplars, by rates that a policy has learned",
        reads="m_rate_list c_rate_list beta1 beta2 oofc is_teacher_wa is_student_wa lambda_okd wa_value init_epochs "
        "init_lr init_weight_decay boosting_epochs compression_epochs lr batch_size weight_decay num_workers T",
    ),
    "simplecil": Model(
        title="SimpleCIL",
        file="models/simplecil.py",
        nearest=("ncm",),
        why="it trains the backbone on the first task; NCM starts from a pretrained one",
        constants={"batch_size": 128},
        reads="init_epoch init_lr init_weight_decay min_lr",
        memory="none",
    ),
    "ssre": Model(
        title="SSRE",
        file="models/ssre.py",
        nearest=("pass", "fetril"),
        why="it re-parameterises adapters into the backbone after every task",
        reads="lambda_fkd lambda_proto temp mode epochs lr batch_size weight_decay step_size gamma num_workers",
        memory="none",
        notes=("models/ssre.py passes the network's name where its arguments belong: it stops with a TypeError",),
    ),
}
"""The models without an equivalent, by name."""
