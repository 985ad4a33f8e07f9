"""Run the paper's experiments at quick scale and write them to docs/results.md with their figures.

    make results                      # built-in data: an hour and a quarter on two cores
    make results DATA=cifar100        # also five of them on CIFAR-100 (in UPCL_DATA): as long again

Finished runs (in runs/results) are not repeated; interrupted ones are resumed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from upcl.research.paper import experiments
from upcl.research.paper.experiments import Experiment
from upcl.research.paper.reproduce import Reproduction
from upcl.research.report.content import Report
from upcl.research.report.formats import as_markdown
from upcl.research.report.write import write_figures

ROOT = Path(__file__).parents[1]
PAGE, FIGURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
ON_CIFAR100 = ("ablation", "lambda", "imbalance", "confusion", "tsne")
FIRST = (*ON_CIFAR100, "uniformity", "table1", "memory")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def chapter(experiment: Experiment, out: Path) -> Iterator[str]:
    """Markdown about an experiment that has been run; its figures are written to files next to the page.

    Args:
        experiment: the experiment.
        out: folder of its results.
    """
    reproduction = Reproduction.prepare(experiment, out)
    reproduction.measure()
    report = reproduction.report()
    assert report, f"{experiment.name} has not been run"
    yield f"## {experiment.title}: `{experiment.name}`, {experiment.scale}\n"
    yield from (f"{sentence}  " for sentence in report.summary)
    yield ""
    for section in report.sections:
        if re.sub(r"^s\d+-", "", section.key) not in experiment.section_keys:
            continue
        yield from (as_markdown(table) for table in section.tables)
        folder = FIGURES / f"{experiment.name}-{experiment.scale}"
        for path in write_figures(Report(report.title, (), (section,)), folder, "png"):
            yield f"![{section.title}]({path.relative_to(PAGE.parent).as_posix()})\n"


def main(out: Path, on_cifar100: tuple[str, ...]) -> None:
    """Run all experiments and replace the generated part of the page.

    Args:
        out: folder of the results.
        on_cifar100: experiments that are also run on CIFAR-100.
    """
    names = [*FIRST, *(name for name in experiments.names() if name not in FIRST)]
    chapters = []
    for name in names:
        for data in ("builtin", "cifar100") if name in on_cifar100 else ("builtin",):
            words = ["reproduce", name, "--data", data, "--out", str(out), "--jobs", "2"]
            subprocess.run([sys.executable, "-m", "upcl", *words], check=True)
            chapters.append("\n".join(chapter(experiments.load(name, data=data), out)))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, *chapters, END + rest.partition(END)[2]]))


if __name__ == "__main__":
    main(ROOT / "runs" / "results", ON_CIFAR100 if "cifar100" in sys.argv[1:] else ())
