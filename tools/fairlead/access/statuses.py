"""The conditions of a transient binding: OPA's, with what only the controller knows, such as a role
that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.access.bindings import Object
from fairlead.access.granting import NotGranted
from fairlead.common import texts

Condition = Mapping[str, Any]
EFFECTIVE, FAILED = "effective", "failed"
LONGEST = 1000
"""The most characters of a message: those of API servers may list many rules."""


def of(parent: Object, decided: Iterable[Condition], trouble: NotGranted | None) -> list[Condition]:
    """The conditions that were decided. If the binding cannot be made, they say why.

    `lastTransitionTime` is the one before unless the status changes.
    """
    conditions = [dict(condition) for condition in decided]
    if trouble:
        why = {"reason": trouble.reason, "message": str(trouble)[:LONGEST]}
        for condition in conditions:
            if condition["type"] == FAILED:
                condition.update(why, status="True")
            elif condition["type"] == EFFECTIVE and condition["status"] == "False":
                condition.update(why)
    return [_dated(parent, condition) for condition in conditions]


def expired(parent: Object) -> list[Condition]:
    """The conditions after the end, in the words of policies/lib/transient_access: OPA may be
    away.
    """
    since = f"since {parent['spec']['validUntil']}"
    conditions = [
        {"type": EFFECTIVE, "status": "False", "reason": "Expired", "message": since},
        {"type": FAILED, "status": "False", "reason": "Valid", "message": ""},
    ]
    generation = parent["metadata"].get("generation")
    of_generation = {"observedGeneration": generation} if generation is not None else {}
    return [_dated(parent, {**condition, **of_generation}) for condition in conditions]


def condition(parent: Object, type_: str) -> Condition:
    """The condition of this type as it was written last; empty if there is none."""
    for each in (parent.get("status") or {}).get("conditions") or ():
        if each.get("type") == type_:
            return dict(each)
    return {}


def _dated(parent: Object, new: Condition) -> Condition:
    before = condition(parent, new["type"])
    same = before.get("status") == new["status"] and before.get("lastTransitionTime")
    at = same or new.get("lastTransitionTime") or texts.now()
    return {**new, "lastTransitionTime": at}
