"""Fixtures for tests of the sidecar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import opa_server
import pytest
from opa_server import OpaServer
from sync_world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with opa_server.running(OpaServer(tmp_path)) as server:
        yield World(server)
