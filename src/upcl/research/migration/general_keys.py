"""The keys that a program's trainer reads for every model: data, tasks, memory, seeds, network and device."""

from __future__ import annotations

from typing import Any

from upcl.core.errors import UserError
from upcl.data.registry import DATASETS, parse_stream
from upcl.research.protocol import LongTail

from .draft import Draft

MAX_SEED = 2**32 - 1
NAMED_BY_OUT = "part of the log file's name there; --out names the folder of a run here"


def judge_general(draft: Draft, data: str | None = None) -> None:
    """Judge the keys that every model has in common.

    Args:
        draft: the translation, which is filled in.
        data: a data set that takes the place of the file's.

    Raises:
        UserError: if a value makes no sense.

    Example:
        >>> from upcl.research.migration.pycil import MODELS, PYCIL
        >>> content = {"model_name": "icarl", "dataset": "cifar100", "init_cls": 50, "increment": 20, "seed": [3]}
        >>> draft = Draft(content, PYCIL, MODELS["icarl"], "icarl")
        >>> judge_general(draft)
        >>> draft.values["data"], draft.seeds
        ('cifar100/B50-Inc20', [(3, 1)])
    """
    draft.judge("prefix", "no equivalent", NAMED_BY_OUT)
    for key, why in draft.program.general.items():
        draft.judge(key, "no equivalent", why)
    num_classes = _judge_data(draft, data)
    _judge_tasks(draft, num_classes)
    _judge_memory(draft)
    _judge_seeds(draft, num_classes)
    _judge_network(draft)
    _judge_device(draft)
    if draft.program.name == "upcl":
        _judge_long_tail(draft)


def _judge_data(draft: Draft, data: str | None) -> int | None:
    """Set the data set and return its number of classes, if that is known."""
    program, name = draft.program, str(draft.content.get("dataset", ""))
    source = program.sources.get(name.lower())
    if data is not None:
        draft.values["data"] = data
        draft.judge("dataset", "becomes", f"--data {data}, as requested, takes its place")
        count = _entry_classes(data.partition(":")[0].partition("/")[0])
    elif source:
        here = next((each for each in source.names if each in DATASETS), f"folder:{source.folder}")
        draft.values["data"] = here
        remark = "the folder that the program reads" if here.startswith("folder:") else source.remark
        draft.judge("dataset", "becomes", f"--data {here}" + (f" ({remark})" if remark else ""))
        count = source.num_classes
    else:
        draft.values["data"] = name if name in DATASETS else "folder:PATH"
        draft.judge(
            "dataset",
            "no equivalent",
            f"not a data set of {program.title}: --data folder:PATH for PATH/train/CLASS/* and PATH/test/CLASS/*",
        )
        count = _entry_classes(name)
    if "dataset" not in draft.content:
        draft.notes.append(f"the file has no 'dataset', which {program.title} needs")
    return count


def _entry_classes(name: str) -> int | None:
    count = DATASETS[name].num_classes.replace(",", "") if name in DATASETS else ""
    return int(count) if count.isdigit() else None


def _judge_tasks(draft: Draft, num_classes: int | None) -> None:
    if missing := [key for key in ("init_cls", "increment") if key not in draft.content]:
        draft.notes.append(f"the file has no '{missing[0]}', which the trainer needs: the data set's tasks are used")
        for key in ("init_cls", "increment"):
            draft.judge(key, "no equivalent", "one of the two alone divides no classes")
        return
    first, increment = draft.integer("init_cls", 1), draft.integer("increment", 1)
    stream = f"B{0 if first == increment else first}-Inc{increment}"
    sizes = parse_stream(stream, num_classes) if num_classes else None
    name, colon, options = draft.values["data"].partition(":")
    if "/" in name:
        text = f"the stream of --data {name} takes its place"
    elif isinstance(sizes, tuple) and len(set(sizes)) == 1:
        draft.values["tasks"] = len(sizes)
        text = f"--tasks {len(sizes)}"
    else:
        draft.values["data"] = f"{name}/{stream}{colon}{options}"
        last = f", the last of {sizes[-1]}" if isinstance(sizes, tuple) and sizes[-1] != increment else ""
        text = f"--data {name}/{stream}: {first} classes, then {increment} at a time{last}"
    draft.judge("init_cls", "becomes", text)
    draft.judge("increment", "becomes", text)


def _judge_memory(draft: Draft) -> None:
    model, content = draft.model, draft.content
    keys = ("memory_size", "memory_per_class", "fixed_memory")
    if model.memory != "file":
        kept = "no exemplars" if model.memory == "none" else f"{model.memory} images in total, whatever the file says"
        for key in keys:
            draft.judge(key, "ignored", f"{model.file} keeps {kept}")
        if model.memory != "none":
            draft.values["memory"] = model.memory
        return
    if content.get("fixed_memory"):
        if "memory_per_class" not in content:
            raise UserError("'fixed_memory' is true, but there is no 'memory_per_class': add it, or set it to false")
        draft.values["memory"] = f"{draft.integer('memory_per_class', 0)}/class"
        draft.judge("memory_size", "ignored", "fixed_memory is true: memory_per_class counts")
        draft.judge("memory_per_class", "becomes", f"--memory {draft.values['memory']}")
    elif "memory_size" in content:
        draft.values["memory"] = str(draft.integer("memory_size", 0))
        shares = "the same number for every class, rounded down: --protocol paper"
        draft.judge("memory_size", "becomes", f"--memory {draft.values['memory']}; {shares}")
        draft.judge("memory_per_class", "ignored", "fixed_memory is false: memory_size counts")
    draft.judge("fixed_memory", "becomes", "the unit of --memory: images per class if true, else in total")


def _judge_seeds(draft: Draft, num_classes: int | None) -> None:
    program, content = draft.program, draft.content
    given = content.get("seed", [1993])
    seeds: list[Any] = given if isinstance(given, list) else [given]
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            raise UserError(f"'seed' must hold whole numbers from 0 to {MAX_SEED}, not {seed!r}")
    if not seeds:
        raise UserError("'seed' is an empty list: nothing would be run")
    own = [seed if program.torch_seed is None else program.torch_seed for seed in seeds]
    draft.seeds = list(dict.fromkeys(zip(seeds, own, strict=True)))
    torch = "it also seeds torch: --seed" if program.torch_seed is None else "torch is always seeded with 1: --seed 1"
    if content.get("shuffle", True):
        draft.judge("shuffle", "becomes", "a class order drawn from --order-seed")
        draft.judge("seed", "becomes", f"--order-seed; {torch}")
    elif num_classes is None:
        draft.judge("shuffle", "no equivalent", "the classes in the order of their labels: --order 0,1,2,...")
        draft.judge("seed", "becomes", f"--order-seed; {torch}")
    else:
        draft.values["order"] = tuple(map(str, range(num_classes)))
        draft.judge("shuffle", "becomes", "--order: the classes in the order of their labels")
        draft.seeds = [(0, seed) for seed in dict.fromkeys(own)]  # no seed of the order has any effect
        if program.torch_seed is None:
            draft.judge("seed", "becomes", "--seed; the class order is fixed")
        else:
            draft.judge("seed", "ignored", "the class order is fixed, and torch is always seeded with 1: --seed 1")
    if not isinstance(given, list):
        draft.notes.append(f"'seed' is not a list, over which {program.title} iterates")


def _judge_network(draft: Draft) -> None:
    key = draft.program.backbone_key
    backbone = draft.program.backbone(draft.content, draft.model)
    draft.values["backbone"] = backbone.name
    if backbone.frozen:
        draft.values["frozen"] = True
    words = f"--backbone {backbone.name}" + (" --frozen" if backbone.frozen else "")
    text = f"{words}: {backbone.remark}" if backbone.remark else words
    draft.judge(key, "becomes" if backbone.same else "no equivalent", text)
    if key not in draft.content:
        draft.notes.append(f"the file has no '{key}', which {draft.program.title} needs")


def _judge_device(draft: Draft) -> None:
    devices = draft.content.get("device", [])
    devices = devices if isinstance(devices, list) else [devices]
    if devices and str(devices[0]) == "-1":
        draft.device = "cpu"
        draft.judge("device", "becomes", "--device cpu")
    elif len(devices) > 1:
        draft.judge("device", "no equivalent", f"{len(devices)} GPUs share every batch there; --device auto takes one")
    else:
        draft.judge("device", "becomes", "--device auto, the default: the best one of this machine")


def _judge_long_tail(draft: Draft) -> None:
    """The key `lt_imb_factor` of the shipped files is not the one that the trainer reads."""
    factor = draft.content.get("imb_factor", 0.01)
    if draft.content.get("lt"):
        text = f"exp:{factor}:ordered"
        LongTail.parse(text)
        draft.values["longtail"] = text
        draft.judge("lt", "becomes", f"--longtail {text}, falling along the class order")
        draft.judge("imb_factor", "becomes", f"--longtail {text}")
    else:
        draft.judge("lt", "becomes", "balanced, the default")
        draft.judge("imb_factor", "ignored", "lt is false")
    draft.judge("lt_imb_factor", "ignored", "trainer.py reads imb_factor, and only if lt is true")
