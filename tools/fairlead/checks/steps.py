"""Runs named steps one after the other, and says of each whether it passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress


@dataclass(frozen=True)
class Result:
    """The result of one step. `detail` says what failed, or counts what passed."""

    step: str
    passed: bool
    seconds: float
    detail: str


def run(steps: Mapping[str, Callable[[], str]], progress: Progress) -> Iterator[Result]:
    """Run the steps, also after one has failed. A step returns what its result says, or raises
    FairleadError.
    """
    for name, step in steps.items():
        progress.update(name, "running")
        began = time.monotonic()
        try:
            detail, passed = step(), True
        except FairleadError as error:
            detail, passed = str(error), False
        progress.finish(name, "passed" if passed else "failed")
        yield Result(name, passed, round(time.monotonic() - began, 1), detail)
