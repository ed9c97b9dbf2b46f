"""Objects of an API server in memory, for code that reads and changes a few of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch

from fairlead.kube.errors import Refused

Manifest = dict[str, Any]


class StoredObjects:
    """What fairlead.kube.clients.Objects does with single objects. Each change checks the
    resourceVersion that it names. `forbidden` has the kinds that nobody may change.
    """

    def __init__(self, *manifests: Mapping[str, Any], user: str = "alice") -> None:
        self._stored: dict[tuple[str, str], Manifest] = {}
        self._version = 0
        self.user = user
        self.events: list[str] = []
        self.forbidden: set[str] = set()
        for manifest in manifests:
            self.apply(manifest)

    def get(self, version: str, kind: str, name: str, namespace: str | None = None) -> Any:
        """The object, or None."""
        return copy.deepcopy(self._stored.get((kind, name)))

    def list(self, version: str, kind: str, *_: Any) -> list[Manifest]:
        """The objects of a kind."""
        return [copy.deepcopy(item) for (of, _), item in self._stored.items() if of == kind]

    visible = list

    def apply(self, manifest: Mapping[str, Any]) -> Manifest:
        """Store the object as it is."""
        self._check(manifest)
        self._version += 1
        stored = copy.deepcopy(dict(manifest))
        stored["metadata"]["resourceVersion"] = str(self._version)
        self._stored[manifest["kind"], manifest["metadata"]["name"]] = stored
        return stored

    def patch(
        self, manifest: Mapping[str, Any], operations: Sequence[Manifest], *, dry_run: bool = False
    ) -> Manifest:
        """Change the object by a JSON Patch."""
        stored = self._stored[manifest["kind"], manifest["metadata"]["name"]]
        patched: Manifest = jsonpatch.apply_patch(stored, [*operations])
        self._check(patched)
        return patched if dry_run else self.apply(patched)

    def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """Keep the message of an Event, or say who asks."""
        if manifest["kind"] == "Event":
            self.events.append(manifest["message"])
        return {"status": {"userInfo": {"username": self.user}}}

    def _check(self, manifest: Mapping[str, Any]) -> None:
        kind, metadata = manifest["kind"], manifest["metadata"]
        stored = self._stored.get((kind, metadata["name"]))
        version = metadata.get("resourceVersion")
        if kind in self.forbidden:
            raise Refused(f"cannot change {kind}", 403, "forbidden")
        if stored and version not in (None, stored["metadata"]["resourceVersion"]):
            raise Refused(f"cannot change {kind}", 409, "modified")
