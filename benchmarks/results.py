"""The paper's experiments at quick scale, written into docs/results.md with their figures.

    make results                      # built-in data: an hour and a quarter on two cores
    make results DATA=cifar100        # five of them on CIFAR-100 (in UPCL_DATA) too: as long again

Runs that are done (runs/results) are not repeated, and a broken one goes on where it stopped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from upcl.research.grid import prepare
from upcl.research.paper import experiments
from upcl.research.paper.experiments import Experiment
from upcl.research.paper.uniformity import measure_all
from upcl.research.report.content import Content, of_experiment
from upcl.research.report.load import read_runs
from upcl.research.report.tables import as_markdown
from upcl.research.report.write import write_figures

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
ON_CIFAR100 = ("ablation", "lambda", "imbalance", "confusion", "tsne")
ORDER = (*ON_CIFAR100, "uniformity", "table1", "memory")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def content_of(asked: Experiment, out: Path) -> Content:
    """The report on an experiment that was run."""
    rows = prepare(asked.grid, out / "runs", None) if asked.grid else []
    folders = [row.folder for row in rows if row.record]
    drawn = vars(asked.prototypes) if asked.prototypes else None
    distances = list(measure_all(out / f"{asked.name}-{asked.scale}.jsonl", **drawn)) if drawn else []
    return of_experiment(asked, read_runs(folders), distances)


def chapter(asked: Experiment, out: Path) -> Iterator[str]:
    """What the experiment is about, as Markdown, with its figures drawn into files beside the page."""
    content = content_of(asked, out)
    yield f"## {asked.title}: `{asked.name}`, {asked.scale}\n"
    yield from (f"{sentence}  " for sentence in content.about)
    yield ""
    for section in content.sections:
        if re.sub(r"^s\d+-", "", section.key) not in asked.sections:
            continue
        yield from (as_markdown(table) for table in section.tables)
        alone = Content(content.title, (), (section,))
        for path in write_figures(alone, PICTURES / f"{asked.name}-{asked.scale}", "png"):
            yield f"![{section.title}]({path.relative_to(PAGE.parent).as_posix()})\n"


def main(out: Path, on_cifar100: tuple[str, ...]) -> None:
    names = [*ORDER, *(name for name in experiments.names() if name not in ORDER)]
    parts = []
    for name in names:
        for data in ("builtin", "cifar100") if name in on_cifar100 else ("builtin",):
            words = ["reproduce", name, "--data", data, "--out", str(out), "--jobs", "2"]
            subprocess.run([sys.executable, "-m", "upcl", *words], check=True)
            parts.append("\n".join(chapter(experiments.load(name, data=data), out)))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, *parts, END + rest.partition(END)[2]]))


if __name__ == "__main__":
    main(ROOT / "runs" / "results", ON_CIFAR100 if "cifar100" in sys.argv[1:] else ())
