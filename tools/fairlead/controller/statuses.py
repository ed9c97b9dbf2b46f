"""Words the status of the objects Fairlead and Policy.

Source of the conditions' form: Kubernetes API conventions, "Typical status properties".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.common import texts
from fairlead.policy.policy_objects import FAIRLEAD, Key

READY = "Ready"
_MOST = 10
"""The most errors that a status lists."""
LONGEST = 1000
"""The most characters of a message: OPA quotes whole lines."""
_LINE = re.compile(r"^spec[^ ]*:(\d+): ")


@dataclass(frozen=True)
class Outcome:
    """What became of a change of the objects: the revision in force and on how many OPAs of how
    many it is, or the error, with the mistakes of each object. `pinned` says how a pinned revision
    ends, if one is in force in place of the objects.
    """

    revision: str = ""
    installed: str = ""
    error: str = ""
    faults: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    pinned: str = ""

    @property
    def message(self) -> str:
        """The outcome in a sentence."""
        if self.pinned:
            return f"revision {self.revision} is pinned in place of the objects: {self.pinned}"
        return self.error or f"revision {self.revision} is in force"

    @property
    def is_final(self) -> bool:
        """Whether the same objects would have the same outcome again."""
        return not self.error or bool(self.faults)


def of(value: Mapping[str, Any], outcome: Outcome) -> dict[str, Any] | None:
    """The status of an object (as a patch) after this outcome; None if it stays.

    An object that is in force as it is stays so, whatever is wrong with others.
    """
    metadata, before = value["metadata"], value.get("status") or {}
    faults = outcome.faults.get((value["kind"], metadata["name"]), ())
    status: dict[str, Any] = {"observedGeneration": metadata["generation"], "errors": None}
    if outcome.pinned:
        ready, reason, message = "False", "Pinned", outcome.message
        if value["kind"] == FAIRLEAD:
            status |= {"revision": outcome.revision, "installed": outcome.installed}
    elif not outcome.error:
        ready, reason, message = "True", "InForce", f"in force on {outcome.installed} OPAs"
        status |= {"revision": outcome.revision, "installed": outcome.installed}
    elif faults:
        ready, reason, message = "False", "Mistake", "; ".join(faults)
        status["errors"] = [_error(fault) for fault in faults[:_MOST]]
    elif _in_force(before, metadata["generation"]):
        return None
    else:
        ready, message = "False", f"what was in force before stays so: {outcome.error}"
        reason = "OthersAreWrong" if outcome.faults else "Failed"
    status["conditions"] = [conditioned(value, READY, ready, reason, message)]
    same = all(before.get(key) == part for key, part in status.items())
    return None if same else status


def condition(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The only condition of an object; empty if it has none."""
    conditions = (value.get("status") or {}).get("conditions") or ()
    return next(iter(conditions), {})


def conditioned(
    value: Mapping[str, Any], type_: str, status: str, reason: str, message: str
) -> dict[str, Any]:
    """The condition of an object in place of its former one."""
    old = condition(value)
    return {
        "type": type_,
        "status": status,
        "observedGeneration": value["metadata"]["generation"],
        "lastTransitionTime": old["lastTransitionTime"]
        if old.get("status") == status
        else texts.now(),
        "reason": reason,
        "message": message[:LONGEST],
    }


def _in_force(status: Mapping[str, Any], generation: int) -> bool:
    return status.get("observedGeneration") == generation and any(
        condition["status"] == "True" for condition in status.get("conditions") or ()
    )


def _error(fault: str) -> dict[str, Any]:
    """A mistake as {line, message}; without a line if it is of none."""
    line = _LINE.match(fault)
    return {"message": fault[:LONGEST], **({"line": int(line[1])} if line else {})}
