"""The protocol of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead.checks.conformance.cases import Case
from fairlead.common.progress import Progress


@dataclass(frozen=True)
class Decision:
    """An engine's answer to a case; `object` is the object afterwards, None where it is refused
    or deleted.
    """

    allowed: bool
    message: str = ""
    object: Any = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inexpressible:
    """A case that an engine has no way to ask or to answer, and why. All of them: the table in
    docs/conformance.md.
    """

    reason: str


@dataclass(frozen=True)
class Undecided:
    """A case that got no decision to compare, so that it fails, and why: the policies or the
    engine failed at it.
    """

    reason: str


Outcome = Decision | Inexpressible | Undecided


class Engine(Protocol):
    """Enforces the intents, in its own real program."""

    name: str
    asks_cluster: bool
    """Whether it is made with the cluster to ask, as `target`."""

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """The outcome of each case, in any order. Raises FairleadError where the engine itself
        does not work.
        """
