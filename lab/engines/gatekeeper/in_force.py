"""Puts objects in force in a Gatekeeper that runs, and waits until it enforces exactly these."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.engines.gatekeeper import constraints, mutators
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from lab.engines.gatekeeper import controller
from lab.engines.live.namespaces import needed

_DEADLINE = 120.0
"""Seconds within which Gatekeeper enforces what changed. It takes milliseconds, and 4 seconds for a
new template."""
_STATUS = "status.gatekeeper.sh/v1beta1"
# The kind of what Gatekeeper reports of an object, the field that names the object by its uid, and
# whether it says that it enforces the object.
_STATUSES = {
    constraints.TEMPLATES: ("ConstraintTemplatePodStatus", "templateUID", False),
    constraints.CONSTRAINTS: ("ConstraintPodStatus", "constraintUID", True),
    mutators.VERSION: ("MutatorPodStatus", "mutatorUID", True),
}

Key = tuple[str, str]


class InForce:
    """The objects that were put in force in one cluster."""

    def __init__(self, api: Objects) -> None:
        self._api = api
        self._manifests: dict[str, dict[Key, Mapping[str, Any]]] = {v: {} for v in _STATUSES}
        self._generations: dict[str, dict[Key, tuple[str, int]]] = {v: {} for v in _STATUSES}

    def put(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Make these the only ones in force, besides templates, which do nothing by themselves;
        returns when Gatekeeper enforces them. Raises FairleadError, with what Gatekeeper says.
        """
        desired: dict[str, dict[Key, Mapping[str, Any]]] = {version: {} for version in _STATUSES}
        for manifest in manifests:
            key = (manifest["kind"], manifest["metadata"]["name"])
            desired[manifest["apiVersion"]][key] = manifest
        desired[constraints.TEMPLATES] = (
            self._manifests[constraints.TEMPLATES] | desired[constraints.TEMPLATES]
        )
        for version, wanted in desired.items():
            if wanted == self._manifests[version]:
                continue
            for key, manifest in self._manifests[version].items():
                if key not in wanted:
                    answer = self._api.request("DELETE", f"{_collection(manifest)}/{key[1]}")
                    needed(answer, f"deleting {' '.join(key)}")
                    del self._generations[version][key]
            # A mutator that comes while Gatekeeper still knows another one with which it conflicts
            # would stay without effect.
            self._wait(version)
            for key, manifest in wanted.items():
                if manifest != self._manifests[version].get(key):
                    self._generations[version][key] = self._applied(manifest)
            self._manifests[version] = wanted
            self._wait(version)

    def _applied(self, manifest: Mapping[str, Any]) -> tuple[str, int]:
        """The uid and the generation of the object once it is as in the manifest."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        waiting.until(
            functools.partial(self._api.serves, manifest),
            deadline=_DEADLINE,
            what=f"the API server knows the kind {kind}: {self._errors(constraints.TEMPLATES)}",
        )
        body = waiting.until(
            functools.partial(self._put, manifest), deadline=_DEADLINE, what=f"{name} is changed"
        )
        return body["metadata"]["uid"], body["metadata"]["generation"]

    def _put(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """The object after a change to the manifest; None if something else changed it meanwhile,
        such as its status.
        """
        collection, metadata = _collection(manifest), manifest["metadata"]
        path = f"{collection}/{metadata['name']}"
        there = self._api.request("GET", path)
        method, where, what = "POST", collection, f"creating {metadata['name']}"
        if there.ok:
            method, where, what = "PUT", path, f"changing {metadata['name']}"
            version = there.body["metadata"]["resourceVersion"]
            metadata = {**metadata, "resourceVersion": version}
        body = {**manifest, "metadata": metadata}
        answer = self._api.request(method, where, body, query={"fieldValidation": "Strict"})
        return None if answer.status == 409 else needed(answer, what)

    def _wait(self, version: str) -> None:
        def enforced() -> bool:
            return self._reported(version) == {*self._generations[version].values()}

        try:
            waiting.until(enforced, deadline=_DEADLINE, what="Gatekeeper enforces it", pause=0.02)
        except FairleadError as error:
            reported = self._reported(version)
            missing = [
                " ".join(key)
                for key, state in self._generations[version].items()
                if state not in reported
            ]
            named = ", ".join(missing) or f"what was deleted of {version}"
            raise FairleadError(f"{named}: {error}: {self._errors(version)}") from error

    def _reported(self, version: str) -> set[tuple[str, int]]:
        """What Gatekeeper enforces, by uid and generation. An object that it has forgotten has no
        status.
        """
        _, field, says = _STATUSES[version]
        reported = set()
        for status in self._statuses(version):
            fine = not status.get("errors") and (status.get("enforced") or not says)
            generation = status.get("observedGeneration", 0) if fine else 0
            reported.add((status.get(field, ""), generation))
        return reported

    def _errors(self, version: str) -> str:
        errors = [error for each in self._statuses(version) for error in each.get("errors", ())]
        return "; ".join(str(error.get("message", error)) for error in errors) or "it has no error"

    def _statuses(self, version: str) -> list[dict[str, Any]]:
        kind = _STATUSES[version][0]
        path = path_of({"apiVersion": _STATUS, "kind": kind}, controller.NAMESPACE)
        items = self._api.request("GET", path).body.get("items") or ()
        return [item.get("status") or {} for item in items]


def _collection(manifest: Mapping[str, Any]) -> str:
    """The path of the objects of a kind of Gatekeeper's, which names all but templates in the
    singular.
    """
    resource = manifest["kind"].lower() + ("s" if manifest["kind"] == "ConstraintTemplate" else "")
    return f"/apis/{manifest['apiVersion']}/{resource}"
