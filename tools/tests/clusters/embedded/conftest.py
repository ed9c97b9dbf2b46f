"""State folders for clusters, and supervisors in them. Processes that a failed test left are
ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.clusters.embedded.client import Supervisor


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state folder with a longer path than a socket may have. Processes of a failed test are
    ended.
    """
    path = tmp_path / ("long-" * 25)
    path.mkdir()
    yield path
    Supervisor(path).stop()


@pytest.fixture
def owner(folder: Path) -> Iterator[Supervisor]:
    started = Supervisor.start(folder)
    yield started
    started.stop()
