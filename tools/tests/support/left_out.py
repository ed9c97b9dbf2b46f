"""Tests that need a program which is not everywhere: they are left out without it, and the end of
the run names them with the program.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NoReturn

import pytest

from fairlead.programs import toolchain

_REASON = re.compile(r"(?:Skipped: )?without (?P<program>[^:]+): (?P<remedy>.*)", re.DOTALL)


def reason(program: str, remedy: str) -> str:
    """Why a test is left out without this program; `remedy` says how to get it."""
    return f"without {program}: {remedy}"


def skip(program: str, remedy: str) -> NoReturn:
    """Leave out the running test."""
    pytest.skip(reason(program, remedy))


def unless_built(program: str) -> pytest.MarkDecorator:
    """Leaves out tests while a program of the toolchain, which takes long to build, is not built.

    It says nothing of what must be there to build it.
    """
    return pytest.mark.skipif(
        toolchain.states([program])[0].path is None,
        reason=reason(program, f"`fairlead tools --build {program}` builds it"),
    )


def tell(reporter: pytest.TerminalReporter) -> None:
    """Name the tests that a program was missing for."""
    tests: dict[tuple[str, str], list[str]] = defaultdict(list)
    for report in reporter.stats.get("skipped", ()):
        _, _, text = report.longrepr
        if match := _REASON.fullmatch(text):
            tests[match["program"], " ".join(match["remedy"].split())].append(report.nodeid)
    if not tests:
        return
    reporter.section("left out for want of a program", yellow=True)
    for (program, remedy), names in sorted(tests.items()):
        reporter.line(f"{program} ({remedy}): {len(names)}")
        for name in names:
            reporter.line(f"  {name}")
