from __future__ import annotations

from pathlib import Path

import pytest

from upcl.core.errors import UserError
from upcl.model.plan import UpdateIdentity
from upcl.training.shared_folder import SharedRunFolder
from upcl.training.world import World


class Second(World):
    """Another process than the first; what it is sent is empty."""

    @property
    def is_first(self) -> bool:
        return False

    def share(self, compute):  # type: ignore[no-untyped-def]  # noqa: ARG002
        return None


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    with SharedRunFolder(tmp_path / "run", UpdateIdentity({}), Second(1, 2), resume=False, save_seconds=0) as folder:
        folder.truncate_events((0, 0, 0))
        folder.log({"task": 0, "stage": 0, "epoch": 0})
        folder.save_stage(0, 0, {"epoch": 0})
        folder.save_task(0, {"accuracy": 1.0})
        assert folder.open_stage(0, 0) is None and folder.last_task(1) is None
    assert not (tmp_path / "run").exists()


def test_one_process_has_an_ordinary_folder(tmp_path: Path) -> None:
    with SharedRunFolder(tmp_path, UpdateIdentity({}), World(), resume=False, save_seconds=0) as folder:
        folder.log({"task": 0, "stage": 0, "epoch": 0})
        folder.save_stage(0, 0, {"epoch": 3})
        state = folder.open_stage(0, 0)
        assert state is not None and state["epoch"] == 3
        folder.truncate_events((0, 0, 0))
        assert (tmp_path / "events.jsonl").read_text() == ""
        with pytest.raises(UserError, match="in use by another process"):
            SharedRunFolder(tmp_path, UpdateIdentity({}), World(), resume=True, save_seconds=0).__enter__()
