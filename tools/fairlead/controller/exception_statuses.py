"""Says of each PolicyException whether it is in force, and writes into the history when it ended: a
part of `fairlead controller`.

OPA itself looks at the time. So an exception ends on time whatever becomes of this process, and
here is nothing that puts it in force.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from fairlead.common import texts
from fairlead.common.errors import UsageError
from fairlead.controller import statuses
from fairlead.deployment import history_log
from fairlead.deployment.history_log import EXCEPTION, Entry
from fairlead.keeper.regular import Regular
from fairlead.kube import clients
from fairlead.kube.own_kinds import EXCEPTIONS, VERSION
from fairlead.operations import deployed_state, drift
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.policy_set import PolicySet

IN_FORCE = "InForce"
"""The condition, and its reason if it is true."""
ENDED = "Ended"
"""The reason of an exception whose end has come."""
BY = "fairlead (the time was over)"


class ExceptionStatuses(Regular):
    """Looks at the exceptions again and again. Several may run: all of them do the same."""

    name = "exceptions"
    pause = 5.0
    failing = "the status of exceptions cannot be kept"

    def __init__(self, objects: clients.Objects) -> None:
        super().__init__(objects)
        self._before: dict[str, PolicyException] = {}
        self._names: tuple[Any, Collection[str]] = (None, ())

    def look(self) -> None:
        """Write what is new. Raises ApiServerError."""
        names = self._in_force()
        if names is None:
            return
        now = datetime.now(UTC)
        current: dict[str, PolicyException] = {}
        for value in self._objects.list(VERSION, EXCEPTIONS[1], None):
            try:
                exception = PolicyException.read(value)
            except UsageError as error:  # another version let the API server store it
                self._say(value, "False", "Unreadable", str(error))
                continue
            if exception.has_ended(now):
                if statuses.condition(value).get("reason") != ENDED:
                    self._note(exception, f"{exception.title} ended", BY)
                self._say(value, "False", ENDED, f"it ended at {exception.spec.until}")
                continue
            current[value["metadata"]["uid"]] = exception
            unknown = [intent for intent in exception.spec.intents if intent not in names]
            about = f"no such intent is in force: {', '.join(unknown)}"
            if len(unknown) == len(exception.spec.intents):
                self._say(value, "False", "NoSuchIntent", about)
            else:
                message = f"until {exception.spec.until}"
                self._say(value, "True", IN_FORCE, f"{message}; {about}" if unknown else message)
        self._note_deleted(current, now)

    def _note_deleted(self, current: dict[str, PolicyException], now: datetime) -> None:
        for uid, exception in self._before.items():
            if uid not in current and not exception.has_ended(now):
                self._note(exception, f"{exception.title} was deleted", None)
        self._before = current

    def _in_force(self) -> Collection[str] | None:
        """The names of the instances of intents in force; None if nothing is deployed."""
        config_map = deployed_state.config_map(self._objects)
        if config_map is None:
            return None
        version = config_map["metadata"]["resourceVersion"]
        if self._names[0] != version:
            policies = PolicySet.deployed(config_map["data"], drift.settings(config_map))
            self._names = version, {instance.name for instance in policies.active}
        return self._names[1]

    def _say(self, value: Mapping[str, Any], status: str, reason: str, message: str) -> None:
        """Write the condition, unless it is there."""
        before = statuses.condition(value)
        after = statuses.conditioned(value, IN_FORCE, status, reason, message)
        if {**before, "lastTransitionTime": ""} != {**after, "lastTransitionTime": ""}:
            self._objects.merge_status(value, {"conditions": [after]})

    def _note(self, exception: PolicyException, what: str, by: str | None) -> None:
        """Write an entry of the history, unless another controller has."""
        spec = exception.spec
        entry = Entry(
            0,
            EXCEPTION,
            texts.now(),
            by,
            f"{what}: {spec.reason} ({spec.owner})",
            intents=tuple(spec.intents),
            until=spec.until,
        )
        entries = history_log.read(self._objects)
        if not any((each.message, each.until) == (entry.message, entry.until) for each in entries):
            history_log.appended(self._objects, entry)
