"""What every engine implements (class Engine), and the outcomes of a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fairlead.common.errors import UsageError
from fairlead.common.mistakes import Mistake
from fairlead.common.progress import Progress
from fairlead.policy.cases import Case
from fairlead.policy.placement_cases import PlacementCase


@dataclass(frozen=True)
class Decision:
    """An engine's answer to a case. `object` is the object afterwards, None if it is refused or
    deleted.
    """

    allowed: bool
    message: str = ""
    object: Any = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inexpressible:
    """A case that an engine cannot express, with the reason. The table in docs/conformance.md lists
    all of them.
    """

    reason: str


@dataclass(frozen=True)
class Undecided:
    """A case without a decision, because the policies or the engine failed on it, with the reason.
    Such a case fails.
    """

    reason: str


DATA = "the case has data, which only the engine opa takes from a case"
"""Why an engine cannot express a case with data of OPA's."""
EXCEPTIONS = "the case has exceptions, which the engine does not have"
"""Why an engine cannot express a case with exceptions."""


def without_data(case: Case) -> str | None:
    """Why an engine that has no data of OPA's cannot express the case; None if it needs none."""
    return DATA if case.data else None


def without_exceptions(case: Case) -> str | None:
    """Why an engine that knows no exceptions cannot express the case; None if it has none."""
    return EXCEPTIONS if case.exceptions else None


Outcome = Decision | Inexpressible | Undecided


class UnsupportedSettings(UsageError):
    """Settings that an engine cannot express, each with its location in fairlead.yaml."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(mistake.text for mistake in mistakes))
        self.mistakes = tuple(mistakes)


class Engine(Protocol):
    """Decides on cases with its own real program. Its constructor takes the folder of the policies,
    None for the project's.
    """

    name: str
    asks_cluster: bool
    """Whether its constructor also takes a cluster, as `target`."""

    def inexpressible(self, case: Case) -> str | None:
        """Why the engine cannot express the case, as far as that shows without its program; None if
        it can.
        """

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """The outcome of each case, in any order: of cases for which `inexpressible` gives no
        reason, at least one. Raises FairleadError if the engine itself does not work.
        """


@runtime_checkable
class Placer(Protocol):
    """An engine that decides on which clusters workloads run, with the data of each case."""

    def place(
        self, cases: Sequence[PlacementCase], progress: Progress
    ) -> list[dict[str, Any] | None]:
        """The answer to each case as OPA gives it; None where there is none. Raises FairleadError
        if the engine itself does not work.
        """
