"""The base class of methods: `learn` describes one task as a generator of stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal

import torch
from torch import Tensor

from upcl.core.budget import Budget
from upcl.core.errors import UserError
from upcl.core.memory import Memory
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.nets import LinearHead, Network, frozen_copy, make_backbone
from upcl.nets.network import HeadT

from .setting import Setting

TermWeights = Literal["share", "normalised", "missing"]


@dataclass(kw_only=True, eq=False)
class Method(ABC, Generic[HeadT]):
    """A class-incremental learner. Its dataclass fields are its hyper-parameters.

    Everything that must outlive a task is in `net` (parameters and buffers) or in `memory`: these two are saved. The
    teacher is a frozen copy of the network as the last task left it, created when the next task begins.

    Attributes:
        name: the name on the command line and in records.
        title: the name in tables.
        paper: title and venue of the paper.
        summary: what the method does, in one phrase.
        recipes: the recipes of the paper or its code, used unless the user chooses others.
        deviations: where this implementation differs from the paper or the official code.
        official_options: options that reproduce the official code in the protocol `paper`.
        uses_memory: whether the method keeps exemplars.
        uses_teacher: whether the method needs the network of the last task.
        needs_exemplars: whether the method cannot work with an empty memory.
        setting: what surrounds the method.
        net: the network.
        memory: the exemplars.
        task: the present task.
        data: the training data of the present task: new images, exemplars and extra images.
        counts: images per class in `data`.
        teacher: the frozen network of the last task; None in the first task.

    Example:
        >>> import torch.nn.functional as F
        >>> class Replay(LinearMethod):
        ...     name, title, paper, summary = "replay", "Replay", "", "trains on new images and exemplars"
        ...     recipes = Recipes(first=Recipe(epochs=200), later=Recipe(epochs=70))
        ...     uses_teacher = False
        ...
        ...     def losses(self, batch: Batch) -> Losses:
        ...         return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    recipes: ClassVar[Recipes]
    deviations: ClassVar[str] = ""
    official_options: ClassVar[Mapping[str, Any]] = {}
    uses_memory: ClassVar[bool] = True
    uses_teacher: ClassVar[bool] = True
    needs_exemplars: ClassVar[bool] = False

    setting: Setting = field(init=False, repr=False)
    net: Network[HeadT] = field(init=False, repr=False)
    memory: Memory = field(init=False, repr=False)
    task: Task = field(init=False, repr=False)
    data: Samples = field(init=False, repr=False)
    counts: Tensor = field(init=False, repr=False)
    teacher: Network[HeadT] | None = field(init=False, repr=False, default=None)

    @abstractmethod
    def make_net(self) -> Network[HeadT]:
        """Create a network without classes."""

    @property
    def needs_num_classes(self) -> bool:
        """Whether the total number of classes must be known in advance."""
        return False

    @property
    def online_obstacle(self) -> str:
        """Why one epoch per task is not enough, and what to choose instead; empty if it is enough."""
        return ""

    @property
    def frozen_obstacle(self) -> str:
        """Why the method cannot learn from features of a frozen backbone; empty if it can."""
        return ""

    @abstractmethod
    def losses(self, batch: Batch) -> Losses:
        """Compute the loss terms of one batch, already weighted; their sum is minimised.

        Args:
            batch: the batch, and its position in the stage.
        """

    def scores(self, features: Tensor) -> Tensor:
        """Compute scores for prediction; the largest is the predicted class.

        Args:
            features: backbone features (B x dim).

        Returns:
            Scores (B x classes seen).
        """
        return self.net.classify(features)

    def learn(self, task: Task) -> Iterator[Stage]:
        """Learn one task; the engine trains each stage when it is yielded.

        Args:
            task: the task to learn.
        """
        self.begin(task)
        yield self.stage()
        self.remember()

    @classmethod
    def accepts_extra(cls) -> bool:
        """Whether a task may hold more images of known classes: by default, if the method keeps exemplars."""
        return cls.uses_memory

    def check_frozen(self, frozen: bool) -> None:
        """Refuse a frozen backbone, if the method cannot learn without training it.

        Args:
            frozen: whether the backbone is frozen.

        Raises:
            UserError: If it is, and the method cannot, with the reason.
        """
        if frozen and self.frozen_obstacle:
            raise UserError(
                f"{self.title} cannot learn from features of a frozen network: {self.frozen_obstacle}; choose another "
                "method, such as icarl or ranpac, or a backbone that is trained, such as small"
            )

    def start(self, setting: Setting) -> None:
        """Enter a setting: create the network and an empty memory.

        Args:
            setting: what surrounds the method.
        """
        self.setting = setting
        budget = self.memory_budget() if self.uses_memory else Budget(0)
        self.memory = Memory(budget, setting.selection, setting.image_shape)
        self.net = self.fresh_net()

    def network_with(self, head: Callable[[int], HeadT], *, last_relu: bool = True) -> Network[HeadT]:
        """Create the setting's backbone with a head, for `make_net`.

        Args:
            head: creates the head, given the number of features.
            last_relu: apply the backbone's last ReLU.
        """
        backbone = make_backbone(self.setting.backbone, self.setting.channels, last_relu)
        return Network(backbone, head(backbone.dim))

    def fresh_net(self) -> Network[HeadT]:
        """Create a network without classes, on the device, ready to execute."""
        net = self.make_net().eval().to(self.setting.device)
        net.set_execution(self.setting.execution)
        return net

    def memory_budget(self) -> Budget:
        """Return the limit on exemplars: by default the setting's."""
        return self.setting.budget

    def begin(self, task: Task) -> None:
        """Collect the task's data and count its classes, freeze the teacher, grow the head.

        Args:
            task: the task to learn.

        Raises:
            UserError: If the task has extra images of known classes and the method has no memory.
        """
        if len(task.extra) and not self.accepts_extra():
            raise UserError(
                f"{self.title} keeps no exemplars, so it cannot learn more images of known classes: remove these "
                "images, or use a method with an exemplar memory such as upcl or icarl"
            )
        self.task = task
        self.data = task.train + self.memory.samples + task.extra
        self.counts = self.data.counts(task.num_seen).to(self.setting.device)
        self.teacher = self.freeze_teacher() if self.uses_teacher and task.num_old else None
        self.net.grow(task.num_new)

    def freeze_teacher(self) -> Network[HeadT]:
        """Copy what the task needs of the last task's network: by default, all of it."""
        return frozen_copy(self.net)

    def stage(self) -> Stage:
        """Return the main stage: train the complete network on the task's data."""
        return Stage(
            name="train",
            data=self.data,
            losses=self.losses,
            params=list(self.net.parameters()),
            recipe=self.recipe,
        )

    def remember(self) -> None:
        """Select exemplars with the present network."""
        if self.uses_memory:
            self.memory.update(self.task, self.extract, self.net.num_bytes)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the present task."""
        return self.setting.recipes.of(self.task)

    @property
    def old_share(self) -> float:
        """C_old / C: the weight of distillation in several methods."""
        return self.task.num_old / self.task.num_seen

    def term_weights(self, weights: TermWeights) -> tuple[float, float]:
        """Weights of what is learned and of what is distilled.

        Args:
            weights: "share": C_new / C and C_old / C, which sum to 1; "normalised": both divided by C_new / C, so that
                learning is as strong in the last task as in the first; "missing": 1, and the number of images that old
                classes would have, if they were as frequent as new ones, over the number of all images that there are.

        Example:
            >>> from upcl.methods.wa import WA
            >>> from upcl.core.types import NO_SAMPLES
            >>> method = WA()
            >>> method.task = Task(index=3, num_old=6, num_new=2, train=NO_SAMPLES)
            >>> method.term_weights("share"), method.term_weights("normalised")
            ((0.25, 0.75), (1.0, 3.0))
        """
        if weights == "share":
            return 1 - self.old_share, self.old_share
        ratio = self.task.num_old / self.task.num_new
        return 1.0, ratio if weights == "normalised" else ratio * len(self.task.train) / len(self.data)

    @torch.no_grad()
    def extract(self, samples: Samples) -> Tensor:
        """Compute backbone features of images that are not augmented, in evaluation mode.

        Args:
            samples: the images.

        Returns:
            Features (N x dim), on the device.
        """
        self.net.eval()
        return torch.cat([self.net.features(inputs) for inputs, _ in self.setting.batches(samples)])

    def state(self) -> dict[str, Any]:
        """Return tensors and plain values from which `restore` rebuilds the method between two tasks."""
        return {
            "growth": list(self.net.growth),
            "net": self.net.state_dict(),
            "memory": {"inputs": self.memory.samples.inputs, "labels": self.memory.samples.labels},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to a saved state.

        Args:
            state: what `state` returned.
        """
        if self.net.growth:
            self.net = self.fresh_net()
        self.net.regrow(state["growth"])
        self.net.load_state_dict(state["net"])
        self.memory.samples = Samples(state["memory"]["inputs"], state["memory"]["labels"])


class LinearMethod(Method[LinearHead], ABC):
    """Base class of methods with a linear classifier; a subclass defines `losses` at least.

    Example:
        >>> from upcl.methods.finetune import Finetune
        >>> issubclass(Finetune, LinearMethod)
        True
    """

    def make_net(self) -> Network[LinearHead]:
        """Create the setting's backbone with a linear head."""
        return self.network_with(LinearHead)
