"""Which intents have a say in a request, as in policies/scope/scope.rego."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.engines.python import controllers
from fairlead.engines.python.api import Request, get
from fairlead.policy import tables
from fairlead.policy.exceptions import PolicyException, in_force
from fairlead.policy.instances import NAME_LABEL, Instance

Expression = Mapping[str, Any]
"""A requirement of a label selector, as in Kubernetes' meta/v1."""


@dataclass(frozen=True)
class Scope:
    """The intents with a say in a request, by name. They are `unclear` if they may have one, but
    the labels of the namespace are not known.
    """

    concerned: frozenset[str]
    unclear: frozenset[str]


class Table:
    """The requests that each instance of an intent has a say in."""

    def __init__(self, active: Sequence[Instance]) -> None:
        self._active = active
        self._requests = tables.requests(active)
        self._refusals = tables.refusals(active)
        self._exempt = {instance.name: instance.exempt for instance in active}

    def scope(
        self,
        request: Request,
        names: Collection[str],
        exceptions: Iterable[PolicyException] = (),
        *,
        storing: bool = False,
    ) -> Scope:
        """Those of the intents `names` that have a say in the request; with `storing`, those that
        may refuse what it stores, whatever that is. `exceptions` are those of its namespace.
        """
        excepting = in_force(exceptions)
        concerned, unclear = set(), set()
        table = self._refusals if storing else self._requests
        table_of_operation = table.get(request.operation, {})
        owner = controllers.owner(request)
        for name, selectors in table_of_operation.get(_path(request), {}).items():
            if name not in names or self._is_exempt(name, request):
                continue
            if any(_is_excepted(name, request, exception) for exception in excepting):
                continue
            by_owner = [] if storing else table_of_operation.get(owner or "", {}).get(name, [])
            answers = [
                selects(selector, request) for selector in selectors if selector not in by_owner
            ]
            if any(answers):
                concerned.add(name)
            elif None in answers:
                unclear.add(name)
        return Scope(frozenset(concerned), frozenset(unclear))

    def doubts(self, request: Request, names: Collection[str]) -> bool:
        """Whether the labels of the namespace may be old, or are not known. API servers ask only
        about namespaces that a webhook selects, so there is no doubt about labels that every
        webhook for such objects selects.
        """
        return not all(
            selects((expression.document() for expression in rule.namespaces.expressions), request)
            for instance in self._active
            if instance.name in names
            for rule in instance.requests
            if request.operation in rule.operations
            and _path(request) in (kind.path for kind in rule.kinds)
        )

    def _is_exempt(self, name: str, request: Request) -> bool:
        exempt = self._exempt[name]
        return request.user.name in exempt.users or not request.user.groups.isdisjoint(
            exempt.groups
        )


def _is_excepted(intent: str, request: Request, exception: PolicyException) -> bool:
    return exception.excepts(
        intent,
        namespace=request.namespace,
        resource=request.resource.resource,
        name=request.object_name,
    )


def _path(request: Request) -> str:
    """What is sent, as policies/intents.rego names it: `group/Kind[/subresource]`."""
    return "/".join(filter(None, (request.kind.path, request.sub_resource)))


def selects(selector: Iterable[Expression], request: Request) -> bool | None:
    """Whether a selector of namespaces selects the request; None if that is not known.

    All its requirements have to hold. It selects every object that belongs to no namespace. About
    a Namespace that is created or updated, its new labels decide.
    """
    if not request.namespace:
        return True
    labels = _own_labels(request)
    answers = [_holds(expression, request.namespace, labels) for expression in selector]
    if False in answers:
        return False
    return None if None in answers else True


def _own_labels(request: Request) -> Mapping[str, str] | None:
    if request.kind.path != "/Namespace" or request.operation not in ("CREATE", "UPDATE"):
        return request.namespace_labels
    labels = get(request.object, "metadata", "labels", default={})
    return labels if isinstance(labels, Mapping) else None


def _holds(expression: Expression, name: str, labels: Mapping[str, str] | None) -> bool | None:
    key, operator = expression["key"], expression["operator"]
    all_labels = {**(labels or {}), NAME_LABEL: name}  # API servers give each namespace this label
    if labels is None and key != NAME_LABEL:
        return None
    if operator == "Exists":
        return key in all_labels
    if operator == "DoesNotExist":
        return key not in all_labels
    return bool((all_labels.get(key) in expression["values"]) == (operator == "In"))
