"""What Gatekeeper has to be asked about: the values of its Helm chart that Fairlead needs."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import yaml_files
from fairlead.policy.instances import Instance
from fairlead.policy.requests import Kind, Request

VALUES = Path(__file__).parent / "values.yaml"
_PHASES = ("mutating", "validating")
_LABELS_ONLY = ("finalize", "status")
"""The subresources about which Gatekeeper is asked only if labels change, by a matchCondition of
the values."""
_LABELS_CHANGE = "object.metadata.?labels != oldObject.metadata.?labels"


@functools.cache
def values() -> dict[str, Any]:
    """The values of the chart."""
    return dict(yaml.safe_load(yaml_files.read_text(VALUES)))


def unasked(instance: Instance, mutated: set[str | None]) -> Iterator[str]:
    """The requests of an instance that Gatekeeper is not asked about, in words. `mutated` are the
    names of the requests that have mutators.
    """
    chart_values = values()
    for request in instance.requests:
        for phase in _PHASES if request.name in mutated else ("validating",):
            rules = chart_values[f"{phase}WebhookCustomRules"]
            for operation in request.operations:
                if phase == "mutating" and operation == "UPDATE":
                    continue  # what is not added then is refused
                for kind in request.kinds:
                    asked = kind.subresource not in _LABELS_ONLY or _is_about_labels(request)
                    if not (asked and any(_covers(rule, operation, kind) for rule in rules)):
                        yield f"{operation} of {kind.resources}"


def _is_about_labels(request: Request) -> bool:
    return any(condition.expression == _LABELS_CHANGE for condition in request.conditions)


def _covers(rule: dict[str, Any], operation: str, kind: Kind) -> bool:
    resources = {f"*/{kind.subresource}" if kind.subresource else "*"}
    return (
        operation in rule["operations"]
        and bool({"*", kind.group} & {*rule["apiGroups"]})
        and bool(({kind.resources} | resources) & {*rule["resources"]})
    )
