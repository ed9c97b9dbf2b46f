"""Enables intents again whose `fairlead disable --for` is over.

It runs in each `fairlead controller`. Several may run: all of them do the same, each change names
the version that it is based on, and the history gets one entry. Nothing is remembered: the end
stands in the webhooks, beside what is disabled. So after a time in which none runs, the first look
enables what is over.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.common import texts
from fairlead.deployment import disabled_intents, disabled_objects, history_log
from fairlead.deployment.disabled_objects import Record
from fairlead.deployment.history_log import ENABLE, EXCEPTION, Entry
from fairlead.deployment.names import CONTROLLER
from fairlead.keeper.regular import Regular
from fairlead.kube import clients
from fairlead.kube.errors import ApiServerError
from fairlead.kube.events import event

log = logging.getLogger(__name__)

PAUSE = 5.0
"""Seconds between two looks at the webhooks."""
BY = "fairlead (the time was over)"
"""Who enables intents here, as the history says it."""

_RBAC = "rbac.authorization.k8s.io/v1"


class SwitchEnds(Regular):
    """Looks at the webhooks again and again, and enables intents whose time is over."""

    name = "switches"
    pause = PAUSE
    failing = "what is disabled cannot be enabled in time"

    def look(self) -> None:
        """Enable what is over. Raises ApiServerError if that fails."""
        switched = disabled_intents.webhooks(self._objects)
        over = {
            name: record
            for name, record in switched.disabled.records.items()
            if (late := record.late(datetime.now(UTC))) is not None and late >= timedelta()
        }
        if not over:
            return
        self._tell(over, switched.about)
        disabled_intents.patch_each(
            self._objects,
            list(switched.live)[::-1],
            lambda live: disabled_intents.on(live, _over(live, over)),
        )
        log.info("enabled %s: the time was over", ", ".join(over))

    def _tell(self, over: Mapping[str, Record], about: Mapping[str, str]) -> None:
        """Write the history's entry, once, and an Event. It comes before the change, so that it is
        not lost if this process ends; a failure to write it delays no end.
        """
        entry_ = entry(list(over.values()), BY, list(over))
        try:
            if _told(history_log.read(self._objects), over):
                return
            history_log.appended(self._objects, entry_, bounded=False)
            message = f"{', '.join(over)}: enabled, as the time was over; {entry_.message}"
            self._objects.create(
                event("Normal", "IntentEnabled", message, about=about, component=CONTROLLER)
            )
        except ApiServerError as error:
            log.warning("the end of what was disabled is not in the history: %s", error)


def _over(live: Mapping[str, Any], over: Mapping[str, Record]) -> set[str]:
    """The intents to enable in an object: not those that somebody disables for longer right now."""
    present = disabled_objects.records(live)
    return {
        name for name, record in over.items() if present.get(name, record) in (record, Record(name))
    }


def _told(entries: Collection[Entry], over: Mapping[str, Record]) -> bool:
    """Whether the history says already that these were enabled after they were disabled."""
    last: dict[str, Entry] = {}
    for each in entries:
        if each.action == EXCEPTION:
            continue
        last |= dict.fromkeys(each.intents, each)
    return all(
        name in last and last[name].action == ENABLE and last[name].time >= (record.since or "")
        for name, record in over.items()
    )


def entry(records: Collection[Record], by: str | None, intents: Collection[str]) -> Entry:
    """The entry about intents that are enabled; it says what ends, also what somebody disabled
    without an entry.
    """
    message = "; ".join(f"{record.intent}: {record.ended}" for record in records) or None
    return Entry(0, ENABLE, texts.now(), by, message, intents=tuple(intents))


def missing(objects: clients.Objects) -> str | None:
    """Why nothing in the cluster enables what is over; None if something does. Raises
    ApiServerError.
    """
    if objects.get(_RBAC, "ClusterRoleBinding", CONTROLLER) is not None:
        return None
    return (
        "what is deployed has nothing that would end it: run `fairlead deploy` with the engine "
        "opa or python"
    )
