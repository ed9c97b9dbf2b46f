"""Intents that admission policies enforce are switched off by their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fairlead.deployment import switches
from fairlead.deployment.names import INTENT_LABEL, NAMESPACE, PART_OF, POLICIES
from fairlead.deployment.switches import Record
from fairlead.kube import clients
from fairlead.operations.disabled import Disabled, Key, Patch

_ADMISSION = "admissionregistration.k8s.io/v1"
_KINDS = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")


class Bindings:
    """The bindings of intents, those that validate first; see Switched. Raises ApiServerError."""

    none: ClassVar[str] = "no binding of Fairlead, so API servers enforce no policy"
    about: ClassVar[Mapping[str, str]] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": POLICIES,
        "namespace": NAMESPACE,
    }

    def __init__(self, objects: clients.Objects) -> None:
        self._live = {
            (_ADMISSION, kind, str(item["metadata"]["name"])): item
            for kind in _KINDS
            for item in objects.list(_ADMISSION, kind, None, f"{PART_OF}=fairlead,{INTENT_LABEL}")
            if str(item["metadata"]["name"]).startswith("fairlead.")
        }

    def disabled(self) -> Disabled:
        """See Switched."""
        off = {key for key, binding in self._live.items() if switches.binding_is_off(binding)}
        records: dict[str, Record] = {}
        for key in sorted(off):
            intent = _intent(self._live[key])
            record = switches.binding_record(self._live[key], intent)
            if records.get(intent, Record(intent)) == Record(intent):
                records[intent] = record
        halves = [
            f"{key[1]} {key[2]} is not disabled, but others of {intent} are: run `fairlead disable "
            f"--intent {intent}` or `fairlead enable --intent {intent}`"
            for key, binding in self._live.items()
            for intent in [_intent(binding)]
            if intent in records and key not in off
        ]
        return Disabled(dict(sorted(records.items())), halves)

    def intents(self) -> set[str]:
        """See Switched."""
        return {_intent(binding) for binding in self._live.values()}

    def keys(self, intents: set[str]) -> Sequence[Key]:
        """See Switched."""
        return [key for key, binding in self._live.items() if _intent(binding) in intents]

    def reversed_keys(self, intents: set[str]) -> Sequence[Key]:
        """See Switched."""
        return [*reversed(self.keys(intents))]

    def off(self, _: Key, live: Mapping[str, Any], records: Mapping[str, Record]) -> Patch:
        """See Switched."""
        if switches.binding_is_off(live):
            return []
        record = records[_intent(live)]
        annotations = {
            **(live["metadata"].get("annotations") or {}),
            switches.RECORD + record.intent: record.annotation,
        }
        matched = switches.binding_off(live)["spec"]["matchResources"]
        return [
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {"op": "add", "path": "/spec/matchResources", "value": matched},
        ]

    def on(self, _: Key, live: Mapping[str, Any], intents: set[str]) -> Patch:
        """See Switched."""
        annotations = dict(live["metadata"].get("annotations") or {})
        recorded = annotations.pop(switches.RECORD + _intent(live), None)
        patch: Patch = []
        if recorded is not None:
            patch.append({"op": "add", "path": "/metadata/annotations", "value": annotations})
        if switches.binding_is_off(live):  # no binding of ours has other matchResources
            patch.append({"op": "remove", "path": "/spec/matchResources"})
        return patch


def _intent(binding: Mapping[str, Any]) -> str:
    return str(binding["metadata"]["labels"][INTENT_LABEL])
