from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from upcl import UserError
from upcl.data.io.listing import ImageFile
from upcl.methods.registry import VARIANTS
from upcl.model.bundle import Bundle, ModelSpec
from upcl.model.feature_spec import feature_spec
from upcl.model.options import LearnOptions
from upcl.model.spec import choose_image_shape, copy_weights, make_method, resolve_recipes, resolve_spec, restore_state
from upcl.training.pretrained import default_pretrained

PATH = Path("model.upcl")
CPU = torch.device("cpu")


def images(size: int = 8, channels: int = 3) -> torch.Tensor:
    return torch.full((4, channels, size, size), 51, dtype=torch.uint8)


def new_spec(**options: Any) -> ModelSpec:
    return resolve_spec(LearnOptions(**options), images(), None, PATH)


@pytest.mark.parametrize(("size", "backbone"), [(8, "medium"), (64, "medium"), (65, "resnet18-7x7")])
def test_defaults_of_a_new_model_follow_its_images(size: int, backbone: str) -> None:
    spec = resolve_spec(LearnOptions(), images(size, 1), None, PATH)
    assert (spec.method, spec.backbone, spec.memory, spec.frozen) == ("upcl", backbone, "20/class", False)
    assert (spec.size, spec.channels, spec.mean) == (size, 1, (0.2,))


def test_variants_bring_their_fields() -> None:
    assert VARIANTS["cos+fm"].options.items() <= new_spec(method="cos+fm").options.items()


def test_a_frozen_backbone_gets_a_projector_unless_one_is_given() -> None:
    assert new_spec(frozen=True).options["projector"] == 256
    assert new_spec(frozen=True, options={"projector": 16}).options["projector"] == 16
    assert new_spec().options["projector"] == 0
    assert "projector" not in new_spec(frozen=True, method="icarl").options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nccil"}, "number of classes in advance"),
        ({"options": {"prototypes": "simplex"}}, "number of classes in advance"),
        ({"method": "upc"}, "did you mean upcl"),
        ({"method": "mine.py:Mine"}, "limited to the methods that `upcl methods` lists"),
        ({"options": {"taau": 1}}, "did you mean tau"),
        ({"memory": "0"}, "too small for a single image"),
        ({"memory": "10B"}, "too small for a single image"),
        ({"memory": "much"}, "memory 'much'"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        new_spec(**options)


def test_only_memory_and_frozen_can_change_later() -> None:
    spec = new_spec(method="cos+fm", backbone="small", memory="4/class")
    same = LearnOptions(method="cos+fm", backbone="small", options={"margin": "fixed", "recipe.lr": 0.5})
    assert resolve_spec(same, images(), spec, PATH) == spec
    changed = resolve_spec(LearnOptions(memory="9/class", frozen=True), images(), spec, PATH)
    assert (changed.memory, changed.frozen) == ("9/class", True)
    assert resolve_spec(LearnOptions(), images(), changed, PATH).frozen, "it stays frozen"
    for options, message in (
        ({"options": {"margin": "none"}}, "margin cannot change .*: stored fixed, requested none"),
        ({"method": "icarl"}, r"method cannot change .*: stored cos\+fm, requested icarl"),
        ({"backbone": "medium"}, "backbone cannot change .*: stored small, requested medium"),
        ({"options": {"marginn": "none"}}, "did you mean margin"),
    ):
        with pytest.raises(UserError, match=message):
            resolve_spec(LearnOptions(**options), images(), spec, PATH)


def test_a_frozen_backbone_is_refused_by_methods_that_must_train_it() -> None:
    with pytest.raises(UserError, match="PASS cannot learn from features of a frozen network: it rotates images"):
        new_spec(method="pass", frozen=True)
    with pytest.raises(UserError, match="which --set projector=256 adds"):
        new_spec(method="upcl", frozen=True, options={"projector": 0})
    existing = new_spec(method="memo", backbone="small")
    with pytest.raises(UserError, match="every task adds a part to the backbone"):
        resolve_spec(LearnOptions(frozen=True), images(), existing, PATH)


def photo(width: int, height: int, *, grey: bool = False) -> ImageFile:
    return ImageFile(Path("x.png"), "x", "train", width=width, height=height, grey=grey)


def test_image_shape_is_that_of_the_files_the_option_or_the_model() -> None:
    def choose(*files: ImageFile, spec: ModelSpec | None = None, **options: Any) -> tuple[int, int]:
        return choose_image_shape(LearnOptions(**options), files, spec, PATH)

    assert choose(photo(28, 28, grey=True), photo(28, 28, grey=True)) == (28, 1)
    assert choose(photo(28, 28), photo(28, 28, grey=True)) == (28, 3)
    assert choose(photo(640, 480)) == choose(photo(28, 28), photo(30, 30)) == (64, 3)
    assert choose(photo(28, 28), size=100) == (100, 3)
    assert choose(photo(28, 28, grey=True), backbone="weights.pth") == (224, 3)
    assert choose(photo(640, 480), spec=new_spec()) == choose(photo(640, 480), spec=new_spec(), size=8) == (8, 3)
    with pytest.raises(UserError, match="images of 8 pixels, which cannot change; requested 9"):
        choose(photo(640, 480), spec=new_spec(), size=9)


def test_recipe_fields_can_change_and_unknown_ones_are_refused() -> None:
    spec = new_spec()
    recipes = resolve_recipes(LearnOptions(epochs=7, options={"recipe.lr": 0.5, "later.lr": 0.25}), spec)
    assert (recipes.first.epochs, recipes.first.lr, recipes.later.lr) == (7, 0.5, 0.25)
    with pytest.raises(UserError, match="did you mean lr"):
        resolve_recipes(LearnOptions(options={"recipe.lrr": 1}), spec)


def test_a_pretrained_backbone_learns_slowly_unless_it_is_frozen() -> None:
    spec = new_spec()
    rates = [
        resolve_recipes(LearnOptions(options=given), ModelSpec(**{**vars(spec), **changes})).first.lr
        for given, changes in (
            ({}, {"pretrained": "w.pth"}),
            ({}, {"pretrained": "w.pth", "frozen": True}),
            ({"recipe.lr": 0.3}, {"pretrained": "w.pth"}),
        )
    ]
    assert rates == [0.01, resolve_recipes(LearnOptions(), spec).first.lr, 0.3]


def test_a_method_is_restored_with_its_weights_and_exemplars(bundle: Bundle) -> None:
    method = make_method(bundle.spec, len(bundle.state.classes), CPU)
    restore_state(method, bundle.state)
    assert all(torch.equal(value, bundle.state.weights[name]) for name, value in copy_weights(method).items())
    assert torch.equal(method.memory.samples.inputs, bundle.state.exemplars.inputs)
    assert not method.net.training


def test_the_same_seed_gives_the_same_initial_weights() -> None:
    one, other = (copy_weights(make_method(new_spec(backbone="small"), 3, CPU)) for _ in range(2))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.skipif(default_pretrained() is None, reason="pip install 'upcl[photos]'")
def test_what_is_kept_of_photos_is_chosen_once() -> None:
    path = Path("m.upcl")
    made = feature_spec(LearnOptions(keep="none"), None, path)
    assert made.keep == "none" and feature_spec(LearnOptions(), None, path).keep == "features"
    with pytest.raises(UserError, match="keep cannot change after the model was created"):
        feature_spec(LearnOptions(keep="features"), made, path)
    for method in ("ranpac", "icarl"):
        with pytest.raises(UserError, match=f"works with ncm, slda and ridge; {method} needs"):
            feature_spec(LearnOptions(keep="none", method=method), None, path)


def test_keeping_is_for_models_on_features() -> None:
    with pytest.raises(UserError, match="--keep is for classifiers in closed form"):
        resolve_spec(LearnOptions(keep="none"), torch.zeros(2, 1, 8, 8, dtype=torch.uint8), None, Path("m.upcl"))
