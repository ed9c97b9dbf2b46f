"""Which tests a process runs in turn, and what a run says that it left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import left_out
import pytest
import run_order


def item(file: str, name: str, profile: str | None = None) -> Any:
    """A collected test."""
    test = SimpleNamespace(nodeid=f"{file}::{name}", path=Path(file))
    if profile:
        test.callspec = SimpleNamespace(params={"profile": profile})
    return test


def test_tests_of_a_profile_stay_together_and_the_longest_group_comes_first() -> None:
    long, short, new = "tools/test_long.py", "tools/test_short.py", "tools/test_new.py"
    one, other = "integration/tests/test_one.py", "integration/tests/test_other.py"
    items = [
        item(short, "a"),
        item(one, "b", "two"),
        item(new, "c"),
        item(long, "d"),
        item(other, "e", "two"),
        item(one, "f"),
    ]
    run_order.sort(items, {long: 30.0, short: 1.0, one: 60.0, other: 10.0})
    names = [each.nodeid.partition("::")[2] for each in items]
    assert names == ["b", "e", "d", "f", "a", "c"]


def test_durations_are_merged_with_those_of_files_that_still_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "testdata" / "durations.json"
    path.parent.mkdir()
    (tmp_path / "test_there.py").touch()
    path.write_text('{"test_there.py": 2.0, "test_gone.py": 3.0}')
    monkeypatch.setattr(run_order, "DURATIONS", path)
    run_order.write({"test_new.py": 4.04})
    assert list(run_order.durations().items()) == [("test_new.py", 4.0), ("test_there.py", 2.0)]


class Reporter:
    """Takes what is told at the end of a run."""

    def __init__(self, *reasons: str) -> None:
        self.lines: list[str] = []
        self.stats = {
            "skipped": [
                SimpleNamespace(nodeid=f"test_{number}", longrepr=("file", 1, f"Skipped: {reason}"))
                for number, reason in enumerate(reasons)
            ]
        }

    def section(self, title: str, **_: Any) -> None:
        self.lines.append(title)

    def line(self, text: str) -> None:
        self.lines.append(text)


def test_what_a_program_was_missing_for_is_named_with_the_program() -> None:
    reason = left_out.reason("kube-mgmt", "put it on PATH,\nor set a variable")
    reporter: Any = Reporter(reason, "an embedded cluster alone", reason)
    left_out.tell(reporter)
    assert reporter.lines == [
        "left out for want of a program",
        "kube-mgmt (put it on PATH, or set a variable): 2",
        "  test_0",
        "  test_2",
    ]
    nothing: Any = Reporter("an embedded cluster alone")
    left_out.tell(nothing)
    assert nothing.lines == []
