"""Drives hypothesis: tries examples until one fails or the budget is used up, and keeps the
smallest failing one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from fairlead.common.progress import Progress

T = TypeVar("T")


class Violation(Exception):
    """An example breaks the contract; the text says how."""


@dataclass
class Search(Generic[T]):
    """The result of a search: the number of examples by outcome, and the smallest failing example
    with the reason.
    """

    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failing: T | None = None
    why: str = ""

    def add(self, other: Search[T]) -> None:
        """Add the result of another search."""
        self.tried += other.tried
        self.outcomes += other.outcomes
        if other.why:
            self.failing, self.why = other.failing, other.why

    def try_known(self, examples: Iterable[T], check: Callable[[T], str]) -> None:
        """Try the examples that were saved from earlier searches."""
        for example in examples:
            self.tried += 1
            try:
                self.outcomes[check(example)] += 1
            except Violation as violation:
                self.failing, self.why = example, str(violation)
                return

    def result(
        self, fuzz: str, seed: int, began: float, document: Callable[[T], Any], **figures: Any
    ) -> dict[str, Any]:
        """The result of a suite: {fuzz, seed, tried, seconds, outcomes, why, example} and its
        figures.

        `why` is None if everything holds, and says otherwise what does not. `example` is the
        smallest failing example as JSON (`document`), if there is one. `began` is the
        time.monotonic() of the start.
        """
        return {
            "fuzz": fuzz,
            "seed": seed,
            "tried": self.tried,
            "seconds": round(time.monotonic() - began, 1),
            "outcomes": [
                {"outcome": outcome, "count": count}
                for outcome, count in self.outcomes.most_common()
            ],
            **figures,
            "why": self.why or None,
            "example": None if self.failing is None else document(self.failing),
        }


def drawn(
    strategy: SearchStrategy[T], *, examples: int, seed: int, name: str, progress: Progress
) -> list[T]:
    """The `examples` that `search` would try, for those who check many at once."""
    collected: list[T] = []

    def collect(example: T) -> str:
        collected.append(example)
        return ""

    search(
        strategy,
        collect,
        examples=examples,
        seed=seed,
        name=name,
        progress=progress,
        shrink=False,
    )
    return collected


def search(
    strategy: SearchStrategy[T],
    check: Callable[[T], str],
    *,
    examples: int,
    seed: int,
    name: str,
    progress: Progress,
    shrink: bool = True,
) -> Search[T]:
    """Try `examples` of `strategy`; `check` names the outcome of one, or raises Violation.

    The same seed gives the same examples. If one fails, the search stops early and looks for
    smaller failing examples, unless `shrink` is false.
    """
    result: Search[T] = Search()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, *([Phase.shrink] if shrink else [])),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @hypothesis.given(strategy)
    def holds(example: T) -> None:
        if result.failing is None:
            result.tried += 1
            progress.update(name, "fuzzing", done=result.tried, total=examples)
        try:
            outcome = check(example)
        except Violation as violation:  # hypothesis runs the smallest example last
            result.failing, result.why = example, str(violation)
            raise
        if result.failing is None:
            result.outcomes[outcome] += 1

    try:
        holds()
    except Violation:
        pass
    except Flaky:
        result.why += " (not every time)"
    progress.finish(name, f"tried {result.tried} examples")
    return result
