"""Fixtures for tests and doctests alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def isolated_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Decoded images go to a temporary folder instead of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPCL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
