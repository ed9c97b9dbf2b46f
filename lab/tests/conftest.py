"""Marks the tests of the laboratory."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; pytest gives all of a run."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.lab)
