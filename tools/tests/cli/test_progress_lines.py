"""Progress where the output is not a terminal: a line for each step."""

from __future__ import annotations

import re

import pytest

from fairlead.cli import output


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, with N for each number of seconds."""
    captured = capsys.readouterr()
    assert captured.out == ""
    return [re.sub(r"\(\d+(\.\d)? s", "(N s", line) for line in captured.err.splitlines()]


def test_a_step_has_one_line_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as progress:
        progress.update("deploy", "applying Namespace fairlead")
        progress.update("opa", "starting")
        progress.update("deploy", "applying ConfigMap fairlead-policies", done=1, total=2)
        assert lines(capsys) == []
        progress.finish("opa", "serving")
        assert lines(capsys) == ["opa: serving (N s)"]
        progress.finish("deploy", "applied 2 objects")
        progress.finish("image", "is there already")
    assert lines(capsys) == ["deploy: applied 2 objects (N s)", "image: is there already"]


def test_a_step_that_never_ends_is_told_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as progress:
        progress.update("chaos", "starting")
        progress.update("chaos", "checking every pod")
    assert lines(capsys) == ["chaos: checking every pod (N s)"]


def stopped() -> None:
    with output.progress() as progress:
        progress.update("deploy", "applying Namespace fairlead")
        raise KeyboardInterrupt


def test_a_failure_tells_where_a_step_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert lines(capsys) == ["deploy: applying Namespace fairlead ... stopped (N s)"]


def test_a_step_of_minutes_shows_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_ALIVE", 0.0)
    with output.progress() as progress:
        progress.update("etcd", "compiling", done=1, total=4)
        progress.finish("etcd", "ready")
    assert lines(capsys) == ["etcd: compiling 25% (N s so far)", "etcd: ready (N s)"]
