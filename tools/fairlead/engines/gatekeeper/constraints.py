"""Renders instances of intents as Constraints, and intents as ConstraintTemplates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead.deployment import ownership
from fairlead.deployment.names import EXEMPT, INTENT_LABEL
from fairlead.engines.gatekeeper import modules
from fairlead.engines.gatekeeper.modules import Code
from fairlead.policy import tables
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent
from fairlead.policy.parameter_rules import structural
from fairlead.settings.models import Settings

TEMPLATES = "templates.gatekeeper.sh/v1"
CONSTRAINTS = "constraints.gatekeeper.sh/v1beta1"
OWN = "fairlead"
"""The parameter of a constraint that has what the policies read besides their own parameters."""
_POINTS = ("validation.gatekeeper.sh", "gator.gatekeeper.sh")
"""Where constraints are enforced. Gatekeeper's audit is none of them: it reviews objects as they
are stored, and policies decide on requests."""
_READ = re.compile(r"\bsettings\.([a-z_]+)")
_WARN = re.compile(r'"warn": *([^\s,}]+)')
# What policies read by `settings`, but for their own parameters.
_SETTINGS = (
    *("contact", "default_pool", "enforcement", "exempt", "namespace_label", "node_label"),
    *("pod_selector", "pools"),
)
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT = {"type": "string"}


def kind(intent: Intent) -> str:
    """The kind of the intent's constraints."""
    return "Fairlead" + "".join(part.capitalize() for part in intent.package.split("_"))


def template(intent: Intent, code: Code) -> dict[str, Any]:
    """The ConstraintTemplate of an intent."""
    own_schema = {
        "type": "object",
        "required": ["answer", "instance", "package", "requests", "settings"],
        "properties": {
            "answer": {"type": "string", "enum": ["refusals", "warnings"]},
            "complete": {"type": "array", "items": _TEXT},
            "instance": _TEXT,
            "package": _TEXT,
            "requests": _ANYTHING,
            "settings": _ANYTHING,
        },
    }
    schema = structural(intent.facts.parameters_schema)
    schema["properties"] = {**schema.get("properties", {}), OWN: own_schema}
    schema["required"] = [*schema.get("required", ()), OWN]
    source = {"version": "v1", "rego": code.entry, "libs": list(code.libraries)}
    return {
        "apiVersion": TEMPLATES,
        "kind": "ConstraintTemplate",
        "metadata": {
            "name": kind(intent).lower(),
            "labels": ownership.labels(),
            "annotations": {"description": intent.title},
        },
        "spec": {
            "crd": {
                "spec": {
                    "names": {"kind": kind(intent)},
                    "validation": {"legacySchema": False, "openAPIV3Schema": schema},
                }
            },
            "targets": [
                {
                    "target": "admission.k8s.gatekeeper.sh",
                    "code": [{"engine": "Rego", "source": source}],
                }
            ],
        },
    }


def constraints(
    instance: Instance, settings: Settings, document: Mapping[str, Any], code: Code
) -> Iterator[dict[str, Any]]:
    """The Constraints of an instance: one that refuses, unless the instance only warns, and one
    that warns. `document` are the settings as policies read them.
    """
    warns = settings.mode(instance.name) == "warn"
    if not warns:
        yield _constraint(instance, document, code, "refusals", "deny")
    if warns or _has_warnings(instance.intent, code):
        yield _constraint(instance, document, code, "warnings", "warn")


def _constraint(
    instance: Instance, document: Mapping[str, Any], code: Code, answer: str, action: str
) -> dict[str, Any]:
    intent = instance.intent
    names = {name for text in code.libraries for name in _READ.findall(text)}
    own = {**document, "enforcement": instance.enforcement(document["enforcement"])}
    own_parameters = {
        "answer": answer,
        "complete": sorted(
            {
                kind.path
                for request in instance.requests
                if {"mutating", "validating"} <= {*request.webhooks}
                for kind in request.kinds
            }
        ),
        "instance": instance.name,
        "package": intent.package,
        "requests": tables.requests([instance]),
        "settings": {name: own[name] for name in _SETTINGS if name in names},
    }
    name = f"fairlead.{instance.name}" + (".warnings" if answer == "warnings" else "")
    return {
        "apiVersion": CONSTRAINTS,
        "kind": kind(intent),
        "metadata": {
            "name": name,
            "labels": ownership.labels({INTENT_LABEL: instance.name}),
        },
        "spec": {
            "enforcementAction": "scoped",
            "scopedEnforcementActions": [
                {"action": action, "enforcementPoints": [{"name": point} for point in _POINTS]}
            ],
            "match": _match(instance),
            "parameters": {**instance.parameters, OWN: own_parameters},
        },
    }


def _match(instance: Instance) -> dict[str, Any]:
    """The objects that Gatekeeper asks the policy about: of the requests' kinds, in the namespaces
    that all requests select. The policy itself decides on the rest.
    """
    groups: dict[str, list[str]] = {}
    for request in instance.requests:
        for kind in request.kinds:
            group, name = kind.path.split("/")[:2]
            groups.setdefault(group, []).append(name)
    selectors = [
        [expression.document() for expression in request.namespaces.expressions]
        for request in instance.requests
    ]
    common = [
        expression
        for expression in selectors[0]
        if all(expression in selector for selector in selectors)
    ]
    return {
        "kinds": [
            {"apiGroups": [group], "kinds": sorted({*kinds})}
            for group, kinds in sorted(groups.items())
        ],
        "excludedNamespaces": [*EXEMPT],
        **({"namespaceSelector": {"matchExpressions": common}} if common else {}),
    }


def _has_warnings(intent: Intent, code: Code) -> bool:
    """Whether the policy may warn: its modules do not say of each decision that it never does."""
    package_line = f"package {modules.LIBRARY}.{intent.package}\n"
    warnings = {
        warn for text in code.libraries if package_line in text for warn in _WARN.findall(text)
    }
    return warnings != {"set()"}
