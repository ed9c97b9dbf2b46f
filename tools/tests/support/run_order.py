"""The order of a run, and which tests one process runs in turn: those that share a cluster, and
those of a file. The groups that took longest in the run of testdata/durations.json come first, so
that the processes end together.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

DURATIONS = Path(__file__).parents[3] / "testdata" / "durations.json"
"""Seconds by test file, of one whole run: `pytest --write-durations` measures them."""

NEW = {"integration": 8.0, "tools": 0.5, "lab": 5.0}
"""Seconds of a test in a file that was not measured, by the folder below the checkout."""


def group(item: pytest.Item) -> str:
    """The name of the cluster's profile, or of the file if its tests share none."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("profile", item.path.stem)) if callspec else item.path.stem


def mark(items: Iterable[pytest.Item]) -> None:
    """Tell pytest-xdist the group of each test."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))


def sort(items: list[pytest.Item], durations: Mapping[str, float]) -> None:
    """Put the longest groups first. The tests of a group stay in their order."""
    tests = Counter(_file(item) for item in items)
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        file = _file(item)
        seconds[group(item)] += (
            durations[file] / tests[file] if file in durations else NEW[file.partition("/")[0]]
        )
    items.sort(key=lambda item: (-seconds[group(item)], group(item)))


def durations() -> dict[str, float]:
    """The committed durations; none before the first run was measured."""
    if not DURATIONS.is_file():
        return {}
    measured: dict[str, float] = json.loads(DURATIONS.read_text())
    return measured


def write(seconds: Mapping[str, float]) -> None:
    """Commit these durations, rounded, the longest first. Files that this run left out keep theirs
    as long as they exist.
    """
    root = DURATIONS.parents[1]
    merged = {file: old for file, old in durations().items() if (root / file).is_file()}
    merged |= {file: round(new, 1) for file, new in seconds.items()}
    longest = dict(sorted(merged.items(), key=lambda entry: (-entry[1], entry[0])))
    DURATIONS.write_text(json.dumps(longest, indent=2) + "\n")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
