"""The audit trail: Events about transient bindings, written in the order of what happened and
without delaying it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from queue import Empty, Full, Queue
from threading import Event
from typing import Any, Literal

from fairlead.access.bindings import GROUP, VERSION, Key, Object, kind_of
from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import ACCESS
from fairlead.kube import api_paths
from fairlead.kube.clients import Objects
from fairlead.kube.events import event

log = logging.getLogger(__name__)

MOST = 10_000
"""The most Events that wait to be written; more than that are only logged."""
CLUSTER_NAMESPACE = "default"
"""Where API servers have the Events about objects without a namespace."""


class Trail:
    """Writes Events. One thread calls `run`."""

    def __init__(self, api: Objects) -> None:
        self._api = api
        self._waiting: Queue[Mapping[str, Any]] = Queue(MOST)

    def tell(
        self, kind: Literal["Normal", "Warning"], reason: str, message: str, about: Object
    ) -> None:
        """Note that this happened to a transient binding; returns at once. Of the message, control
        characters are escaped: users write parts of it, and could forge lines of the log.
        """
        message = texts.printable(message)
        metadata = about["metadata"]
        namespace = metadata.get("namespace", CLUSTER_NAMESPACE)
        log.info("%s/%s: %s: %s", namespace, metadata["name"], reason, message)
        reference = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": namespace,
            "uid": metadata["uid"],
        }
        try:
            self._waiting.put_nowait(
                event(kind, reason, message, about=reference, component=ACCESS)
            )
        except Full:
            log.warning("too many Events wait: the last one is only in this log")

    def run(self, stop: Event) -> None:
        """Write what was told until `stop` is set and nothing waits any more."""
        while not stop.is_set() or not self._waiting.empty():
            try:
                event = self._waiting.get(timeout=0.5)
            except Empty:
                continue
            path = api_paths.joined("v1", event["metadata"]["namespace"], "events")
            try:
                self._api.call("POST", path, event, manager=ACCESS)
            except FairleadError as error:
                log.warning("an Event could not be written: %s", error)


def described(parent: Object) -> str:
    """Who has which role until when, and by whom."""
    spec = parent["spec"]
    names = [f"{subject['kind']} {subject['name']}" for subject in spec["subjects"]]
    suffix = f" and {len(names) - 3} more" if len(names) > 3 else ""
    role = spec["roleRef"]
    parts = [
        f"{', '.join(names[:3])}{suffix}: {role['kind']} {role['name']} until {spec['validUntil']}"
    ]
    for word, name in (
        ("requested", spec.get("requestedBy")),
        ("approved", parent.get("approvedBy")),
    ):
        parts += [f"{word} by {name}"] if name else []
    parts += [f"reason: {spec['reason']}"] if spec.get("reason") else []
    return ", ".join(parts)


def former(key: Key, uid: str | None) -> dict[str, Any]:
    """What is known of a parent that is gone, for an Event about it."""
    namespace = {"namespace": key[0]} if key[0] else {}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind_of(key).parent,
        "metadata": {"name": key[1], "uid": uid, **namespace},
    }


def lost(child: Object) -> str:
    """Who has lost what with this binding."""
    subjects = child.get("subjects") or []
    names = ", ".join(f"{subject['kind']} {subject['name']}" for subject in subjects[:3])
    suffix = f" and {len(subjects) - 3} more" if len(subjects) > 3 else ""
    return f"{names}{suffix} lost the {child['roleRef']['kind']} {child['roleRef']['name']}"
