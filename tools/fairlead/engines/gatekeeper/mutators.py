"""Renders the mutators of instances of intents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead.common.digests import digest
from fairlead.common.errors import InputError
from fairlead.deployment import ownership
from fairlead.deployment.names import EXEMPT, INTENT_LABEL
from fairlead.engines.gatekeeper import definition as definitions
from fairlead.engines.gatekeeper.definition import Definition, Mutator
from fairlead.policy.instances import Instance
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings

VERSION = "mutations.gatekeeper.sh/v1"
_LONGEST = 63
"""Characters of a mutator's name."""


def names(instance: Instance, settings: Settings) -> dict[str, Any]:
    """What the expressions in an intent's file see."""
    pools = {
        name: settings.assignment(name).model_dump(by_alias=True, exclude_none=True)
        for name in sorted(settings.pools)
    }
    return {
        "settings": settings.document(),
        "parameters": dict(instance.parameters),
        "instance": instance.name,
        "pools": pools,
    }


def render(
    instance: Instance, definition: Definition, settings: Settings
) -> Iterator[dict[str, Any]]:
    """The mutators of an instance. Raises InputError."""
    intent = instance.intent
    for mutator in definition.mutators:
        for values in definitions.combinations(intent, mutator.each, names(instance, settings)):
            if definitions.evaluated(intent, mutator.when, values):
                yield _mutator(instance, mutator, values)


def _mutator(
    instance: Instance, mutator: Mutator, combination: Mapping[str, Any]
) -> dict[str, Any]:
    values = definitions.evaluated(
        instance.intent, mutator.model_dump(exclude={"when", "each"}, by_alias=True), combination
    )
    request = _request(instance, values["request"])
    (kind,) = request.kinds
    expressions = [expression.document() for expression in request.namespaces.expressions]
    expressions += values["namespaces"]
    selector = {"namespaceSelector": {"matchExpressions": expressions}} if expressions else {}
    return {
        "apiVersion": VERSION,
        "kind": mutator.kind,
        "metadata": {
            "name": _name(f"fairlead.{instance.name}.{values['name']}"),
            "labels": ownership.labels({INTENT_LABEL: instance.name}),
        },
        "spec": {
            "applyTo": [{"groups": [kind.group], "versions": [kind.version], "kinds": [kind.kind]}],
            "match": {"scope": "Namespaced", "excludedNamespaces": [*EXEMPT], **selector},
            "location": values["location"],
            "parameters": values["parameters"],
        },
    }


def _request(instance: Instance, name: str | None) -> Request:
    for request in instance.requests:
        if request.name == name and len(request.kinds) == 1:
            return request
    raise InputError(
        instance.intent.source, f"requests: no request is named {name} and has just one kind"
    )


def _name(text: str) -> str:
    """A legal name of an object, which differs if the text does."""
    legal = re.sub(r"[^a-z0-9.-]+|(?<=[.-])[.-]+", "-", text.lower()).strip(".-")
    if legal == text and len(legal) <= _LONGEST:
        return legal
    return f"{legal[: _LONGEST - 9].rstrip('.-')}-{digest(text.encode())[:8]}"
