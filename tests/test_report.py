"""Tables, figures and the page, from runs to files."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Table as RichTable

from upcl import UserError, load_dataset, run
from upcl.cli import main, train
from upcl.cli.rendering import as_rich
from upcl.methods.registry import find_method
from upcl.research.config import make_request, resolve
from upcl.research.report import figures, tables
from upcl.research.report.charts import Line, paint
from upcl.research.report.content import Content, of_runs
from upcl.research.report.load import StoredRun, read_runs
from upcl.research.report.page import page
from upcl.research.report.plotly_backend import figure_of
from upcl.research.report.rerun import command_of
from upcl.research.report.write import write_figures, write_page

EVIL = "<script>window.evil = 1</script>"
QUICK: dict[str, Any] = {"tasks": 3, "memory": "12", "epochs": 2}
STREAM = "synthetic:classes=6,train=10,test=5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods with two seeds each on classes one of which has a name that would like to be a script."""
    place = tmp_path_factory.mktemp("runs")
    data = load_dataset(STREAM)
    data = dataclasses.replace(data, classes=(EVIL, *data.classes[1:]), name="evil & co")
    for method in ("icarl", "upcl"):
        for seed in (0, 1):
            run(method, data, seed=seed, out=place / f"{method}-{seed}", **QUICK)
    return place


@pytest.fixture(scope="module")
def content(folder: Path) -> Content:
    return of_runs(read_runs([folder]))


def test_runs_are_found_below_a_folder_and_each_once(folder: Path) -> None:
    runs = read_runs([folder, folder / "upcl-0"])
    assert [run.folder.name for run in runs] == ["icarl-0", "icarl-1", "upcl-0", "upcl-1"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "holds no run"),
        ("{", "not JSON"),
        ('{"schema": 99}', "schema 99"),
        ("[]", "schema"),
        ('{"schema": 2}', "lacks 'finished'"),
    ],
)
def test_what_is_no_run_is_named(content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    with pytest.raises(UserError, match=said):
        read_runs([tmp_path])
    with pytest.raises(UserError, match="nothing at"):
        read_runs([tmp_path / "missing"])


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_fit_the_terminal_and_lose_nothing(width: int, content: Content) -> None:
    results, console = content.tables[0], Console(width=width, record=True, file=io.StringIO())
    parts = list(as_rich(results, width))
    console.print(*parts, sep="\n")
    told = console.export_text()
    assert max(map(len, told.splitlines())) <= width and "…" not in told
    assert sum(isinstance(part, RichTable) for part in parts) > 1 or width == 200
    assert all(cell.text in told and cell.small in told for row in results.rows for cell in row)


def test_a_damaged_sketch_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "upcl-0", tmp_path / "run")
    content = bytearray((folder / "upcl-0" / "sketch.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "run" / "sketch.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"sketch\.npz is damaged"):
        of_runs(read_runs([tmp_path]))


def test_the_page_has_every_section(content: Content) -> None:
    keys = {section.key for section in content.sections}
    wanted = "table accuracy old-new ratio coherence cost confusion matrix forgetting tsne losses assignment runs"
    assert keys >= {*wanted.split(), "exemplars", "errors"}
    assert len({chart.key for chart in content.charts}) == len(content.charts)


def test_names_from_data_stay_text(content: Content) -> None:
    text = page(content)
    assert EVIL not in text
    assert "&lt;script&gt;window.evil" in text
    assert "evil &amp; co" in text


def test_bands_span_the_seeds(folder: Path) -> None:
    lines = figures.lines_of(read_runs([folder]))
    (head, _) = figures.accuracy(lines)
    runs = [r.record["top1"]["head"] for r in lines["UPCL"]]
    line = next(line for line in head.lines if line.name == "UPCL")
    assert list(line.low) == [min(pair) for pair in zip(*runs, strict=True)]
    assert list(line.high) == [max(pair) for pair in zip(*runs, strict=True)]
    assert list(line.y) == pytest.approx([sum(pair) / 2 for pair in zip(*runs, strict=True)])


def test_confusion_is_percent_of_each_class_with_borders_of_tasks(folder: Path) -> None:
    for heat in figures.confusion(figures.lines_of(read_runs([folder]))):
        assert [sum(value or 0 for value in row) for row in heat.values] == pytest.approx([100] * 6, abs=0.1)
        assert heat.borders == (2, 4)


def test_forgetting_by_class_agrees_with_the_record(folder: Path) -> None:
    runs = read_runs([folder])
    (bars,) = figures.forgetting(figures.lines_of(runs))
    rows = runs[2].record["top1_by_class"]["head"]
    upcl = next(line for line in bars.lines if line.name == "UPCL")
    assert list(upcl.y) == [max(row[k] for row in rows[:-1] if len(row) > k) - rows[-1][k] for k in range(4)]


def test_assignment_changes_are_counted_between_epochs(folder: Path) -> None:
    made = list(figures.assignment(figures.lines_of(read_runs([folder]))))
    assert [chart.title for chart in made] == ["UPCL: assignment"], "only heads with prototypes have one"
    assert len(made[0].lines[0].y) == 6


def test_assignment_changes_of_known_events(folder: Path) -> None:
    stored = read_runs([folder])[2]
    owned = [(0, [0, 1, 2, 3]), (0, [1, 0, 2, 3]), (0, [1, 0, 2, 3]), (1, [0, 1]), (1, [1, 0])]
    stored.__dict__["events"] = [
        {"task": task, "losses": {}, "assignment": owner, "alignment": 0.5} for task, owner in owned
    ]
    (chart,) = figures.assignment({"x": [stored]})
    assert list(chart.lines[0].y) == [0, 50, 0, 0, 100]
    assert chart.borders == (3.5,)


def altered(stored: StoredRun, **changes: Any) -> StoredRun:
    return StoredRun(stored.folder, {**stored.record, **changes})


def cut_short(stored: StoredRun, seed: int) -> StoredRun:
    """As if the run stood after its second task."""
    record = {**stored.record, "finished": False, "seed": seed}
    short = {
        key: {reading: rows[:2] for reading, rows in record[key].items()}
        for key in ("top1", "top1_matrix", "top1_by_class", "old", "new")
    }
    confusion = {reading: [row[:4] for row in rows[:4]] for reading, rows in record["confusion"].items()}
    lists = {key: record[key][:2] for key in ("seconds", "imbalance_ratio", "coherence", "peak_memory_mb", "exemplars")}
    last = {"a_last": {"head": 99.0, "nme": 99.0}}
    return StoredRun(stored.folder, {**record, **short, **lists, **last, "confusion": confusion})


def test_unfinished_runs_stay_out_of_the_figures_and_are_told(folder: Path) -> None:
    runs = read_runs([folder])
    content = of_runs([runs[2], cut_short(runs[3], 1)])
    table = content.tables[0]
    assert table.rows[0][1].value == runs[2].record["a_last"]["head"]
    assert any("left out, not finished: UPCL, seed 1" in note for note in table.notes)
    alone = of_runs([cut_short(runs[3], 1)]).tables[0]
    assert alone.rows[0][1].value == 99.0 and any("seed 1: not finished" in note for note in alone.notes)


def test_other_class_orders_are_told_and_bars_keep_no_wrong_names(folder: Path) -> None:
    runs = read_runs([folder])
    other = altered(
        runs[0], order_seed=7, classes=runs[0].record["classes"][::-1], class_order=runs[0].record["class_order"][::-1]
    )
    content = of_runs([other, runs[2]])
    assert any("different class orders" in note for note in content.tables[0].notes)
    (bars,) = figures.forgetting(figures.lines_of([other, runs[2]]))
    assert list(bars.names) == ["1", "2", "3", "4"]


def test_the_same_run_twice_is_one_run(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(folder / "upcl-0", tmp_path / name)
    notes: list[str] = []
    (only,) = read_runs([tmp_path], notes)
    assert only.folder.name == "one" and f"the same run as {tmp_path / 'one'}: {tmp_path / 'two'}" in notes[0]


def test_runs_without_a_finished_task_do_not_block_the_others(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "upcl-0", tmp_path / "good")
    shutil.copytree(folder / "upcl-1", tmp_path / "begun")
    record = json.loads((tmp_path / "begun" / "record.json").read_text())
    (tmp_path / "begun" / "record.json").write_text(json.dumps({**record, "seconds": [], "finished": False}))
    notes: list[str] = []
    assert [stored.folder.name for stored in read_runs([tmp_path], notes)] == ["good"]
    assert "no finished task yet: begun" in notes[0]
    with pytest.raises(UserError, match="none of the 1 runs"):
        read_runs([tmp_path / "begun"])


def test_options_that_only_some_runs_have_keep_lines_apart(folder: Path) -> None:
    runs = read_runs([folder])[2:]
    config = {**runs[1].record["config"], "options": {**runs[1].record["config"]["options"], "later": 1}}
    lines = figures.lines_of([runs[0], altered(runs[1], config=config)])
    assert list(lines) == ["UPCL (later=-)", "UPCL (later=1)"]


def test_pairs_stay_within_a_protocol(folder: Path) -> None:
    runs = read_runs([folder])
    other = {**runs[0].record["config"], "memory": "6"}
    records = [altered(runs[0], config=other).record, *(run.record for run in runs[1:])]
    table = tables.pairs(records)
    assert table and [row[0].text for row in table.rows] == ["iCaRL (memory=12 in all)"]


def test_names_with_dollars_or_that_are_no_text_can_be_drawn(folder: Path, tmp_path: Path) -> None:
    stored = read_runs([folder])[2]
    classes = [r"$\frac$", "\udcff", "a, b", '"', "long " * 40, "\n"]
    content = of_runs([altered(stored, classes=classes)])
    some = dataclasses.replace(content, sections=tuple(s for s in content.sections if s.key in ("confusion", "tsne")))
    assert len(list(write_figures(some, tmp_path, "svg"))) == 2
    write_page(content, tmp_path / "page.html")


def test_many_lines_differ_in_colour_or_stroke() -> None:
    painted = [paint(Line("x", [], [], colour=k)) for k in range(25)]
    assert len(set(painted)) == 25


def test_a_thousand_classes_fit_on_a_page(folder: Path) -> None:
    heat = next(iter(figures.confusion(figures.lines_of(read_runs([folder])))))
    names = [f"a class with a name {k}" for k in range(1000)]
    values = [[100.0 if i == j else 0.0 for j in range(1000)] for i in range(1000)]
    figure = figure_of(dataclasses.replace(heat, values=values, columns=names, rows=names))
    assert len(json.dumps(figure, separators=(",", ":"))) < 2_200_000


def test_methods_from_outside_are_named_and_never_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "boom.py").write_text("raise SystemError")
    stored = read_runs([folder])[2]
    config = {**stored.record["config"], "method": f"{tmp_path}/boom.py:X", "data": "digits"}
    told = command_of({**stored.record, "config": config})
    assert "boom.py:X" in told and "first.epochs=2" in told and "tau=0.07" in told
    assert command_of(stored.record).startswith("(no command: the data set")


def test_the_table_tells_mean_deviation_and_interval(folder: Path) -> None:
    records = [run.record for run in read_runs([folder])]
    table = tables.results("x", records)
    values = [r["a_last"]["head"] for r in records if r["method"] == "upcl"]
    cell = table.rows[1][1]
    assert cell.value == pytest.approx(sum(values) / 2)
    deviation = abs(values[0] - values[1]) / 2**0.5
    assert cell.text == f"{sum(values) / 2:.1f} ± {deviation:.1f}"
    assert "95 %" in table.notes[0]
    alone = tables.results("x", records[:1])
    assert "One seed" in alone.notes[0] and "±" not in alone.rows[0][1].text


def test_unequal_protocols_get_a_visible_note(folder: Path) -> None:
    records = [dict(run.record) for run in read_runs([folder])]
    records[0] = {**records[0], "config": {**records[0]["config"], "memory": "6"}}
    assert any(note.startswith("NOT THE SAME PROTOCOL: memory") for note in tables.results("x", records).notes)


def test_pairs_are_against_upcl_on_the_same_seeds(folder: Path) -> None:
    records = [run.record for run in read_runs([folder])]
    table = tables.pairs(records)
    assert table
    by = {(r["method"], r["seed"]): r["a_last"]["head"] for r in records}
    wanted = sum(by["icarl", seed] - by["upcl", seed] for seed in (0, 1)) / 2
    assert table.rows[0][1].value == pytest.approx(wanted)
    assert [cell.text for cell in table.rows[0][-2:]] == ["UPCL", "2"]
    assert tables.pairs(records[:2]) is None


def test_without_upcl_pairs_are_against_the_first_line_and_other_recipes_are_told(folder: Path) -> None:
    runs = read_runs([folder])
    recipes = {part: {**value, "lr": 9.0} for part, value in runs[2].record["config"]["recipes"].items()}
    changed = [altered(run, config={**run.record["config"], "recipes": recipes}).record for run in runs[2:]]
    table = tables.pairs([*(run.record for run in runs[:2]), *changed])
    assert table and len(table.rows) == 1 and "another recipe" in table.notes[1] and "iCaRL" in table.notes[1]
    others = [altered(run, method="wa").record for run in runs[2:]]
    table = tables.pairs([*(run.record for run in runs[:2]), *others])
    assert table and [(row[0].text, row[-2].text) for row in table.rows] == [("WA", "iCaRL")]


def test_what_a_part_adds_is_paired(folder: Path) -> None:
    records = [run.record for run in read_runs([folder])]
    table = tables.adds(records, [("everything", "icarl", "upcl"), ("nothing that was run", "wa", "upcl")])
    by = {(r["method"], r["seed"]): r["a_last"]["head"] for r in records}
    (row,) = table.rows
    assert row[1].text == "iCaRL to UPCL"
    assert row[2].value == pytest.approx(sum(by["upcl", seed] - by["icarl", seed] for seed in (0, 1)) / 2)


def test_losses_of_memory_are_paired_by_seed(folder: Path) -> None:
    runs = read_runs([folder])[2:]
    less = [
        altered(run, config={**run.record["config"], "memory": "6"}, a_last={"head": 10.0 * k, "nme": 1.0}).record
        for k, run in enumerate(runs)
    ]
    table = tables.delta("x", [*(run.record for run in runs), *less[:1]], None)
    (row,) = table.rows
    lost = row[table.columns.index("M=6 Δ_last")]
    assert lost.value == pytest.approx(0.0 - runs[0].record["a_last"]["head"]), "on the one seed that both have"


def test_tables_of_many_kinds_share_one_csv(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(tables.FORMATS["csv"](of_runs(read_runs([folder])).tables))))
    assert {row["table"].partition(":")[0] for row in rows} == {"Results", "Paired differences"}
    assert all(None not in row and None not in row.values() for row in rows)
    assert float(rows[0]["A_last head"]) >= 0 and rows[0]["against"] == "" and rows[-1]["against"] == "UPCL"


def report(*words: str) -> Any:
    return CliRunner().invoke(main, ["report", *words])


def test_tables_in_every_format(folder: Path, tmp_path: Path) -> None:
    md = report(str(folder), "--format", "md").output
    assert "| method | A_last head |" in md
    rows = [line for line in report(str(folder), "--format", "csv").output.splitlines() if "UPCL" in line]
    assert rows[0].startswith('"Results: evil & co, 3 tasks",UPCL,')
    header = report(str(folder), "--format", "csv").output.splitlines()[0].split(",")
    assert "A_last head sd" in header and header[-1] == "notes" and len(set(header)) == len(header)
    assert "95 %" in rows[0]
    tex = report(str(folder), "--format", "latex").output
    assert r"evil \& co" in tex and r"A\_last" in tex and r"$\pm$" in tex
    content = json.loads(report(str(folder), "--format", "json").output)
    assert content[0]["rows"][0][0]["text"] == "iCaRL"
    assert content[0]["rows"][0][1]["low"] <= content[0]["rows"][0][1]["high"]
    out = tmp_path / "t.md"
    assert report(str(folder), "--format", "md", "-o", str(out)).exit_code == 0
    assert out.read_text() == md
    assert report(str(folder), "--format", "md", "-o", str(tmp_path / "new" / "t.md")).exit_code == 0
    for words, said in (
        ((str(tmp_path / "nothing"),), "nothing at"),
        ((str(folder), "-o", str(tmp_path)), "is a folder"),
        ((str(folder / "upcl-0" / "config.json"),), "is a file"),
    ):
        wrong = report(*words)
        assert wrong.exit_code == 2 and said in wrong.output


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_as_files(content: Content, kind: str, begins: bytes, tmp_path: Path) -> None:
    some = dataclasses.replace(content, sections=tuple(s for s in content.sections if s.charts))
    files = list(write_figures(some, tmp_path, kind))
    assert {"accuracy-head", "confusion", "tsne", "forgetting"} <= {file.stem for file in files}
    assert all(file.read_bytes().startswith(begins) for file in files)
    first = {file.name: file.read_bytes() for file in files}
    assert {file.name: file.read_bytes() for file in write_figures(some, tmp_path, kind)} == first


@pytest.mark.parametrize(
    "words",
    [
        ("upcl",),
        ("icarl", "--set", "recipe.lr=0.02", "--set", "first.epochs=3", "--exemplars", "random"),
        ("upcl", "--set", "margin=none", "--set", "lambda_1=2^t", "--protocol", "paper"),
        ("up+fm", "--tasks", "4,2", "--order-seed", "5"),
        ("finetune", "--select", "validation", "--validation", "0.2", "--longtail", "exp:0.5"),
        ("wa", "--order", "5,4,3,2,1,0", "--recipe", "paper", "--epochs", "1"),
    ],
)
def test_the_command_of_a_run_makes_it_again(words: Sequence[str], tmp_path: Path) -> None:
    asked = ["train", *words, "--data", STREAM, "--out", str(tmp_path / "run")]
    short = [] if "--epochs" in words or "--protocol" in words else ["--epochs", "1"]
    if "--protocol" in words:
        short = ["--set", "recipe.epochs=1"]
    done = CliRunner().invoke(main, [*asked, *short])
    assert done.exit_code == 0, done.output
    (stored,) = read_runs([tmp_path])
    again = shlex.split(command_of(stored.record))
    assert again[:2] == ["upcl", "train"]
    assert digest_of(again[2:]) == stored.record["config_digest"]


def digest_of(words: list[str]) -> str:
    """What `upcl train` would run, without running it."""
    from upcl.cli import _request

    given = dict(train.make_context("train", words).params)
    for name in ("data_root", "device", "out", "resume", "compiled", "profile", "track", "save_seconds"):
        given.pop(name)
    request = _request(given.pop("method"), given.pop("pairs"), given.pop("config"), given)
    made = make_request(request)
    return resolve(made, load_dataset(made.data), find_method(made.method)).digest()


def plain_page(folder: Path) -> str:
    """The page, with what was measured set to one value."""
    runs = [
        StoredRun(
            stored.folder,
            {**stored.record, "seconds": [1.0] * 2, "peak_memory_mb": [1.0] * 2, "environment": ENVIRONMENT},
        )
        for stored in read_runs([folder])
    ]
    return page(of_runs(runs))


ENVIRONMENT = {"torch": "2", "device": "cpu", "threads": 1}


def num_events(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*/events.jsonl"))


def test_a_grid_killed_again_and_again_has_the_same_page(tmp_path: Path) -> None:
    same = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 12, "memory": "4"}
    (tmp_path / "g.yaml").write_text(json.dumps({"same": same, "vary": {"method": ["upcl", "icarl"]}}))

    def command(out: str) -> list[str]:
        return [sys.executable, "-m", "upcl", "grid", str(tmp_path / "g.yaml"), "--out", str(tmp_path / out)]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command("whole")], env=environment, check=True, capture_output=True, timeout=200)
    killed = 0
    for events in (3, 8, 14):  # epochs begun in all: once in the first run, once between them, once in the second
        process = subprocess.Popen(
            command("killed"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 100
        while process.poll() is None and num_events(tmp_path / "killed") < events and time.monotonic() < until:
            time.sleep(0.02)
        if process.poll() is None:
            killed += 1
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert killed == 3
    subprocess.run(command("killed"), env=environment, check=True, capture_output=True, timeout=200)
    assert plain_page(tmp_path / "killed") == plain_page(tmp_path / "whole")


def test_a_page_is_whole_or_not_there(content: Content, tmp_path: Path) -> None:
    written = write_page(content, tmp_path / "new" / "report.html")
    assert written.read_text().rstrip().endswith("</html>")
    assert list(written.parent.iterdir()) == [written]
