"""The instances of intents that are in force: each applies an intent with parameters of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.policy import controllers
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.intents import Intent
from fairlead.policy.requests import Condition, Request
from fairlead.settings.models import Exempt, IntentSettings, Settings
from fairlead.settings.selectors import Expression, Selector

NAME_LABEL = "kubernetes.io/metadata.name"
"""API servers set this label of each namespace to its name."""


@dataclass(frozen=True)
class Instance:
    """An intent in force under a name, with its parameters and the requests that it decides on.

    The requests are those of the intent, narrowed to the instance's namespaces and without those
    that are exempt. `exceptions` are those that engines get which look up none.
    """

    name: str
    intent: Intent
    parameters: Mapping[str, Any]
    exempt: Exempt
    requests: Sequence[Request]
    exceptions: tuple[PolicyException, ...] = ()

    @property
    def labels(self) -> set[str]:
        """The labels of namespaces that decide about it."""
        selected = (request.namespaces.expressions for request in self.requests)
        return {*self.intent.facts.namespace_labels, *(e.key for es in selected for e in es)}

    def enforcement(self, by_instance: Mapping[str, str]) -> dict[str, str]:
        """Its enforcement under its own name and under that of its intent, by which the policy
        asks; nothing if it denies.
        """
        mode = by_instance.get(self.name, "deny")
        return {} if mode == "deny" else {self.intent.name: mode, self.name: mode}

    @property
    def has_intents_name(self) -> bool:
        """Whether it is the instance that has the name of its intent."""
        return self.name == self.intent.name


def of(intent: Intent, settings: Settings, document: Mapping[str, Any]) -> Iterator[Instance]:
    """The instances of an intent, by name; `document` is the file form of `settings`. Raises
    InputError if intent.yaml is wrong, and ValueError for parameters that are.
    """
    for name, instance in settings.instances(intent.name, default=intent.facts.enabled).items():
        try:
            parameters = intent.parameters(instance.parameters)
        except ValueError as error:
            raise ValueError(f"intents.{name}.{error}") from error
        of_intent = intent.requests(document, parameters)
        requests = [_narrowed(request, instance, of_intent) for request in of_intent]
        yield Instance(name, intent, parameters, instance.exempt, requests)


def excepting(
    active: Iterable[Instance], exceptions: Sequence[PolicyException]
) -> tuple[Instance, ...]:
    """The instances, each with those of the exceptions that are about it."""
    return tuple(
        replace(
            instance,
            exceptions=tuple(each for each in exceptions if instance.name in each.spec.intents),
        )
        for instance in active
    )


def exempt_namespaces(exempt: Exempt) -> list[Expression]:
    """The requirement that leaves the exempt namespaces alone; none if there are none."""
    if not exempt.namespaces:
        return []
    return [Expression(key=NAME_LABEL, operator="NotIn", values=sorted(exempt.namespaces))]


def _narrowed(request: Request, instance: IntentSettings, of_intent: Sequence[Request]) -> Request:
    expressions = [
        *request.namespaces.expressions,
        *instance.namespaces.expressions,
        *exempt_namespaces(instance.exempt),
    ]
    conditions = [
        *request.conditions,
        *controllers.conditions(request, of_intent),
        *_exempt_users(instance.exempt),
    ]
    return request.model_copy(
        update={
            "namespaces": Selector(match_expressions=expressions),
            "conditions": conditions,
        }
    )


def _exempt_users(exempt: Exempt) -> Iterator[Condition]:
    """Conditions in CEL, by which the API server does not ask about requests of these users."""
    if exempt.users:
        yield Condition(
            name="no-exempt-user",
            expression=f"!(request.userInfo.username in {_cel(exempt.users)})",
        )
    if exempt.groups:
        yield Condition(
            name="no-exempt-group",
            expression="!request.userInfo.?groups.orValue([])"
            f".exists(group, group in {_cel(exempt.groups)})",
        )


def _cel(names: Sequence[str]) -> str:
    """A list of strings in CEL, which has JSON's escapes but those of surrogates."""
    return json.dumps(sorted(names), ensure_ascii=False)
