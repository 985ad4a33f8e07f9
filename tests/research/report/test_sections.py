from __future__ import annotations

import pytest

from upcl.research.report.compose import report_on_runs
from upcl.research.report.load import StoredRun


def test_many_feature_maps_are_limited(stored_runs: list[StoredRun], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.research.report.sections.MAX_FEATURE_MAPS", 1)
    report = report_on_runs(stored_runs)
    section = next(section for section in report.sections if section.key == "tsne")
    assert len(section.charts) == 1 and section.description.endswith("The first 1 of 2 configurations.")


def test_every_run_has_its_command_and_fingerprints(stored_runs: list[StoredRun]) -> None:
    section = next(section for section in report_on_runs(stored_runs).sections if section.key == "runs")
    assert len(section.commands) == len(stored_runs)
    for run, (_, fingerprints) in zip(stored_runs, section.commands, strict=True):
        assert run.record.config_digest[:16] in fingerprints
        assert run.record.weights_sha256[:16] in fingerprints
