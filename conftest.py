"""Set-up for all tests: signals and hypothesis."""

from __future__ import annotations

import os
import signal

import hypothesis

# A shell starts background jobs with SIGINT ignored, and child processes inherit that. Some tests
# interrupt their child processes by SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline for an example: its time depends on the machine.
hypothesis.settings.register_profile("fairlead", deadline=None)
hypothesis.settings.load_profile("fairlead")


def pytest_runtest_setup() -> None:
    """Give child processes no width of a terminal. The module readline, which debuggers import,
    sets these variables behind the back of os.environ.
    """
    for variable in ("COLUMNS", "LINES"):
        os.environ.pop(variable, None)
        os.unsetenv(variable)
