"""Runs named steps one after the other, and says of each whether it passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress


@dataclass(frozen=True)
class Result:
    """The result of one step. `detail` says what failed, or counts what passed. `code` is the exit
    code that it asks for: 2 if a file cannot be read, 1 if it fails otherwise.
    """

    step: str
    passed: bool
    seconds: float
    detail: str
    code: int

    @property
    def row(self) -> dict[str, Any]:
        """What is printed, as {step, passed, seconds, detail}."""
        return {key: part for key, part in asdict(self).items() if key != "code"}


def run(steps: Mapping[str, Callable[[], str]], progress: Progress) -> Iterator[Result]:
    """Run the steps, also after one has failed. A step returns what its result says, or raises
    FairleadError.
    """
    for name, step in steps.items():
        progress.update(name, "running")
        began = time.monotonic()
        try:
            detail, code = step(), 0
        except FairleadError as error:
            detail, code = str(error), error.exit_code
        progress.finish(name, "failed" if code else "passed")
        yield Result(name, not code, round(time.monotonic() - began, 1), detail, code)
