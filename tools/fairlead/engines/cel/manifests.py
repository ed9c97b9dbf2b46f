"""Renders instances of intents as admission policies of API servers, with their parameters as
custom resources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.digests import digest
from fairlead.deployment import ownership
from fairlead.deployment.names import INTENT_LABEL, PARAMETERS_GROUP
from fairlead.engines.cel import admission_policies
from fairlead.engines.cel import definition as definitions
from fairlead.engines.cel.admission_policies import Policy
from fairlead.engines.cel.definition import Definition
from fairlead.policy import bundles
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent
from fairlead.policy.parameter_rules import structural
from fairlead.settings.models import Settings

VERSION = "v1"
"""The version of parameters."""
_ADMISSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Rendered:
    """The objects of one instance, in the order in which to apply them: the kind of its parameters,
    which all instances of an intent share, its parameters, its policies, and the bindings that put
    these in force.

    The names of parameters and policies change with their content, and those of bindings stay: a
    new revision is in force once its bindings are applied.
    """

    definition: dict[str, Any] | None
    parameters: dict[str, Any] | None
    policies: list[dict[str, Any]]
    bindings: list[dict[str, Any]]


def render(active: Sequence[Instance], settings: Settings) -> list[Rendered]:
    """The instances that can be expressed in CEL, in their order. Raises InputError."""
    document = bundles.settings_document(settings, active)
    rendered = []
    for instance in active:
        definition = definitions.of(instance.intent)
        if definition is not None:
            rendered.append(_Instance(instance, definition, settings, document).rendered())
    return rendered


def _definition_of(intent: Intent, definition: Definition) -> dict[str, Any] | None:
    """The CustomResourceDefinition of an intent's parameters; None if it has none."""
    schema = structural(intent.facts.parameters_schema)
    properties = dict(schema.get("properties", {}))
    required = list(schema.get("required", []))
    if definition.settings:
        properties["settings"] = {"type": "object", "properties": dict(definition.settings)}
        required.append("settings")
    if not properties:
        return None
    schema |= {"properties": properties} | ({"required": required} if required else {})
    kind = _kind(intent)
    plural = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{PARAMETERS_GROUP}", "labels": ownership.labels()},
        "spec": {
            "group": PARAMETERS_GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": plural,
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _kind(intent: Intent) -> str:
    return "".join(part.capitalize() for part in intent.package.split("_"))


@dataclass(frozen=True)
class _Instance:
    """What one instance is rendered from. `read` are the settings as policies read them."""

    instance: Instance
    definition: Definition
    settings: Settings
    read: Mapping[str, Any]

    def rendered(self) -> Rendered:
        values = admission_policies.parameters(self.instance, self.definition, self.read)
        policies = admission_policies.of(self.instance, self.definition, self.settings, values)
        definition = None
        if any(policy.reads_parameters for policy in policies):
            definition = _definition_of(self.instance.intent, self.definition)
        parts = [
            (_kind_of(policy), policy.name, _actions(policy), self._spec(policy))
            for policy in policies
        ]
        content = json.dumps([definition, values, parts], sort_keys=True)
        revision = digest(content.encode())[:12]
        parameters, reference = None, {}
        if definition is not None:
            parameters = {
                "apiVersion": f"{PARAMETERS_GROUP}/{VERSION}",
                "kind": _kind(self.instance.intent),
                "metadata": self._metadata(f"fairlead.{self.instance.name}.{revision}"),
                **values,
            }
            name = parameters["metadata"]["name"]
            reference = {"paramRef": {"name": name, "parameterNotFoundAction": "Deny"}}
        policies_, bindings = [], []
        for kind, base, actions, spec in parts:
            name = f"{base}.{revision}"
            policies_.append(_object(kind, self._metadata(name), spec))
            named = reference if "paramKind" in spec else {}
            binding_spec = {"policyName": name, **named, **actions}
            bindings.append(_object(f"{kind}Binding", self._metadata(base), binding_spec))
        return Rendered(definition, parameters, policies_, bindings)

    def _spec(self, policy: Policy) -> dict[str, Any]:
        kind = {"apiVersion": f"{PARAMETERS_GROUP}/{VERSION}", "kind": _kind(self.instance.intent)}
        return {**({"paramKind": kind} if policy.reads_parameters else {}), **policy.spec}

    def _metadata(self, name: str) -> dict[str, Any]:
        labels = ownership.labels({INTENT_LABEL: self.instance.name})
        return {"name": name, "labels": labels}


def _kind_of(policy: Policy) -> str:
    return "MutatingAdmissionPolicy" if policy.mutates else "ValidatingAdmissionPolicy"


def _actions(policy: Policy) -> dict[str, Any]:
    return {"validationActions": [*policy.actions]} if policy.actions else {}


def _object(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": metadata, "spec": spec}
