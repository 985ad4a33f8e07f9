"""Reproducing an experiment of the paper: what is left to do, and the report on what is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from upcl.core.progress import track
from upcl.research.grid import GridRun, prepare
from upcl.research.report.compose import report_on_experiment
from upcl.research.report.content import Report
from upcl.research.report.load import read_runs
from upcl.research.report.write import FIGURE_FORMATS

from .experiments import Experiment
from .uniformity import GENERATORS, Uniformity, measure_all


@dataclass
class Reproduction:
    """An experiment in a folder. Experiments in the same folder share the runs that they have in common.

    Prepare it, call `measure`, execute `runs` with `upcl.research.executor.run_grid`, and ask for the `report`.

    Args:
        experiment: the experiment.
        out: folder of the results; runs are in its subfolder `runs`.
        runs: the runs of the experiment; those that have finished have a record.
        measurements: the measurements of prototypes so far.

    Example:
        >>> import tempfile
        >>> from upcl.research.paper import experiments
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     reproduction = Reproduction.prepare(experiments.load("tsne"), Path(folder))
        ...     [run.status for run in reproduction.runs], reproduction.report()
        (['waiting', 'waiting'], None)
    """

    experiment: Experiment
    out: Path
    runs: list[GridRun] = field(default_factory=list)
    measurements: list[Uniformity] = field(default_factory=list)

    @staticmethod
    def prepare(experiment: Experiment, out: Path, data_root: Path | None = None) -> Reproduction:
        """Resolve the runs of an experiment and find those that have finished.

        Args:
            experiment: the experiment.
            out: folder of the results.
            data_root: folder that holds data sets.
        """
        runs = prepare(experiment.grid, runs_folder(out), data_root) if experiment.grid else []
        return Reproduction(experiment, out, runs)

    def measure(self) -> None:
        """Measure the experiment's prototypes, if it has any; what was measured before is not repeated."""
        plan = self.experiment.uniformity
        if plan is None:
            return
        self.measurements = []
        with track("measuring prototypes", total=len(plan.counts) * len(GENERATORS)) as advance:
            for measurement in measure_all(self.path("jsonl"), plan):
                self.measurements.append(measurement)
                advance(1)

    def report(self) -> Report | None:
        """Report on what is done; None if nothing is."""
        folders = [run.folder for run in self.runs if run.record]
        if not folders and not self.measurements:
            return None
        missing = len(self.runs) - len(folders)
        notes = [f"{missing} of {len(self.runs)} runs are missing because they failed"] if missing else []
        return report_on_experiment(self.experiment, read_runs(folders), self.measurements, notes)

    def path(self, kind: str) -> Path:
        """Where the report of a kind is written: a file, or a folder of figures.

        Args:
            kind: format of the report, such as "html".
        """
        name = f"{self.experiment.name}-{self.experiment.scale}"
        return self.out / (name if kind in FIGURE_FORMATS else f"{name}.{kind}")


def runs_folder(out: Path) -> Path:
    """The folder of the runs below the folder of the results.

    Args:
        out: folder of the results.

    Example:
        >>> runs_folder(Path("results")).as_posix()
        'results/runs'
    """
    return out / "runs"
