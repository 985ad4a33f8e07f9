"""A configuration file of another program, as requests for runs here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upcl.core.errors import UserError
from upcl.core.memory import Budget
from upcl.core.recipes import override_recipes, split_recipe_options
from upcl.methods.closed_form import ClosedForm
from upcl.methods.registry import METHODS, VARIANTS, find_method, method_options
from upcl.research.config import Request

from .command import command_words
from .config_file import find_model, find_program
from .draft import Draft, Verdict
from .general_keys import judge_general
from .model_keys import all_verdicts, judge_model
from .program import Model, Program


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What a file becomes.

    Args:
        program: the program that the file is for.
        reason: what the program was recognised by; empty if it was named.
        model: the file's model.
        method: name of the method of the requests.
        equivalent: whether it is the file's model; otherwise it is the nearest method.
        requests: one request for each seed.
        device: where to train.
        verdicts: what becomes of each key, in the order of the file.
        hard_coded: values that the program sets itself and that differ here.
        notes: what no key expresses.

    Example:
        >>> content = {"model_name": "icarl", "dataset": "cifar100", "init_cls": 10, "increment": 10, "seed": [1993]}
        >>> found = translate({**content, "convnet_type": "resnet32", "memory_size": 2000})
        >>> found.commands[0].partition(" --backbone")[0]
        'upcl train icarl --data cifar100 --tasks 10 --memory 2000'
    """

    program: Program
    reason: str
    model: Model
    method: str
    equivalent: bool
    requests: tuple[Request, ...]
    device: str
    verdicts: tuple[Verdict, ...]
    hard_coded: tuple[Verdict, ...]
    notes: tuple[str, ...]

    @property
    def commands(self) -> list[str]:
        """The commands that make the requests; several get folders that tell their class orders apart."""
        commands = []
        for request in self.requests:
            words = command_words(request, self.device)
            if len(self.requests) > 1:
                words += ["--out", f"runs/{self.method}-order{request.order_seed}-seed{request.seed}"]
            commands.append(shlex.join(words))
        return commands

    @property
    def obstacle(self) -> str:
        """Why there is no equivalent; empty if there is one."""
        return "" if self.equivalent else f"{self.model.title} is not here; nearest is {self.method}: {self.model.why}"

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `upcl import pycil --json`."""
        return {
            "program": self.program.name,
            "recognised_by": self.reason or None,
            "model": self.model.title,
            "method": self.method,
            "equivalent": self.equivalent,
            "why_not": self.obstacle or None,
            "commands": self.commands,
            "keys": [vars(verdict) for verdict in self.verdicts],
            "hard_coded": [vars(verdict) for verdict in self.hard_coded],
            "notes": list(self.notes),
        }


def translate(
    content: Mapping[str, Any], program: str | None = None, *, data: str | None = None, epochs: int | None = None
) -> Translation:
    """Translate a configuration file.

    Args:
        content: the file, as `read_config` returns it.
        program: name of the program that it is for; None to recognise it.
        data: a data set that takes the place of the file's.
        epochs: epochs per task that take the place of the file's and the program's; milestones scale with them.

    Raises:
        UserError: if the program or its model is unknown, or a value makes no sense.

    Example:
        >>> found = translate({"model_name": "l2p", "backbone_type": "vit_base_patch16_224_l2p"})
        >>> found.equivalent, found.method
        (False, 'ranpac')
    """
    source, reason = find_program(content, program)
    model = find_model(content, source)
    equivalent = model.method in METHODS or model.method in VARIANTS
    draft = Draft(content, source, model, model.method if equivalent else "")
    nearest = model.method if equivalent else next(name for name in model.nearest if name in METHODS)
    if equivalent:
        draft.judge("model_name", "becomes", f"upcl train {model.method}")
    else:
        draft.judge("model_name", "no equivalent", f"nearest: {nearest}. {model.why[:1].upper()}{model.why[1:]}")
    judge_general(draft, data)
    judge_model(draft)
    requests = _requests(draft, nearest, epochs)
    return Translation(
        program=source,
        reason=reason,
        model=model,
        method=nearest,
        equivalent=equivalent,
        requests=tuple(requests),
        device=draft.device,
        verdicts=tuple(all_verdicts(draft)),
        hard_coded=tuple(draft.hard_coded),
        notes=(*draft.notes, *model.notes, *source.notes),
    )


def _requests(draft: Draft, name: str, epochs: int | None) -> list[Request]:
    """One request for each seed, checked as far as that is possible without the data."""
    values, options, method = dict(draft.values), dict(draft.options), find_method(name)
    if epochs is not None:
        draft.notes.append(
            f"--epochs {epochs}, as requested, takes the place of all epochs; milestones scale with them"
        )
        options = {key: value for key, value in options.items() if not key.endswith((".epochs", ".milestones"))}
        values["epochs"] = epochs
    if draft.method:
        values["recipe"] = "own"
    if not method.uses_memory:
        values.pop("memory", None)
    if issubclass(method, ClosedForm) and not values.get("frozen"):
        values |= {"frozen": True, "backbone": None}  # the default pretrained one
        draft.judge(draft.program.backbone_key, "no equivalent", f"{method.title} needs a pretrained network: --frozen")
    select = draft.model.select
    values |= {"protocol": "paper", "select": None if select == "test" else select}
    parts = split_recipe_options(options)
    method_options(name, method, parts["method"])
    override_recipes(method.recipes, epochs, parts)
    slots = Budget.parse(values["memory"]).capacity(1, 1) if "memory" in values else 1
    if method.needs_exemplars and not slots:
        raise UserError(f"{method.title} needs exemplars, but the file's memory is empty")
    return [
        Request(method=name, order_seed=order_seed, seed=seed, options=options, **values)
        for order_seed, seed in draft.seeds
    ]
