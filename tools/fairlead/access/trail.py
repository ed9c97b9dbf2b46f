"""The audit trail: Events about transient bindings, written in the order of what happened and
without delaying it."""

from __future__ import annotations

import json
import logging
from queue import Empty, SimpleQueue
from threading import Event, Lock
from typing import Any, Literal

from fairlead.access import bindings
from fairlead.access.bindings import GROUP, VERSION, Key, Object, kind_of
from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import ACCESS
from fairlead.kube import api_paths
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.events import event

log = logging.getLogger(__name__)

MOST = 16 * 2**20
"""The most bytes of Events that wait to be written; more than that are only logged."""
CLUSTER_NAMESPACE = "default"
"""Where API servers have the Events about objects without a namespace."""


class Trail:
    """Writes Events. One thread calls `run`."""

    def __init__(self, api: ApiRequests) -> None:
        self._api = api
        self._waiting: SimpleQueue[tuple[str, bytes]] = SimpleQueue()  # a path and an Event
        self._lock = Lock()
        self._size = 0

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
        report = event(kind, reason, message, about=reference, component=ACCESS)
        body = json.dumps(report, ensure_ascii=False).encode(errors="replace")
        if self._grow(len(body)) <= MOST:
            self._waiting.put((api_paths.joined("v1", namespace, "events"), body))
            return
        self._grow(-len(body))
        log.warning("too many Events wait: the last one is only in this log")

    def run(self, stop: Event) -> None:
        """Write what was told until `stop` is set and nothing waits any more."""
        while not stop.is_set() or not self._waiting.empty():
            try:
                path, body = self._waiting.get(timeout=0.5)
            except Empty:
                continue
            self._grow(-len(body))
            try:
                self._api.send("POST", path, json.loads(body), manager=ACCESS)
            except FairleadError as error:
                log.warning("an Event could not be written: %s", error)

    def _grow(self, by: int) -> int:
        with self._lock:
            self._size += by
            return self._size


def described(parent: Object) -> str:
    """Who has which role until when, and by whom."""
    spec = parent["spec"]
    role = bindings.role(spec["roleRef"])
    parts = [f"{bindings.subjects(spec)}: {role} until {spec['validUntil']}"]
    for word, name in (
        ("requested", spec.get("requestedBy")),
        ("approved", parent.get("approvedBy")),
    ):
        parts += [f"{word} by {bindings.shortened(name)}"] if name else []
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
