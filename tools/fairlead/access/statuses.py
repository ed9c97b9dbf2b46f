"""The conditions of a transient binding: OPA's, with what only the controller knows, such as a role
that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.access.bindings import (
    EFFECTIVE,
    EXPIRED,
    FAILED,
    Condition,
    Object,
    condition,
)
from fairlead.access.granting import NotGranted
from fairlead.common import texts

LONGEST = 1000
"""The most characters of a message: those of API servers may list many rules."""


def of(parent: Object, decided: Iterable[Condition], trouble: NotGranted | None) -> list[Condition]:
    """The conditions that were decided. If the binding cannot be made, they say why.

    `lastTransitionTime` is the one before unless the status changes.
    """
    conditions = [dict(condition) for condition in decided]
    if trouble:
        problem = {"reason": trouble.reason, "message": str(trouble)[:LONGEST]}
        for condition in conditions:
            if condition["type"] == FAILED:
                condition.update(problem, status="True")
            elif condition["type"] == EFFECTIVE and condition["status"] == "False":
                condition.update(problem)
    return [_dated(parent, condition) for condition in conditions]


def expired(parent: Object) -> list[Condition]:
    """The conditions after the end, in the words of policies/lib/transient_access: OPA may be
    away.
    """
    message = f"since {parent['spec']['validUntil']}"
    return _both(parent, ("False", EXPIRED, message), ("False", "Valid", ""))


def refused(parent: Object, trouble: NotGranted) -> list[Condition]:
    """The conditions of a transient binding that nobody decides about."""
    reason, message = trouble.reason, str(trouble)
    return _both(parent, ("False", reason, message), ("True", reason, message))


def _both(
    parent: Object, effective: tuple[str, str, str], failed: tuple[str, str, str]
) -> list[Condition]:
    generation = parent["metadata"].get("generation")
    of_generation = {"observedGeneration": generation} if generation is not None else {}
    return [
        _dated(
            parent,
            {"type": kind, "status": status, "reason": reason, "message": text, **of_generation},
        )
        for kind, (status, reason, text) in ((EFFECTIVE, effective), (FAILED, failed))
    ]


def _dated(parent: Object, new: Condition) -> Condition:
    before = condition(parent, new["type"])
    unchanged_since = before.get("status") == new["status"] and before.get("lastTransitionTime")
    at = unchanged_since or new.get("lastTransitionTime") or texts.now()
    return {**new, "lastTransitionTime": at}
