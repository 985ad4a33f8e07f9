"""Weights and networks that do not belong together: found without building the network."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from tests.model.feature_models import DIM, grow, spec
from upcl.methods.registry import METHODS
from upcl.model.bundle import Bundle, ModelState
from upcl.model.consistency import check_network
from upcl.model.spec import copy_weights, make_method

CPU = torch.device("cpu")


def model(method: str = "ridge", **changes: Any) -> Bundle:
    """A model of three classes that has learned nothing."""
    made_with = spec(method, features=False)
    built = make_method(made_with, 3, CPU)
    built.net.regrow([2, 1])
    weights = copy_weights(built)
    nothing = built.memory.samples
    state = ModelState(weights, (2, 1), ("ant", "bull", "cat"), nothing, nothing)
    return Bundle(dataclasses.replace(made_with, **changes), (), {0: state})


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name]().needs_num_classes])
def test_the_network_of_every_method_fits(method: str) -> None:
    before = torch.get_rng_state()
    bundle = model(method)
    torch.set_rng_state(before)
    check_network(bundle)
    assert torch.equal(torch.get_rng_state(), before), "random numbers of the caller are not used"
    first = next(iter(bundle.state.weights))
    del bundle.state.weights[first]
    with pytest.raises(ValueError, match=f"{first} is missing"):
        check_network(bundle)


@pytest.mark.parametrize("method", ["der", "memo"])
def test_every_branch_of_a_network_has_its_weights(method: str) -> None:
    bundle = model(method)
    state = bundle.state
    names = [name for name in state.weights if name.startswith("backbone.branches.1.")]
    assert names, "there is a branch for the second step"
    value = state.weights.pop(names[-1])
    with pytest.raises(ValueError, match=r"branches\.1.* is missing"):
        check_network(bundle)
    state.weights[names[-1]] = value[..., None]
    with pytest.raises(ValueError, match="has the shape"):
        check_network(bundle)
    state.weights[names[-1]] = value
    check_network(bundle)
    for growth in ((3,), (1, 1, 1), (1,) * 10**5):  # the last would take minutes if it were built
        with pytest.raises(ValueError, match="fit its network"):
            check_network(dataclasses.replace(bundle, states={0: dataclasses.replace(state, growth=growth)}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "upcl", "options": {"projector": 10**9}}, "is missing|has the shape"),
        ({"method": "ranpac", "options": {"expansion": 10**6}}, "has the shape"),
        ({"backbone": "resnet50-7x7"}, "is missing|has the shape"),
        ({"channels": 1}, "has the shape"),
        ({"method": "nccil"}, "cannot grow with its method"),
    ],
)
def test_a_spec_of_another_network_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_network(model(**changes))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("head.weight", torch.zeros(3, 0), r"head\.weight has the shape \(3, 0\)"),
        ("head.weight", torch.zeros(3, DIM, dtype=torch.int64), "type torch.int64"),
        ("head.bias", torch.zeros(()), r"shape \(\)"),
        ("backbone.extra", torch.zeros(1), r"backbone\.extra is unexpected"),
        ("familiarity.means", torch.zeros(3, DIM), "tensors of familiarity"),
    ],
)
def test_other_tensors_are_refused(name: str, value: torch.Tensor, message: str) -> None:
    bundle = model()
    bundle.state.weights[name] = value
    with pytest.raises(ValueError, match=message):
        check_network(bundle)


def test_a_network_that_is_much_larger_than_its_weights_is_refused() -> None:
    bundle, expansion = model("ranpac", options={"expansion": 200}), 200
    weights = bundle.state.weights
    del weights["head.gram"]  # 5 GB
    weights["projector.matrix"] = torch.zeros(DIM, expansion * DIM)
    for name in ("sums", "weight"):
        weights[f"head.{name}"] = torch.zeros(3, expansion * DIM)
    with pytest.raises(ValueError, match="much larger"):
        check_network(bundle)


def test_features_of_another_network_are_refused() -> None:
    bundle = grow(None, {"ant": range(3), "cat": range(3)})
    check_network(bundle)
    exemplars = dataclasses.replace(bundle.state.exemplars, inputs=torch.zeros(6, DIM - 1))
    state = dataclasses.replace(bundle.state, exemplars=exemplars)
    with pytest.raises(ValueError, match="another number of dimensions"):
        check_network(dataclasses.replace(bundle, states={0: state}))


def test_a_network_that_cannot_be_built_here_is_not_checked() -> None:
    check_network(model(backbone="of the future"))
    check_network(model(method="ridge", memory="plenty"))
