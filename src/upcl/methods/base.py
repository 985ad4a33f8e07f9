"""What every method shares: it tells the story of a task as a generator of stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.memory import Budget, Memory
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.nets import LinearHead, Network, frozen_copy, make_backbone
from upcl.nets.network import HeadT

from .setting import Setting


@dataclass(kw_only=True, eq=False)
class Method(ABC, Generic[HeadT]):
    """A class-incremental learner. Its dataclass fields are its hyper-parameters.

    Whatever must outlive a task is in `net` (parameters and buffers) or in `memory`: these two are saved. The teacher
    is a frozen copy of the network as the last task left it, made anew when a task begins.
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
        """A fresh network without classes."""

    @property
    def needs_num_classes(self) -> bool:
        """Whether the number of classes must be known in advance."""
        return False

    @abstractmethod
    def losses(self, batch: Batch) -> Losses:
        """Named loss terms of one batch, already weighted: their sum is minimised."""

    def scores(self, features: Tensor) -> Tensor:
        """Scores (B x classes seen) from backbone features; the largest is the prediction."""
        return self.net.classify(features)

    def learn(self, task: Task) -> Iterator[Stage]:
        """The story of one task; the engine trains at each yield."""
        self.begin(task)
        yield self.stage()
        self.remember()

    def start(self, setting: Setting) -> None:
        """Take a place in a run: build the network and an empty memory."""
        self.setting = setting
        budget = self.memory_budget() if self.uses_memory else Budget(0)
        self.memory = Memory(budget, setting.selection, setting.image_shape)
        self.net = self.fresh_net()

    def build(self, head: Callable[[int], HeadT], *, last_relu: bool = True) -> Network[HeadT]:
        """The chosen backbone with a head of this kind."""
        backbone = make_backbone(self.setting.backbone, self.setting.channels, last_relu)
        return Network(backbone, head(backbone.dim))

    def fresh_net(self) -> Network[HeadT]:
        """A network without classes, on the device, ready to run."""
        net = self.make_net().eval().to(self.setting.device)
        net.set_execution(self.setting.execution)
        return net

    def memory_budget(self) -> Budget:
        return self.setting.budget

    def begin(self, task: Task) -> None:
        """Gather the task's data and count its classes, freeze the teacher, grow the head."""
        if len(task.extra) and not self.uses_memory:
            raise UserError(
                f"{self.title} keeps no exemplars, so it cannot learn more images of known classes: give it new classes only"
            )
        self.task = task
        self.data = task.train + self.memory.samples + task.extra
        self.counts = self.data.counts(task.num_seen).to(self.setting.device)
        self.teacher = frozen_copy(self.net) if self.uses_teacher and task.num_old else None
        self.net.grow(task.num_new)

    def stage(self) -> Stage:
        """Train the whole network on the new images and the exemplars."""
        return Stage(
            name="train",
            data=self.data,
            losses=self.losses,
            params=list(self.net.parameters()),
            recipe=self.recipe,
        )

    def remember(self) -> None:
        """Choose exemplars with the network as it is now."""
        if self.uses_memory:
            self.memory.update(self.task, self.extract)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the present task."""
        return self.setting.recipes.of(self.task)

    @property
    def old_share(self) -> float:
        """C_old / C: the weight of the past in several methods."""
        return self.task.num_old / self.task.num_seen

    @torch.no_grad()
    def extract(self, samples: Samples) -> Tensor:
        """Backbone features of plain (not augmented) images, in evaluation mode."""
        self.net.eval()
        return torch.cat([self.net.features(inputs) for inputs, _ in self.setting.batches(samples)])

    def state(self) -> dict[str, Any]:
        """Tensors and plain values from which `restore` rebuilds the method between two tasks."""
        return {
            "growth": list(self.net.growth),
            "net": self.net.state_dict(),
            "memory": {"inputs": self.memory.samples.inputs, "labels": self.memory.samples.labels},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.net = self.fresh_net()
        self.net.regrow(state["growth"])
        self.net.load_state_dict(state["net"])
        self.memory.samples = Samples(state["memory"]["inputs"], state["memory"]["labels"])


class LinearMethod(Method[LinearHead], ABC):
    """A method with a plain linear classifier."""

    def make_net(self) -> Network[LinearHead]:
        return self.build(LinearHead)
