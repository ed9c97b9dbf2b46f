"""Set-up for all tests: signals, hypothesis, the order of a run, and what a run left out."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import hypothesis
import left_out
import pytest
import run_order

# A shell starts background jobs with SIGINT ignored, and child processes inherit that. Some tests
# interrupt their child processes by SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline for an example: its time depends on the machine.
hypothesis.settings.register_profile("fairlead", deadline=None)
hypothesis.settings.load_profile("fairlead")

LABORATORY = [Path(__file__).parent / name for name in ("lab", "tools/tests/checks")]
"""The folders whose tests all have the mark `lab`."""

_seconds: dict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-durations",
        action="store_true",
        help="write how long each file's tests took into testdata/durations.json",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in LABORATORY):
            item.add_marker(pytest.mark.lab)
    run_order.mark(items)
    yield
    run_order.sort(items, run_order.durations())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop a process of pytest-xdist that does not keep the tests of a group together."""
    grouped = getattr(session.config.option, "loadgroup", False)
    if grouped and any("@" not in item.nodeid for item in session.items):
        raise pytest.UsageError("this pytest-xdist does not group tests with this pytest")


def pytest_runtest_setup() -> None:
    """Give child processes no width of a terminal. The module readline, which debuggers import,
    sets these variables behind the back of os.environ.
    """
    for variable in ("COLUMNS", "LINES"):
        os.environ.pop(variable, None)
        os.unsetenv(variable)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("--write-durations"):
        run_order.write(_seconds)
    left_out.tell(terminalreporter)
