"""Progress: what fits on a terminal, and a line for each step where the output is no terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

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


@pytest.mark.parametrize("width", [60, 80, 119, 120, 200])
def test_on_a_terminal_no_count_and_no_time_is_cut_off(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    bars = Bars(*output._progress_columns(width), console=console)
    bars.add_task("waiting until every OPA serves fc8222946640", name="policies", total=None)
    bars.add_task(
        "applying ValidatingAdmissionPolicyBinding fairlead-access-accounts",
        name="deploy",
        total=56,
        completed=3,
    )
    with console.capture() as capture:
        console.print(bars.get_renderable())
    shown = capture.get()
    text = " ".join(shown.split())
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert text.count("0:00:00") == 2
    assert "3/56" in text
    assert "?" not in text
    for word in ("ValidatingAdmissionPolicyBinding", "fairlead-access-accounts", "fc8222946640"):
        assert word in text
