"""What is known about another program: its models, the keys that each of them reads, and what these become here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["becomes", "built in", "no equivalent", "ignored", "hard-coded"]

FIRST: Mapping[str, str] = {
    "init_epoch": "first.epochs",
    "init_lr": "first.lr",
    "init_milestones": "first.milestones",
    "init_lr_decay": "first.gamma",
    "init_weight_decay": "first.weight_decay",
}
"""Keys of the first task's schedule, and the fields of recipes that they become."""

LATER: Mapping[str, str] = {
    "epochs": "later.epochs",
    "lrate": "later.lr",
    "milestones": "later.milestones",
    "lrate_decay": "later.gamma",
    "weight_decay": "later.weight_decay",
}
"""Keys of the later tasks' schedule."""

STEPS: Mapping[str, str] = {**FIRST, **LATER, "batch_size": "recipe.batch_size"}
"""Keys of the schedule with milestones that most models share."""

COSINE: Mapping[str, str] = {
    "init_epochs": "first.epochs",
    "init_lr": "first.lr",
    "init_weight_decay": "first.weight_decay",
    "epochs": "later.epochs",
    "lr": "later.lr",
    "weight_decay": "later.weight_decay",
    "batch_size": "recipe.batch_size",
}
"""Keys of the schedule that follows a cosine."""

WORKERS = "no process loads images here but for large ones, which get as many as torch has threads"


def step_constants(
    epochs: int, milestones: Sequence[int], first_milestones: Sequence[int] = (60, 120, 170)
) -> dict[str, Any]:
    """The constants of a module with the usual schedule: they differ in three values only.

    Args:
        epochs: epochs of later tasks.
        milestones: milestones of later tasks.
        first_milestones: milestones of the first task.

    Example:
        >>> step_constants(80, (40, 70))["init_epoch"]
        200
    """
    first = {"init_epoch": 200, "init_lr": 0.1, "init_milestones": first_milestones, "init_lr_decay": 0.1}
    later = {"epochs": epochs, "lrate": 0.1, "milestones": milestones, "lrate_decay": 0.1}
    return {**first, "init_weight_decay": 5e-4, **later, "weight_decay": 2e-4, "batch_size": 128}


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """A key whose usual value is what the method here does, without an option for it.

    Args:
        here: the value.
        default: what the program takes if the key is missing.
        meaning: what the value stands for.

    Example:
        >>> BuiltIn(here=3.0, default=3.0, meaning="norm of the costs").here
        3.0
    """

    here: Any
    default: Any
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model of a program.

    Args:
        title: its name in publications.
        file: the module that defines it.
        method: name of the equivalent method here; empty if there is none.
        nearest: names of methods here that come nearest, the best first, if there is none.
        why: why the nearest is not the same.
        settings: what a key or a constant of the module becomes: a field of the method; `first.X`, `later.X` or
            `recipe.X` for fields of the recipes; or `*` for the fields that `convert` returns.
        constants: values that the module assigns itself: the same keys in the file change nothing.
        defaults: values that the module takes for keys that the file lacks, where the default here is another.
        implied: settings that follow from the code, without a name.
        relative: keys whose values are divided by those of another, since options here are shares.
        convert: functions from the program's values to ours, by key.
        built_in: keys whose usual value needs no option here.
        absent: keys that are read but have no equivalent, and why.
        unused: keys that are read without any effect, and why.
        reads: other keys that are read, separated by spaces, of a model without an equivalent.
        memory: `file` if the exemplar budget is the file's, `none` if no exemplars are kept, or a budget.
        select: rule that selects the epoch a task ends with.
        notes: differences between the model and the method that no key expresses.

    Example:
        >>> model = Model(title="LwF", file="models/lwf.py", method="lwf", constants={"lamda": 3})
        >>> model.memory, model.reads_key("lamda")
        ('file', False)
    """

    title: str
    file: str
    method: str = ""
    nearest: tuple[str, ...] = ()
    why: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    implied: Mapping[str, Any] = field(default_factory=dict)
    relative: Mapping[str, str] = field(default_factory=dict)
    convert: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    built_in: Mapping[str, BuiltIn] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    reads: str = ""
    memory: str = "file"
    select: str = "last"
    notes: tuple[str, ...] = ()

    def reads_key(self, key: str) -> bool:
        """Whether the model reads a key of the file.

        Args:
            key: the key.
        """
        known = (self.settings, self.built_in, self.absent, self.unused, self.reads.split())
        return key not in self.constants and any(key in each for each in known)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set of a program.

    Args:
        names: names that it may have here, the best first.
        folder: where the program expects its files, to be read as a folder of images if it has no name here.
        num_classes: number of classes.
        remark: what differs.

    Example:
        >>> Source(names=("cifar100",), num_classes=100).folder
        ''
    """

    names: tuple[str, ...] = ()
    folder: str = ""
    num_classes: int
    remark: str = ""


CIFAR_AND_IMAGENET: Mapping[str, Source] = {
    "cifar10": Source(names=("cifar10",), num_classes=10),
    "cifar100": Source(names=("cifar100",), num_classes=100),
    "imagenet100": Source(
        names=("imagenet100",),
        num_classes=100,
        remark="which 100 classes: there, those of your folder; here, see its docs",
    ),
    "imagenet1000": Source(names=("imagenet1000",), num_classes=1000),
}
"""The data sets that all three programs know."""


@dataclass(frozen=True)
class Backbone:
    """What the network of a file becomes here.

    Args:
        name: name of the backbone here; empty for the data set's default.
        remark: what differs.
        same: whether it is the same network.
        frozen: whether it is used as it is, with pretrained weights.

    Example:
        >>> Backbone("resnet32").same
        True
    """

    name: str
    remark: str = ""
    same: bool = True
    frozen: bool = False


@dataclass(frozen=True, kw_only=True)
class Program:
    """Another program.

    Args:
        name: how `--from` calls it.
        title: its name.
        models: its models, by `model_name`.
        sources: its data sets, by `dataset`.
        backbone_key: the key that names the network.
        backbone: finds the network of a file for a model.
        torch_seed: the seed of torch; None if it is the file's.
        marks: keys that no other program has.
        network_keys: finds the keys that the network of a file reads, whatever its model.
        general: keys that its trainer reads but that have no equivalent, and why.
        notes: what holds for every file.

    Example:
        >>> from upcl.research.migration.pycil import PYCIL
        >>> PYCIL.title, PYCIL.torch_seed
        ('PyCIL', 1)
    """

    name: str
    title: str
    models: Mapping[str, Model]
    sources: Mapping[str, Source]
    backbone_key: str
    backbone: Callable[[Mapping[str, Any], Model], Backbone] = field(repr=False)
    torch_seed: int | None
    marks: frozenset[str] = frozenset()
    network_keys: Callable[[Mapping[str, Any]], tuple[str, ...]] = field(default=lambda _: (), repr=False)
    general: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
