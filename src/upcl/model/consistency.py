"""Whether the weights and photos of a model belong together: checked on reading, before a network is built."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.seeding import preserve_rng_state
from upcl.methods.registry import method_options
from upcl.nets import Network
from upcl.nets.expandable import ExpandableNetwork

from .bundle import Bundle, ModelSpec, ModelState
from .closed_form import is_closed_form
from .familiarity import PREFIX
from .spec import find_package_method, make_method
from .stored_sums import GRAM

HEAD = "head."
MAX_UNSTORED = 64  # times the weights in the file: a network may also have a Gram matrix that is not stored


def check_network(bundle: Bundle) -> None:
    """Check that the weights of a model fit its network, which is laid out without memory.

    Args:
        bundle: the model. If this upcl cannot build its network, because timm is not installed for example, nothing is
            checked: that is said when the network is needed.

    Raises:
        ValueError: if a state has other tensors, or fewer rows than classes.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> spec = ModelSpec("upcl", {"projector": 10**9}, "small", 1, 8, (0.5,), (0.2,), "20/class")
        >>> state = ModelState({}, (1,), ("cat",), NO_SAMPLES, NO_SAMPLES)
        >>> check_network(Bundle(spec, (), {0: state}))
        Traceback (most recent call last):
        ValueError: its weights do not fit its network: backbone.stem.0.0.weight is missing
    """
    spec = bundle.spec
    nets: dict[str, Network[Any]] = {}
    for state in [bundle.state] if spec.automatic else bundle.states.values():  # older versions do not store its method
        other = state.method not in ("", spec.method)
        made_with = dataclasses.replace(spec, method=state.method, options={}) if other else spec
        try:
            if made_with.method not in nets:
                nets[made_with.method] = _empty_network(made_with)
        except UserError:
            return
        net = nets[made_with.method]
        with preserve_rng_state(), torch.device("meta"):
            grown = _regrown(net, state) if isinstance(net, ExpandableNetwork) else net
        if problem := _find_problem(grown, state):
            raise ValueError(f"its weights do not fit its network: {problem}")


def _empty_network(spec: ModelSpec) -> Network[Any]:
    """The network of a model before its first step, without memory."""
    method_class, meta = find_package_method(spec.method), torch.device("meta")
    if method_class(**method_options(spec.method, method_class, spec.options)).needs_num_classes:
        raise ValueError("a model cannot grow with its method")
    with preserve_rng_state(), meta:
        return make_method(spec, 1, meta).net


def _regrown(net: ExpandableNetwork, state: ModelState) -> ExpandableNetwork:
    """The network after a state's steps; after fewer of them, if it has more tensors than the state by then."""
    net = copy.deepcopy(net)
    for num_new in state.growth:
        if len(net.state_dict()) > len(state.weights):
            break
        net.regrow([num_new])
    return net


def _find_problem(net: Network[Any], state: ModelState) -> str:
    """What is wrong with the weights of a state; empty if nothing is."""
    layout, dim = net.state_dict(), net.backbone.dim
    weights, num_classes, num_rows = state.weights, len(state.classes), net.head.num_classes
    for name, planned in layout.items():
        found = weights.get(name)
        if found is None and name != GRAM:
            return f"{name} is missing"
        grows = planned.ndim > 0 and len(planned) == 0
        if found is not None and (
            found.ndim != planned.ndim
            or found.shape[grows:] != planned.shape[grows:]
            or found.is_floating_point() != planned.is_floating_point()
        ):
            return f"{name} has the shape {tuple(found.shape)} and type {found.dtype}"
        if found is not None and grows and found.ndim > 1:
            num_rows += len(found)
    if num_classes > num_rows:
        return "the number of classes does not match the network"
    if _num_bytes(layout) > MAX_UNSTORED * _num_bytes(weights):
        return "the network is much larger than they are"
    if unexpected := [name for name in weights if name not in layout and not name.startswith((HEAD, PREFIX))]:
        return f"{unexpected[0]} is unexpected"
    if any(inputs.ndim == 2 and len(inputs) and inputs.shape[1] != dim for inputs in _inputs(state)):
        return "its features have another number of dimensions"
    return _familiarity_problem(weights, num_classes, dim) or _assignment_problem(weights)


def _inputs(state: ModelState) -> tuple[Tensor, Tensor]:
    return state.exemplars.inputs, state.held_out.inputs


def _num_bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(value.nbytes for value in tensors.values())


def _familiarity_problem(weights: Mapping[str, Tensor], num_classes: int, dim: int) -> str:
    found = {name: tuple(value.shape) for name, value in weights.items() if name.startswith(PREFIX)}
    rank = found.get(f"{PREFIX}scales", ())
    expected = {"centre": (dim,), "basis": (dim, *rank), "scales": rank, "means": (num_classes, dim)}
    fits = len(rank) == 1 and found == {PREFIX + name: shape for name, shape in expected.items()}
    return "" if fits or not found else f"tensors of {PREFIX[:-1]} have unexpected names or shapes"


def _assignment_problem(weights: Mapping[str, Tensor]) -> str:
    assignment, frame = weights.get(f"{HEAD}assignment"), weights.get(f"{HEAD}frame")
    if assignment is None or frame is None or bool(((assignment >= 0) & (assignment < len(frame))).all()):
        return ""
    return "a class has a prototype that does not exist"


def check_photos(spec: ModelSpec, state: ModelState) -> None:
    """Check that a classifier in closed form has one digest for each photo.

    Args:
        spec: what the model is made with.
        state: a state.

    Raises:
        ValueError: if it has not.

    Example:
        >>> from upcl.core.types import Samples
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> photos = Samples(torch.zeros(2, 128), torch.tensor([0, 0]))
        >>> check_photos(spec, ModelState({}, (1,), ("cat",), photos, photos[:0], trained={"cat": ("a",)}))
        Traceback (most recent call last):
        ValueError: the numbers of photos and digests differ
    """
    if spec.keep == "none" or not is_closed_form(spec):
        return
    for samples, digests in ((state.exemplars, state.trained), (state.held_out, state.tested)):
        found = Counter(state.classes[label] for label in samples.labels.tolist())
        if {name: num for name, num in found.items() if num} != {name: len(d) for name, d in digests.items() if d}:
            raise ValueError("the numbers of photos and digests differ")
