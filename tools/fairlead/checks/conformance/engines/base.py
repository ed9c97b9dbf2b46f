"""What every engine implements (class Engine), and the outcomes of a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead.checks.conformance.cases import Case
from fairlead.common.progress import Progress


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


Outcome = Decision | Inexpressible | Undecided


class Engine(Protocol):
    """Decides on cases with its own real program."""

    name: str
    asks_cluster: bool
    """Whether its constructor takes a cluster, as `target`."""

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """The outcome of each case, in any order. Raises FairleadError if the engine itself does
        not work.
        """
