"""Decides again whenever manifests, data or policies change, for `fairlead place --watch`."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.placement import changes, decisions
from fairlead.placement.changes import Change, Replicas
from fairlead.placement.decisions import Inputs, Result
from fairlead.placement.file_inputs import file_stamps

_PAUSE = 1.0
"""Seconds between two looks at files."""
_AGAIN = 10.0
"""Seconds after which what failed is tried again."""


class Source(Protocol):
    """Where everything comes from that decisions are made from, except the policies."""

    def read(self, progress: Progress) -> Inputs:
        """Everything as it is now. Raises FairleadError."""

    def carried_out(self) -> Any:
        """What differs when others have changed what was carried out, if the source knows."""

    def stamp(self) -> Hashable:
        """A value to compare: it changes whenever an input may have changed."""

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, for up to so many seconds."""


@dataclass(frozen=True)
class Decision:
    """A new decision, what it moves, and sentences about what stays where it should not be."""

    result: Result
    changes: Sequence[Change]
    notes: Sequence[str]


class _Rounds(Progress):
    """Passes on the warnings of each round that the last one did not have."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last: set[str] = set()
        self._warnings: set[str] = set()

    def begin(self) -> None:
        """Begin a round."""
        self._last, self._warnings = self._warnings, set()

    def warn(self, message: str) -> None:
        """Pass it on if it is new."""
        if message not in self._last | self._warnings:
            self._progress.warn(message)
        self._warnings.add(message)


class Watch:
    """Decides again on change. `next` blocks until there is something to carry out."""

    def __init__(
        self,
        source: Source,
        *,
        folder: Path | None,
        moves_volumes: bool = False,
        progress: Progress,
    ) -> None:
        """For `folder` and `moves_volumes`, see decisions.decide."""
        self._moves_volumes = moves_volumes
        self._source = source
        self._folder = folder
        self._progress = _Rounds(progress)
        self._running: Replicas = {}
        self._running_before: Replicas = {}
        self._costs: dict[str, Mapping[str, float]] = {}
        self._stamp: Hashable = None
        self._key: Any = None
        self._due = 0.0

    def next(self) -> Decision:
        """The next decision that differs from the last one, or that could not be carried out
        before. What cannot be read or decided is told once, and waited for.
        """
        while True:
            stamp = (self._source.stamp(), file_stamps(self._policies))
            if stamp != self._stamp or (self._due and time.monotonic() >= self._due):
                self._stamp, self._due = stamp, 0.0
                if decision := self._decide():
                    return decision
            self._source.wait(_PAUSE)

    def failed(self) -> None:
        """The last decision could not be carried out as a whole: `next` returns it again after some
        seconds.
        """
        self._key, self._running = None, self._running_before
        self._due = time.monotonic() + _AGAIN

    @property
    def _policies(self) -> list[Path]:
        return [paths.root() / "policies", *([self._folder] if self._folder else [])]

    def _decide(self) -> Decision | None:
        """The decision now; None if nothing is new, or it failed."""
        self._progress.begin()
        try:
            inputs = self._source.read(self._progress)
            result = decisions.decide(
                inputs,
                folder=self._folder,
                running=self._running,
                moves_volumes=self._moves_volumes,
                progress=self._progress,
            )
        except FairleadError as error:
            self._progress.warn(f"{error}\nThe last decision stays until that is corrected")
            self._due = time.monotonic() + _AGAIN
            return None
        key = (
            self._source.carried_out(),
            [
                (
                    document.value,
                    placement and (placement.replicas, placement.clusters, placement.errors),
                )
                for document, placement in result.documents
            ],
        )
        if key == self._key:
            return None
        running = self._running_before = self._running
        moved = changes.between(running, self._costs, result.workloads)
        decided = {each.title: each for each in result.workloads if not each.errors}
        self._key = key
        self._running = {
            each.title: changes.after(each, running.get(each.title, {}))
            for each in result.workloads
        }
        self._costs |= {title: each.costs for title, each in decided.items()}
        return Decision(result, moved, changes.staying(running, result.workloads))
