from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs import Stop, quick_run, stop_after
from upcl.checks import few_digits
from upcl.core.errors import UserError
from upcl.core.identity import differences
from upcl.core.types import Stage, Task
from upcl.data import Dataset, load_dataset
from upcl.methods import METHODS, find_method
from upcl.methods.registry import build_method
from upcl.research.config import Request, RunConfig, resolve
from upcl.research.grouping import condition_fields, differing_fields, group_by_setting
from upcl.research.protocol import LongTail, Protocol
from upcl.research.record import Record
from upcl.research.report.rerun import train_command
from upcl.research.scenarios import SCENARIOS, Scenario
from upcl.research.setting import make_protocol, make_setting
from upcl.training.engine import fit

STREAM = "synthetic:classes=6,train=20,test=5"
BACK = ("blurry:10", "blurry:30", "blurry:25:50", "repeat:50", "repeat:100")


def config(**values: Any) -> RunConfig:
    request = Request.from_mapping({"method": "icarl", "data": "digits", **values})
    return resolve(request, request.load_dataset(), request.method_class)


def stream(name: str, data: Dataset, sizes: list[int], seed: int = 1993, **values: Any) -> tuple[Protocol, list[Task]]:
    protocol = Protocol(data, sizes, seed, scenario=Scenario.parse(name), **values)
    return protocol, [protocol.task(t) for t in range(len(protocol))]


@pytest.mark.parametrize("name", ["disjoint", *BACK])
def test_every_image_arrives_once_and_never_before_its_class(name: str) -> None:
    data = load_dataset("synthetic:classes=7,train=23,test=3")
    protocol, tasks = stream(name, data, [3, 1, 2, 1])
    pixels = [image.numpy().tobytes() for t in tasks for image in torch.cat([t.train.inputs, *extra_inputs(t)])]
    assert len(pixels) == len(set(pixels)) == len(data.train)
    assert set(pixels) == {image.numpy().tobytes() for image in data.train.inputs}
    for task in tasks:
        assert bool((task.train.labels >= task.num_old).all()) and bool((task.train.labels < task.num_seen).all())
        assert bool((task.extra.labels < task.num_old).all())
        assert int(task.train.counts(task.num_seen)[task.num_old :].min()) > 0, "a new class arrives without images"
        for samples in (task.train, task.extra):
            for label in samples.labels.unique().tolist():
                of_class = {i.numpy().tobytes() for i in data.train.inputs[data.train.labels == protocol.order[label]]}
                assert {i.numpy().tobytes() for i in samples.inputs[samples.labels == label]} <= of_class
    assert any(len(task.extra) for task in tasks) == (name != "disjoint")
    assert [len(protocol.test(t.num_seen)) for t in tasks] == [9, 12, 18, 21], "test classes are those seen so far"


def extra_inputs(task: Task) -> list[torch.Tensor]:
    return [task.extra.inputs] if len(task.extra) else []


def test_the_default_scenario_changes_nothing() -> None:
    data = load_dataset(STREAM)
    plain = Protocol(data, [2, 2, 2], 1993)
    _, tasks = stream("disjoint", data, [2, 2, 2])
    for index, task in enumerate(tasks):
        expected = plain.task(index)
        assert torch.equal(task.train.inputs, expected.train.inputs) and not len(expected.extra)
        assert torch.equal(task.train.labels, expected.train.labels)


def test_sampling_follows_the_seed_of_the_class_order() -> None:
    labels, sizes = torch.arange(6).repeat_interleave(20), [2, 2, 2]
    for name in BACK:
        scenario = Scenario.parse(name)
        first = scenario.arrivals(labels, sizes, 5)
        assert torch.equal(first, scenario.arrivals(labels, sizes, 5))
        assert not torch.equal(first, scenario.arrivals(labels, sizes, 6))


def test_images_that_come_later_are_drawn_at_random() -> None:
    later = Scenario.parse("blurry:20").arrivals(torch.zeros(1000, dtype=torch.int64), [1, 0], 1993).bool()
    halves = int(later[:500].sum()), int(later[500:].sum())
    assert sum(halves) == 200 and min(halves) > 70


def test_scenarios_combine_with_long_tails_and_held_out_images() -> None:
    data = load_dataset("synthetic:classes=4,train=100,test=5")
    values: dict[str, Any] = {"tail": LongTail.parse("exp:0.1:ordered"), "validation": 0.1}
    plain, blurred = Protocol(data, [2, 2], 1993, **values), stream("blurry:10", data, [2, 2], **values)
    tasks = blurred[1]
    assert torch.equal(plain.validation(4).inputs, blurred[0].validation(4).inputs)
    whole = torch.cat([plain.task(t).train.labels for t in range(2)]).bincount()
    assert torch.equal(
        torch.cat([labels for t in tasks for labels in (t.train.labels, t.extra.labels)]).bincount(), whole
    )
    assert tasks[1].extra.counts(2).tolist() == [int(n * 0.1) for n in whole[:2].tolist()]


def test_half_of_the_classes_come_first() -> None:
    half = Scenario(half=True)
    assert half.split(100, 6) == [50, 10, 10, 10, 10, 10]
    assert half.split(10, 5) == [5, 2, 1, 1, 1]
    assert half.split(7, 2) == [4, 3]
    assert config(scenario="half", tasks=6).task_sizes == (5, 1, 1, 1, 1, 1)
    assert config(scenario="half", tasks=3).digest() == config(tasks=(5, 3, 2)).digest(), "another spelling of one run"
    for tasks, message in ((1, "choose 2 to 6"), (7, "choose 2 to 6"), ((5, 5), "leave out half")):
        with pytest.raises(UserError, match=message):
            config(scenario="half", tasks=tasks)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("disjoint", None),
        ("half", None),
        ("blurry", "blurry:10"),
        ("blurry:10.0:0", "blurry:10"),
        ("blurry:12.5:50", "blurry:12.5:50"),
        ("repeat", "repeat:50"),
        ("online + blurry:10 + half", "blurry:10+online"),
        ("online+disjoint", "online"),
    ],
)
def test_one_name_for_one_scenario(text: str, name: str | None) -> None:
    assert Scenario.parse(text).name == name
    assert name is None or Scenario.parse(name).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("blury:10", "unknown scenario 'blury': did you mean blurry"),
        ("onlin", "did you mean online"),
        ("", "unknown scenario '': choose from: disjoint, half"),
        ("blurry:10+repeat", "blurry and repeat both decide about images"),
        ("online+online", "online and online both decide about epochs"),
        ("blurry:ten", "'ten' is not a percentage; write blurry:M"),
        ("blurry:", "'' is not a percentage"),
        ("blurry:-5", "not a percentage"),
        ("blurry:0", "above 0 and below 100"),
        ("blurry:100", "above 0 and below 100"),
        ("blurry:10:100", "N below 100"),
        ("blurry:10:50:1", "too many numbers"),
        ("repeat:101", "at most 100"),
        ("repeat:0", "above 0"),
        ("half:5", "half has too many numbers: write half"),
    ],
)
def test_errors_name_the_right_spelling(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Scenario.parse(text)
    if text:
        with pytest.raises(UserError, match=message):
            config(scenario=text)


def test_a_scenario_without_effect_is_refused() -> None:
    with pytest.raises(UserError, match="at least two tasks"):
        config(scenario="blurry:10", tasks=1)
    with pytest.raises(UserError, match=r"no class comes back .* 4 images.*: raise the percentage"):
        quick_run("icarl", "synthetic:classes=4,train=4,test=2", scenario="blurry:10")


def test_online_is_one_epoch() -> None:
    for recipe in ("own", "paper", "quick"):
        recipes = config(scenario="online", recipe=recipe).recipes
        assert (recipes.first.epochs, recipes.later.epochs) == (1, 1)
    assert config(scenario="online", epochs=1).digest() == config(scenario="online").digest()
    assert config(scenario="online").digest() != config(epochs=1).digest()
    for wrong in ({"epochs": 5}, {"options": {"recipe.epochs": 2}}, {"options": {"later.epochs": 2}}):
        with pytest.raises(UserError, match="online trains one epoch per task"):
            config(scenario="online", **wrong)


@pytest.mark.parametrize(
    ("method", "options", "advice"),
    [
        ("coil", {}, {"back_weight": 0}),
        ("nccil", {}, {"flight": "off"}),
        ("ldam", {"deferred": True}, {"deferred": False}),
        ("fetril", {"classifier": "svm"}, {"classifier": "linear"}),
        ("upcl", {"proto_warmup": 51}, {"proto_warmup": 0}),
        ("upcl+", {"proto_warmup": 51}, {"proto_warmup": 0}),
    ],
)
def test_methods_that_need_several_epochs_name_the_option(
    method: str, options: dict[str, Any], advice: dict[str, Any]
) -> None:
    ((name, value),) = advice.items()
    with pytest.raises(UserError, match=rf"cannot learn online.*--set {name}={str(value).lower()}"):
        config(method=method, scenario="online", options=options)
    assert config(method=method, scenario="online", options={**options, **advice}).scenario == "online"
    config(method=method, epochs=5, options=options)


def test_official_choices_that_need_epochs_are_found() -> None:
    with pytest.raises(UserError, match="proto_warmup=0"):
        config(method="upcl", scenario="online", protocol="paper")


@pytest.mark.no_cover
@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if not m().online_obstacle])
def test_online_trains_on_each_image_once(name: str) -> None:
    """New images pass once through the training of a task."""
    data, method_class = few_digits(6), METHODS[name]
    resolved = resolve(
        Request(method=method_class, data=data, tasks=2, memory="6", scenario="online"), data, method_class
    )
    method = build_method(method_class, resolved.options, make_setting(resolved, data, torch.device("cpu")), seed=0)
    protocol = make_protocol(resolved, data)
    for index in range(len(protocol)):
        task, trained = protocol.task(index), list[Stage]()
        for stage in method.learn(task):
            trained.append(stage)
            fit(method.net, stage, transform=data.transform, device=torch.device("cpu"), seed_path=(0,))
        assert all(stage.recipe.epochs == 1 for stage in trained)
        new = {image.numpy().tobytes() for image in task.train.inputs}
        seen = [i.numpy().tobytes() for s in trained if s.data.inputs.ndim == 4 for i in s.data.inputs]
        assert new and all(seen.count(image) <= 1 for image in new), f"{name} trains twice on an image of the stream"


@pytest.mark.no_cover
@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.accepts_extra()])
def test_images_of_known_classes_are_learned_without_exemplars(name: str) -> None:
    request: dict[str, Any] = {"memory": "0", "scenario": "blurry:25", "epochs": 1}
    if METHODS[name].needs_exemplars:
        with pytest.raises(UserError, match="needs exemplars"):
            quick_run(name, **request)
        return
    assert quick_run(name, **request).finished


def test_closed_form_does_not_depend_on_the_scenario() -> None:
    records = [quick_run("ncm", STREAM, scenario=name) for name in (None, "blurry:30", "repeat:50")]
    assert len({record.weights_sha256 for record in records}) > 1, "other streams"
    assert len({round(record.a_last.head, 6) for record in records}) == 1, "the same images in the end"


def test_scenario_is_part_of_the_identity_and_of_the_record(tmp_path: Path) -> None:
    plain, blurred = config(), config(scenario="blurry:10")
    assert "scenario" not in plain.to_json() and plain.digest() == config(scenario="disjoint").digest()
    assert blurred.to_json()["scenario"] == "blurry:10"
    assert len({c.digest() for c in (plain, blurred, config(scenario="blurry:20"), config(scenario="online"))}) == 4
    record = quick_run("icarl", out=tmp_path / "run", scenario="blurry:20", epochs=1)
    assert Record.read(tmp_path / "run") == record and record.config.scenario == "blurry:20"
    assert "--scenario blurry:20" in train_command(record)


def test_rows_of_different_scenarios_are_not_compared() -> None:
    records = [quick_run("icarl", epochs=1, scenario=name) for name in (None, "online", "blurry:20+online")]
    assert [condition_fields(record)["scenario"] for record in records] == ["disjoint", "online", "blurry:20+online"]
    assert differing_fields(records) == {"scenario": ["disjoint", "online", "blurry:20+online"]}
    titles = [name.partition("seed=0, ")[2] for name in group_by_setting(records)]
    assert titles == ["3 tasks", "3 tasks, online", "3 tasks, blurry:20+online"]


@pytest.mark.parametrize("name", ["blurry:30", "repeat:50+online"])
@pytest.mark.parametrize("method", ["icarl", "bic", "ridge"])
def test_an_interrupted_stream_continues_to_the_same_result(tmp_path: Path, name: str, method: str) -> None:
    request: dict[str, Any] = {"method": method, "scenario": name, "epochs": None if "online" in name else 2}
    reference = quick_run(**request)
    stops, resumed = 0, None
    while resumed is None:
        try:
            resumed = quick_run(**request, out=tmp_path / "run", resume=True, on_progress=stop_after(1), save_seconds=0)
        except Stop:
            stops += 1
    assert stops >= 3
    assert not differences(reference.reproducible_part(), resumed.reproducible_part())


def test_another_scenario_does_not_continue_a_run(tmp_path: Path) -> None:
    quick_run("icarl", out=tmp_path / "run", scenario="blurry:20", epochs=1)
    with pytest.raises(UserError, match="scenario"):
        quick_run("icarl", out=tmp_path / "run", resume=True, scenario="blurry:30", epochs=1)


def test_variants_and_methods_of_your_own_follow_the_same_rules() -> None:
    example = Path(__file__).parents[2] / "examples" / "own_method.py"
    assert find_method(f"{example}:FeatureDistillation")().online_obstacle == ""
    assert config(method=f"{example}:FeatureDistillation", scenario="blurry:10+online").scenario == "blurry:10+online"
    assert config(method="up+fm", scenario="blurry:10").scenario == "blurry:10"


def test_every_scenario_is_described() -> None:
    for name, entry in SCENARIOS.items():
        assert entry.usage.startswith(name) and entry.meaning and entry.source
        Scenario.parse(name)
