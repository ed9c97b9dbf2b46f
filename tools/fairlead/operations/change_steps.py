"""Brings a revision of the policies into force, whatever engine enforces them.

The order is the same for all: what has to be there before, the policies, the wait until every
server decides by them, what API servers enforce (webhooks or bindings), the history, and at last
the removal of what nothing needs any more. An engine fills in each step: it is one of
fairlead.operations.strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import FairleadError, UsageError
from fairlead.operations import history
from fairlead.operations.deployed_state import Served
from fairlead.operations.strategies.base import Operation, Overtaken, Revision, Strategy


@dataclass(frozen=True)
class Change:
    """What the history says of a change: see history.record."""

    action: str
    message: str | None = None
    restored: int | None = None


@dataclass(frozen=True)
class Result:
    """A revision that is in force: what every server decides by, the entry in the history if there
    is a new one, and what is wrong although the policies are in force.
    """

    revision: str
    previous: str | None
    entry: int | None
    served: list[Served]
    warnings: list[str]

    @property
    def states(self) -> list[dict[str, Any]]:
        """What every server decides by, as {url, ready, revision}."""
        return [
            {"url": each.opa.url, "ready": each.ready, "revision": each.revision}
            for each in self.served
        ]

    def document(self) -> dict[str, Any]:
        """{revision, previous, entry, opa: [{url, revision}], warnings}."""
        return {
            "revision": self.revision,
            "previous": self.previous,
            "entry": self.entry,
            "opa": [{"url": server.opa.url, "revision": server.revision} for server in self.served],
            "warnings": self.warnings,
        }


def bring(
    operation: Operation,
    strategy: Strategy,
    new: Revision,
    former: Revision | None,
    change: Change,
) -> Result:
    """Put `new` in force, and return once every server and API server decides by it. If that fails,
    `former` is put back; without one, the next run continues. The history gets an entry, unless a
    push or a rollback changes nothing. Raises UsageError, FairleadError.
    """
    is_unchanged = is_same(operation.config_map, new)
    superfluous = strategy.superfluous(new, former)  # while the former policies say what there is
    try:
        servers, warnings = _put(strategy, new, former)
    except Overtaken:
        raise
    except (FairleadError, KeyboardInterrupt) as error:
        if former is None or isinstance(error, UsageError):
            raise
        operation.progress.update("policies", f"putting revision {former.revision} back")
        _put(strategy, former, new)
        reason = str(error) or "interrupted"
        raise FairleadError(
            f"{reason}; revision {former.revision} was put back and is in force"
        ) from error
    entry = None
    if change.action == "deploy" or not is_unchanged:
        entry = _recorded(operation, new, change)
    warnings += strategy.remove(new, superfluous)
    return Result(new.revision, former.revision if former else None, entry, servers, warnings)


def _recorded(operation: Operation, new: Revision, change: Change) -> int | None:
    """Add an entry to the history; returns its number."""
    entry = history.record(
        operation.objects,
        dict(new.manifest),
        change.action,
        change.message,
        restored=change.restored,
    )
    return entry.number


def _put(
    strategy: Strategy, new: Revision, former: Revision | None
) -> tuple[list[Served], list[str]]:
    strategy.apply(new, former)
    servers = strategy.wait(new)
    return servers, strategy.enforce(new, former)


def is_same(before: Mapping[str, Any] | None, new: Revision) -> bool:
    """Whether policies and settings are in force already."""
    return new.records(before) and history.settings_of(before or {}) == history.settings_of(
        new.manifest
    )
