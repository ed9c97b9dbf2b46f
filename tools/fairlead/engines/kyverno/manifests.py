"""Renders instances of intents as policies of Kyverno, from the same expressions in CEL as the
admission policies of API servers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.deployment import ownership
from fairlead.deployment.names import INTENT_LABEL
from fairlead.engines.cel import admission_policies, literals
from fairlead.engines.cel import definition as definitions
from fairlead.engines.cel.admission_policies import Policy
from fairlead.kube import admission_reviews
from fairlead.policy import bundles
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings

VERSION = "policies.kyverno.io/v1"
MUTATING = "MutatingPolicy"
VALIDATING = "ValidatingPolicy"

_PARAMETERS = "fairlead_parameters"
_READS = re.compile(r"\bparams\b")


def render(active: Sequence[Instance], settings: Settings) -> list[list[dict[str, Any]]]:
    """The policies of each instance that can be expressed in CEL, in the order in which to apply
    them. Those that refuse come first, so that nothing is changed that is not checked. Raises
    InputError, UsageError.
    """
    document = bundles.settings_document(settings, active)
    rendered = []
    for instance in active:
        definition = definitions.of(instance.intent)
        if definition is None:
            continue
        values = admission_policies.parameters(instance, definition, document)
        policies = admission_policies.of(instance, definition, settings, values, repeated=False)
        specs = [_manifest(policy, instance.name, values) for policy in policies]
        rendered.append(sorted(specs, key=lambda spec: spec["kind"] == MUTATING))
    return rendered


def path(policy: Mapping[str, Any]) -> str:
    """The path of the collection that a policy belongs to."""
    return f"/apis/{VERSION}/{admission_reviews.plural(policy['kind'])}"


def _manifest(policy: Policy, instance: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    spec = {
        **(_with_parameters(policy.spec, parameters) if policy.reads_parameters else policy.spec),
        # The reports controller would evaluate it without a request.
        "evaluation": {"background": {"enabled": False}},
        # Kyverno writes rules of its own for the templates of pods.
        "autogen": {"podControllers": {"controllers": []}},
        "webhookConfiguration": {"timeoutSeconds": policy.timeout_seconds},
    }
    if policy.actions:
        spec["validationActions"] = [*policy.actions]
    return {
        "apiVersion": VERSION,
        "kind": MUTATING if policy.mutates else VALIDATING,
        "metadata": {
            "name": policy.name,
            "labels": ownership.labels({INTENT_LABEL: instance}),
        },
        "spec": spec,
    }


def _with_parameters(spec: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with the parameters as its first variable."""
    bound_spec: dict[str, Any] = _bound(
        {key: spec[key] for key in spec if key != "matchConditions"}
    )
    variable = {"name": _PARAMETERS, "expression": literals.value(parameters)}
    return {**spec, **bound_spec, "variables": [variable, *bound_spec["variables"]]}


def _bound(part: Any) -> Any:
    """The part of a spec in which expressions find the parameters as `params`.

    CEL itself binds the name, so that it means the same wherever an expression may have it, and
    nothing where a macro has a variable of that name. An expression may end with a comment.
    """
    if isinstance(part, list):
        return [_bound(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: f"cel.bind(params, variables.{_PARAMETERS},\n{value}\n)"
        if key in ("expression", "messageExpression") and _READS.search(value)
        else _bound(value)
        for key, value in part.items()
    }
