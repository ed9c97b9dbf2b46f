"""Intents that a server decides about are switched off by their webhooks, so that API servers no
longer ask. See fairlead.deployment.switches for what is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from fairlead.deployment import switches
from fairlead.deployment.names import NAMESPACE, WEBHOOKS
from fairlead.deployment.switches import Record
from fairlead.kube import clients
from fairlead.operations.disabled import Disabled, Key, Patch

_ADMISSION = "admissionregistration.k8s.io/v1"
_MUTATING = (_ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS)
_VALIDATING = (_ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS)
_POLICY = "ValidatingAdmissionPolicy"


class Webhooks:
    """Both webhook configurations, and the policies that refuse objects too large for them; see
    Switched. Raises ApiServerError.
    """

    none: ClassVar[str] = "no webhook of Fairlead, so API servers do not ask OPA"
    about: ClassVar[Mapping[str, str]] = {
        "apiVersion": _ADMISSION,
        "kind": "MutatingWebhookConfiguration",
        "name": WEBHOOKS,
        "namespace": NAMESPACE,
    }

    def __init__(self, objects: clients.Objects) -> None:
        configurations = {key: objects.get(*key) for key in (_MUTATING, _VALIDATING)}
        self._configurations = [live for live in configurations.values() if live is not None]
        names = [
            str(webhook["name"])
            for configuration in self._configurations
            for webhook in configuration.get("webhooks") or ()
        ]
        # Not all of them exist.
        self._owners: dict[Key, str] = {
            (_ADMISSION, _POLICY, switches.size_policy(name)): switches.intent_of(name)
            for name in names
        }
        self._objects = objects

    def disabled(self) -> Disabled:
        """See Switched."""
        records = switches.merged(self._configurations)
        halves = [
            f"{intent} is disabled in one of the two webhook configurations only: run `fairlead "
            f"disable --intent {intent}` or `fairlead enable --intent {intent}`"
            for intent in records
            if any(
                intent in switches.intents(configuration)
                and intent not in switches.records(configuration)
                for configuration in self._configurations
            )
        ]
        halves += [
            f"{_POLICY} {key[2]} is disabled, but its webhooks are not: run `fairlead enable`"
            for key, owner in self._owners.items()
            if owner not in records
            and (policy := self._objects.get(*key)) is not None
            and switches.policy_is_off(policy)
        ]
        return Disabled(records, halves)

    def intents(self) -> set[str]:
        """See Switched."""
        return set().union(*map(switches.intents, self._configurations))

    def keys(self, intents: set[str]) -> Sequence[Key]:
        """See Switched."""
        return (_VALIDATING, *self._policies(intents), _MUTATING)

    def reversed_keys(self, intents: set[str]) -> Sequence[Key]:
        """See Switched. Policies are enforced up to a second after their change, and so come
        first.
        """
        return (*self._policies(intents), _MUTATING, _VALIDATING)

    def off(self, key: Key, live: Mapping[str, Any], records: Mapping[str, Record]) -> Patch:
        """See Switched."""
        if key in self._owners:
            return _policy(live, off=True)
        present = switches.intents(live)
        annotations = live["metadata"].get("annotations") or {}
        added = {
            switches.RECORD + intent: record.annotation
            for intent, record in records.items()
            if intent in present
        }
        patch = [
            _selected(number, switches.off(webhook.get("objectSelector")))
            for number, webhook in _webhooks_of(live, records)
            if not switches.is_off(webhook.get("objectSelector"))
        ]
        if any(annotations.get(name) != value for name, value in added.items()):
            value = {**annotations, **added}
            patch.append({"op": "add", "path": "/metadata/annotations", "value": value})
        return patch

    def on(self, key: Key, live: Mapping[str, Any], intents: set[str]) -> Patch:
        """See Switched."""
        if key in self._owners:
            return _policy(live, off=False)
        annotations = live["metadata"].get("annotations") or {}
        remaining = {
            name: value
            for name, value in annotations.items()
            if name not in {switches.RECORD + intent for intent in intents}
        }
        patch = [
            _selected(number, switches.on(webhook.get("objectSelector")))
            for number, webhook in _webhooks_of(live, intents)
            if switches.is_off(webhook.get("objectSelector"))
        ]
        if remaining != annotations:
            patch.append({"op": "add", "path": "/metadata/annotations", "value": remaining})
        return patch

    def _policies(self, intents: Collection[str]) -> list[Key]:
        return [key for key, owner in self._owners.items() if owner in intents]


def _webhooks_of(
    configuration: Mapping[str, Any], intents: Collection[str]
) -> list[tuple[int, Mapping[str, Any]]]:
    """The webhooks of these intents with their places in the configuration."""
    return [
        (number, webhook)
        for number, webhook in enumerate(configuration.get("webhooks") or ())
        if switches.intent_of(webhook["name"]) in intents
    ]


def _selected(number: int, selector: Mapping[str, Any]) -> dict[str, Any]:
    return {"op": "add", "path": f"/webhooks/{number}/objectSelector", "value": selector}


def _policy(live: Mapping[str, Any], *, off: bool) -> Patch:
    """Switch a ValidatingAdmissionPolicy off or on."""
    if switches.policy_is_off(live) == off:
        return []
    selector = live["spec"]["matchConstraints"].get("objectSelector")
    value = switches.off(selector) if off else switches.on(selector)
    return [{"op": "add", "path": "/spec/matchConstraints/objectSelector", "value": value}]
