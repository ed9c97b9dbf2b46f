"""Which cases Gatekeeper cannot express, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.common import mistakes
from fairlead.engines.gatekeeper import definition as definitions
from fairlead.engines.gatekeeper import manifests, mutators
from fairlead.kube import labels
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.instances import Instance
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Pool, Settings
from lab.engines.live import case_names


def reason(case: Case, policies: CasePolicies) -> str | None:
    """Why Gatekeeper cannot express a case; None if it can. Raises InputError."""
    in_force = policies.under(declared(case))
    if refused := _refused(in_force):
        return refused
    for instance in in_force.active:
        definition = definitions.of(instance.intent)
        if instance.intent.name == case.intent and definition:
            for part in definition.inexpressible:
                if definitions.evaluated(instance.intent, part.when, _names(case, instance)):
                    return part.reason
    return None


def declared(case: Case) -> Settings:
    """The settings of a case. If they declare no pools, any value of the label is one. Gatekeeper
    needs them declared: those are declared that the case names.
    """
    settings = case.settings
    if settings.pools:
        return settings
    parts = [case.request.object, case.request.old_object]
    values = {value for part in parts for value in _values(part, settings.node_label)}
    values |= {value for part in parts for value in _values(part, settings.namespace_label)}
    if case.namespace:
        values.add(case.namespace.labels.get(settings.namespace_label, ""))
    values |= {settings.default_pool or "", "pool1"}
    pools = {value: Pool() for value in sorted(values) if _is_pool(value)}
    return settings.model_copy(update={"pools": pools})


def _values(value: Any, key: str) -> Iterator[str]:
    """The texts that stand under a key, anywhere in an object."""
    if isinstance(value, dict):
        for name, part in value.items():
            if name == key and isinstance(part, str):
                yield part
            yield from _values(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _values(part, key)


def _is_pool(name: str) -> bool:
    try:
        return bool(labels.check_value(name))
    except ValueError:
        return False


def _refused(policies: PolicySet) -> str | None:
    """Why Gatekeeper cannot express the settings; None if it can."""
    refused = manifests.refused(policies.active, policies.settings, policies.bundle)
    for mistake in refused:
        return mistake.text.removeprefix(f"{mistakes.path(mistake.location)}: ")
    return None


def _names(case: Case, instance: Instance) -> dict[str, Any]:
    """What the conditions of an intent's file see."""
    return {
        **mutators.names(instance, declared(case)),
        **case_names.of(case),
        "expected": case.expect.object or {},
    }
