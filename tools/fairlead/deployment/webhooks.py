"""The webhooks by which API servers ask OPA: made from the requests that each intent has a say in.

A webhook is named `<intent>.fairlead.dev`, or `<request>.<intent>.fairlead.dev` if the request has
a name. The validating webhook of a request that also has a mutating one is named `final-state`.
Operations with other conditions than the first stand before: `updates.<intent>.fairlead.dev`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.deployment import disabled_objects
from fairlead.deployment.names import CLUSTER_ROLES, EXEMPT
from fairlead.kube import admission_reviews
from fairlead.policy.instances import NAME_LABEL, Instance
from fairlead.policy.intent_file import FILE
from fairlead.policy.requests import OWN_GROUPS, Condition, Kind, Operation, Request
from fairlead.settings.models import Settings

INTENTS = "/intents/"
"""The path of OPA's plugin below which webhooks ask; the intent's name follows (front.go)."""
_RBAC = "rbac.authorization.k8s.io"
_OURS = Condition(
    name="not-fairleads-own",  # they have to be there before OPA can decide
    expression=f"!(request.name in {list(CLUSTER_ROLES)})",
)


@dataclass(frozen=True)
class Asked:
    """What an API server asks OPA about: requests of one intent, of kinds with the same bounds.

    Attributes:
        name: of the webhook, without the domain.
        failure_policy: what happens if OPA does not answer.
        namespaces: the expressions of the namespaceSelector.
        rules: the rules of the webhook.
    """

    name: str
    intent: str
    failure_policy: str
    timeout_seconds: int
    namespaces: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    conditions: list[Condition]

    @property
    def path(self) -> str:
        """The path by which the webhook asks for the decision of its intent alone."""
        return f"{INTENTS}{self.intent}"


@dataclass(frozen=True)
class Webhooks:
    """What API servers ask OPA about, by the phase of admission."""

    mutating: list[Asked]
    validating: list[Asked]


def of(active: Sequence[Instance], settings: Settings) -> Webhooks:
    """The webhooks for these intents. Raises UsageError if two of them would have one name."""
    webhooks = Webhooks([], [])
    for instance in active:
        for request in instance.requests:
            if "mutating" in request.webhooks:
                webhooks.mutating.extend(
                    _split(instance.name, request, request.conditions, settings)
                )
            if "validating" in request.webhooks:
                webhooks.validating.extend(_validating(instance.name, request, settings))
    for phase in (webhooks.mutating, webhooks.validating):
        _require_distinct(phase)
    return webhooks


def _require_distinct(phase: Iterable[Asked]) -> None:
    owners: dict[str, str] = {}
    for hook in phase:
        name = f"{hook.name}.fairlead.dev"
        if name in owners:
            raise UsageError(
                f"{FILE}: the requests of {' and '.join(sorted({owners[name], hook.intent}))} "
                f"would have the name {name} twice: give each request a `name` of its own, or "
                "rename a policy"
            )
        owners[name] = hook.intent


def _validating(intent: str, request: Request, settings: Settings) -> Iterator[Asked]:
    """The webhooks for the validating phase.

    API servers accept no patch there. If the policy still wants one, the call fails, and if
    enforcement is `warn`, nothing may be refused.
    """
    prefix = disabled_objects.FINAL_STATE if "mutating" in request.webhooks else ""
    conditions = [*request.final_state, *request.conditions]
    for hook in _split(intent, request, conditions, settings):
        policy = "Ignore" if settings.mode(intent) == "warn" else hook.failure_policy
        yield replace(hook, name=f"{prefix}{hook.name}", failure_policy=policy)


def _split(
    intent: str, request: Request, conditions: Sequence[Condition], settings: Settings
) -> Iterator[Asked]:
    """One webhook for all operations with the same conditions, because an API server converts each
    object for a webhook that has any: a tenth of its work for the creation of a pod.
    """
    for number, (operations, of_these) in enumerate(_by_conditions(request, conditions)):
        parts = [
            "-".join(f"{operation.lower()}s" for operation in operations) if number else None,
            request.name,
            intent,
        ]
        yield Asked(
            name=".".join(filter(None, parts)),
            intent=intent,
            failure_policy=request.failure_policy or settings.failure_policy,
            timeout_seconds=request.timeout_seconds or settings.timeout_seconds,
            namespaces=namespaces(request),
            rules=list(rules(operations, request.kinds)),
            conditions=[
                *of_these,
                *([_OURS] if any(kind.group == _RBAC for kind in request.kinds) else []),
            ],
        )


def _by_conditions(
    request: Request, conditions: Sequence[Condition]
) -> Iterator[tuple[list[Operation], list[Condition]]]:
    """The operations that have the same conditions, with these."""
    by_names: dict[tuple[str, ...], list[Operation]] = {}
    for operation in request.operations:
        names = tuple(each.name for each in conditions if each.concerns(operation))
        by_names.setdefault(names, []).append(operation)
    for operations in by_names.values():
        yield operations, [each for each in conditions if each.concerns(operations[0])]


def namespaces(request: Request) -> list[dict[str, Any]]:
    """The expressions of a namespaceSelector for the request."""
    return [
        {"key": NAME_LABEL, "operator": "NotIn", "values": [*EXEMPT]},
        *(expression.document() for expression in request.namespaces.expressions),
    ]


def rules(operations: Sequence[Operation], kinds: Sequence[Kind]) -> Iterator[dict[str, Any]]:
    """A rule for each API version and scope."""
    by_version: dict[tuple[str, str, str], list[str]] = {}
    for kind in kinds:
        key = (kind.group, kind.version, _scope(kind))
        by_version.setdefault(key, []).append(kind.resources)
    for (group, version, scope), resources in by_version.items():
        yield {
            "apiGroups": [group],
            "apiVersions": [version],
            "operations": [*operations],
            "resources": list(dict.fromkeys(resources)),
            "scope": scope,
        }


def _scope(kind: Kind) -> str:
    if kind.group not in OWN_GROUPS and not kind.group.endswith(".k8s.io"):
        return "*"
    return "Namespaced" if admission_reviews.is_namespaced(kind.group, kind.kind) else "Cluster"
