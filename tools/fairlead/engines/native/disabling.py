"""Disables intents that admission policies enforce, by their bindings, and enables them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import remarks, texts
from fairlead.deployment import switches
from fairlead.deployment.names import INTENT_LABEL, NAMESPACE, PART_OF, POLICIES
from fairlead.deployment.switches import Record
from fairlead.kube import clients, identity
from fairlead.operations import disabling
from fairlead.operations.disabling import Disabled, Key, Operations

_ADMISSION = "admissionregistration.k8s.io/v1"
# Without what mutates, what validates would refuse every pod: it goes first, and comes last.
_KINDS = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
_ABOUT = {"apiVersion": "v1", "kind": "ConfigMap", "name": POLICIES, "namespace": NAMESPACE}


def read(objects: clients.Objects) -> Disabled:
    """What is disabled in the cluster. Raises ApiServerError."""
    bindings = _bindings(objects)
    off = {key for key, binding in bindings.items() if switches.binding_is_off(binding)}
    records: dict[str, Record] = {}
    for key in sorted(off):
        intent = _intent(bindings[key])
        record = switches.binding_record(bindings[key], intent)
        if records.get(intent, Record(intent)) == Record(intent):
            records[intent] = record
    halves = [
        f"{key[1]} {key[2]} is not disabled, but others of {intent} are: run `fairlead disable "
        f"--intent {intent}` or `fairlead enable --intent {intent}`"
        for key, binding in bindings.items()
        for intent in [_intent(binding)]
        if intent in records and key not in off
    ]
    return Disabled(dict(sorted(records.items())), halves)


def disable(cluster: Cluster, intent: str | None, reason: str | None) -> dict[str, Any]:
    """Disable an intent, by default all; see fairlead.operations.disabling.disable."""
    remarks.check("--reason", reason)
    objects = cluster.objects()
    bindings = _bindings(objects)
    chosen = disabling.chosen_of(intent, {_intent(binding) for binding in bindings.values()})
    before = read(objects).records
    by, since = identity.user(objects), texts.now()
    records = {
        name: before[name]
        if name in before and before[name] != Record(name)
        else Record(name, by, since, reason)
        for name in chosen
    }
    keys = [key for key, binding in bindings.items() if _intent(binding) in chosen]

    def change(_: Key, binding: Mapping[str, Any]) -> Operations:
        if switches.binding_is_off(binding):
            return []
        record = records[_intent(binding)]
        annotations = {
            **(binding["metadata"].get("annotations") or {}),
            switches.RECORD + record.intent: record.annotation,
        }
        spec = switches.binding_off(binding)["spec"]
        return [
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {"op": "add", "path": "/spec/matchResources", "value": spec["matchResources"]},
        ]

    changed = disabling.changed_by(cluster, objects, keys, change)
    new = sorted(name for name in records if name not in before)
    return {
        "disabled": [asdict(entry) for entry in read(objects).records.values()],
        "changed": new or sorted(chosen) if changed else [],
        "warnings": disabling.reported(
            objects, "Warning", "IntentDisabled", [records[name].sentence for name in new], _ABOUT
        ),
    }


def enable(cluster: Cluster, intent: str | None) -> dict[str, Any]:
    """Enable an intent again, by default all; see fairlead.operations.disabling.enable."""
    objects = cluster.objects()
    bindings = _bindings(objects)
    before = read(objects).records
    chosen = disabling.chosen_of(intent, {_intent(binding) for binding in bindings.values()})
    keys = [key for key, binding in bindings.items() if _intent(binding) in chosen]

    def change(_: Key, binding: Mapping[str, Any]) -> Operations:
        annotations = dict(binding["metadata"].get("annotations") or {})
        recorded = annotations.pop(switches.RECORD + _intent(binding), None)
        operations: Operations = []
        if recorded is not None:
            operations.append({"op": "add", "path": "/metadata/annotations", "value": annotations})
        if switches.binding_is_off(binding):  # no binding of ours has other matchResources
            operations.append({"op": "remove", "path": "/spec/matchResources"})
        return operations

    changed = disabling.changed_by(cluster, objects, [*reversed(keys)], change)
    old = [name for name in before if name in chosen]
    return {
        "disabled": [asdict(entry) for entry in read(objects).records.values()],
        "changed": old or sorted(chosen) if changed else [],
        "warnings": disabling.reported(
            objects,
            "Normal",
            "IntentEnabled",
            disabling.enabled_sentences(objects, [before[name] for name in old]),
            _ABOUT,
        ),
    }


def _bindings(objects: clients.Objects) -> dict[Key, dict[str, Any]]:
    """The bindings of intents, those that validate first."""
    return {
        (_ADMISSION, kind, str(item["metadata"]["name"])): item
        for kind in _KINDS
        for item in objects.list(_ADMISSION, kind, None, f"{PART_OF}=fairlead,{INTENT_LABEL}")
        if str(item["metadata"]["name"]).startswith("fairlead.")
    }


def _intent(binding: Mapping[str, Any]) -> str:
    return str(binding["metadata"]["labels"][INTENT_LABEL])
