"""`fairlead controller --overdue`: ends what the controller has left for GRACE seconds after its
end, because it is down, hangs or has no memory.

It shares nothing with the controller but the annotation with the end. It remembers nothing, asks
no OPA, holds no Lease and reads metadata alone, a page at a time, so that its memory does not grow
with what there is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter

from fairlead.access import bindings
from fairlead.access.bindings import KINDS, Key, Kind
from fairlead.access.granting import Granting
from fairlead.access.instants import SECOND
from fairlead.access.trail import Trail, former
from fairlead.common.errors import FairleadError
from fairlead.kube.api_requests import BRIEF, MOST, ApiRequests
from fairlead.kube.errors import ApiServerError

log = logging.getLogger(__name__)

GRACE = 30.0
"""Seconds after its end for which a binding is left to the controller."""
PAUSE = 5.0
"""Seconds between two looks at all bindings."""
_PAGE = 250
"""Objects in one page; of metadata, that is about 250 KiB."""
_ENDING = 4  # threads: a request that hangs delays no other end


_SHOWN = 5
"""Reasons that are reported at once."""
_AT_ONCE = Event()
_AT_ONCE.set()


class _Binding(NamedTuple):
    """A binding that is overdue by `late` seconds, with its uid and that of its owner."""

    key: Key
    uid: str
    owner: str
    late: float


class Overdue:
    """Ends what is overdue. Several may run: each deletes only the binding that it has seen."""

    name = "overdue"

    def __init__(self, kubeconfig: Path | None, registry: CollectorRegistry) -> None:
        """Sends nothing yet. Raises UsageError for an unusable kubeconfig."""
        self._api = ApiRequests(kubeconfig, timeout=BRIEF, page=_PAGE, most=MOST)
        self._granting = Granting(self._api, recheck=False, check=lambda: None)
        self._trail = Trail(self._api)
        self._troubles: list[str] = []
        self._told: list[str] = []
        self._ended = Counter(
            "fairlead_access_overdue",
            "Bindings that were deleted because no controller had in time.",
            registry=registry,
        )

    def run(self, stop: Event) -> None:
        """Look at all bindings again and again until `stop` is set."""
        while not stop.wait(PAUSE):
            self._troubles = []
            for kind in KINDS:
                try:
                    self.look(kind)
                except ApiServerError as error:
                    self._failed(f"{kind.child}s cannot be listed: {error}")
                    self._api.renew()
            self._told = self._troubles

    def health(self) -> dict[str, Any]:
        """{"reasons"}: why it cannot look at all bindings, or cannot end some."""
        return {"reasons": self._told[:_SHOWN]}

    def look(self, kind: Kind) -> None:
        """End what is overdue of a kind. Raises ApiServerError if it cannot be listed."""
        with ThreadPoolExecutor(_ENDING) as threads:
            for binding in self._overdue(kind):
                threads.submit(self._end, kind, binding)
        self._trail.run(_AT_ONCE)

    def _overdue(self, kind: Kind) -> Iterator[_Binding]:
        listed = self._api.collection(kind.children.path, bindings.SELECTOR, metadata_only=True)
        for child in listed:
            metadata, owner = child["metadata"], bindings.owner_uid(child)
            late = (time.time_ns() - bindings.end(bindings.until(child))) / SECOND
            if late > GRACE and owner:
                key = metadata.get("namespace") or "", metadata["name"]
                yield _Binding(key, metadata["uid"], owner, late)

    def _end(self, kind: Kind, binding: _Binding) -> None:
        name = "/".join(filter(None, binding.key))
        try:
            if self._granting.take(binding.key, binding.uid):
                self._ended.inc()
                message = (
                    f"{kind.child} {name} was there {binding.late:.0f} s after its end, and is "
                    "deleted now: see `fairlead logs controller`"
                )
                self._trail.tell("Warning", "Ended", message, former(binding.key, binding.owner))
        except FairleadError as error:
            self._failed(f"{kind.child} {name} cannot be deleted: {error}")

    def _failed(self, trouble: str) -> None:
        log.warning("%s", trouble)
        self._troubles.append(trouble)
