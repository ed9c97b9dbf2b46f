"""Gives every test its own environment of programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from toolchain_world import Told, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An environment with nothing on PATH and an empty cache."""
    made = World(tmp_path)
    for key, value in made.environment.items():
        monkeypatch.setenv(key, value)
    yield made
    made.close()


@pytest.fixture
def told() -> Told:
    """A progress listener that records the states."""
    return Told()
