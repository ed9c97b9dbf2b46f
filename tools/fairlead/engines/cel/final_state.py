"""Renders admission policies that check the final state of objects, which a mutating webhook and
others after it have changed, in place of a validating webhook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.deployment import pod_sizes, switches, webhooks
from fairlead.deployment.names import FINAL_STATE_LABEL, INTENT_LABEL, PART_OF
from fairlead.deployment.webhooks import Asked
from fairlead.engines.cel import definition as definitions
from fairlead.engines.cel import inlining, literals, policies
from fairlead.engines.cel.definition import Definition
from fairlead.policy import bundles
from fairlead.policy.instances import Instance
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings

_ADMISSION = "admissionregistration.k8s.io/v1"
_KIND = "ValidatingAdmissionPolicy"
_TOO_LARGE = "fairlead_too_large"
"""The variable that says whether the engine is not asked about the object for its size."""


@dataclass(frozen=True)
class Check:
    """The policy and the binding that check the final state of the requests of one webhook."""

    intent: str
    policy: dict[str, Any]
    binding: dict[str, Any]


class Unfit(Exception):
    """No policy can check the same as the webhook; says why, after the intent's name."""


def render(
    active: Sequence[Instance], settings: Settings, *, skipping: bool = False
) -> tuple[list[Check], dict[str, str]]:
    """The checks of all requests whose final state a webhook would check, and why intents are
    without. With `skipping`, webhooks skip what is too large for the engine, because no proxy
    reduces it. Raises InputError.

    An intent has all of its checks or none, so that one engine judges what the other one made.
    """
    checks: list[Check] = []
    reasons: dict[str, str] = {}
    for instance in active:
        checked = [
            one for one in instance.requests if {"mutating", "validating"} <= {*one.webhooks}
        ]
        try:
            for request in checked:
                checks += _checks(instance, request, settings, skipping)
        except Unfit as reason:
            reasons[instance.name] = str(reason)
    return checks, reasons


def _checks(
    instance: Instance, request: Request, settings: Settings, skipping: bool
) -> Iterator[Check]:
    """One for each webhook of the request. Raises Unfit, InputError."""
    definition = definitions.of(instance.intent)
    if definition is None:
        raise Unfit(f"{instance.intent.name} has no {definitions.FILE}")
    if definition.inexpressible:
        raise Unfit(f"{definitions.FILE} names requests that CEL cannot decide on")
    if settings.mode(instance.name) == "warn":
        raise Unfit("its enforcement is `warn`, and nothing may be refused")
    if (request.failure_policy or settings.failure_policy) != "Fail":
        raise Unfit("its failurePolicy is `Ignore`, and pods are admitted while OPA is away")
    one = replace(instance, requests=[request])
    spec = _spec(one, definition, settings)
    asked = webhooks.of([one], settings)
    for mutating, validating in zip(asked.mutating, asked.validating, strict=True):
        yield _check(instance.name, _sparing(spec, mutating) if skipping else spec, validating)


def _check(intent: str, spec: dict[str, Any], validating: Asked) -> Check:
    name = switches.final_state_policy(validating.name)
    metadata = {
        "name": name,
        "labels": {
            PART_OF: "fairlead",
            INTENT_LABEL: intent,
            FINAL_STATE_LABEL: intent,
        },
    }
    return Check(
        intent,
        _object(_KIND, metadata, {**spec, **_matched(validating)}),
        _object(f"{_KIND}Binding", metadata, {"policyName": name, "validationActions": ["Deny"]}),
    )


def _spec(instance: Instance, definition: Definition, settings: Settings) -> dict[str, Any]:
    """What the policy checks: what the intent refuses, and that its changes are still there."""
    try:
        every = policies.of(instance, definition, settings, repeated=False)
    except UsageError as error:
        raise Unfit(f"a mutation in {definitions.FILE} has no `done`") from error
    spec = next((policy.spec for policy in every if policy.refuses), None)
    if spec is None:
        raise Unfit(f"{definitions.FILE} refuses nothing")
    read = bundles.settings_document(settings, [instance])
    values = policies.parameters(instance, definition, read)
    try:
        return inlining.inlined(spec, literals.value(values)) if values else dict(spec)
    except ValueError as error:
        raise Unfit(f"its parameters cannot be written in CEL: {error}") from error


def _sparing(spec: dict[str, Any], mutating: Asked) -> dict[str, Any]:
    """The spec without a say in objects that are too large for the engine: another policy refuses
    those, in words of its own. The size is only counted if something else is wrong with the
    object, as that takes an API server longer than all the rest for most pods.
    """
    if not mutating.bounds:
        return spec
    size = {"name": _TOO_LARGE, "expression": f"!({pod_sizes.judgeable(mutating.bounds)})"}
    validations = [
        {**each, "expression": f"({each['expression']}\n) || variables.{_TOO_LARGE}"}
        for each in spec["validations"]
    ]
    return {**spec, "variables": [*spec["variables"], size], "validations": validations}


def _matched(validating: Asked) -> dict[str, Any]:
    """The same requests as those of the webhooks."""
    conditions = [{"name": one.name, "expression": one.expression} for one in validating.conditions]
    return {
        "failurePolicy": validating.failure_policy,
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": validating.namespaces},
            "resourceRules": validating.rules,
        },
        **({"matchConditions": conditions} if conditions else {}),
    }


def _object(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": metadata, "spec": spec}
