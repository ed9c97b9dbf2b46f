"""Answers AdmissionReviews by the intents in Python, merged as policies/main.rego merges those in
Rego."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from fairlead.common import texts
from fairlead.deployment import review_limits
from fairlead.engines.python import loading, reviews
from fairlead.engines.python.api import Decision, Patch, Request, quoted
from fairlead.engines.python.loading import Decide
from fairlead.engines.python.scope import Table
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.instances import Instance
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_LONGEST = 4096
"""Characters of a message. Messages quote the request, whose fields can have a megabyte."""


class Policies:
    """The intents that are in force under some settings."""

    def __init__(
        self,
        settings: Settings,
        active: Sequence[Instance],
        load: Callable[[Instance], Decide],
    ) -> None:
        """Raises InputError, and MissingError if an intent is not written in Python."""
        self.settings = settings
        self.names = frozenset(instance.name for instance in active)
        self._functions = {instance.name: load(instance) for instance in active}
        self._instances = {instance.name: instance for instance in active}
        modes = {instance.name: settings.mode(instance.name) for instance in active}
        self._settings = {
            instance.name: settings.model_copy(update={"enforcement": instance.enforcement(modes)})
            for instance in active
        }
        self._table = Table(active)

    def answer(
        self,
        review: Any,
        namespace_labels: Mapping[str, str] | None,
        names: Collection[str] | None = None,
        exceptions: Iterable[PolicyException] = (),
    ) -> dict[str, Any]:
        """The AdmissionReview that answers `review`. The labels of its namespace are None if they
        are not known. `names` are the intents that the caller asks for; None for all. `exceptions`
        are those of the namespace. Raises whatever an intent raises.
        """
        uid = reviews.uid(review)
        version = review.get("apiVersion") if isinstance(review, dict) else None
        problems = frozenset(reviews.problems(review))
        decisions: Mapping[str, Decision] = {}
        unclear: Iterable[str] = ()
        if not problems:
            request = reviews.read(review, namespace_labels)
            decide = _refused if _is_too_large(request) else self._decide
            scope = self._table.scope(
                request,
                self.names if names is None else names,
                exceptions,
                storing=decide is _refused,
            )
            decisions = {name: decide(name, request) for name in sorted(scope.concerned)}
            if any(not self._warns(name) for name in scope.unclear):
                unclear = [_unknown(request.namespace)]
        return {
            "apiVersion": version if version in reviews.VERSIONS else reviews.VERSIONS[0],
            "kind": "AdmissionReview",
            "response": {"uid": uid, **self._merged(decisions, problems.union(unclear), uid)},
        }

    def doubts(
        self,
        review: Any,
        namespace_labels: Mapping[str, str] | None,
        names: Collection[str] | None = None,
    ) -> bool:
        """Whether these labels of the review's namespace are not enough to decide: they are not
        known, or old by what API servers ask about.
        """
        if any(reviews.problems(review)):
            return False
        request = reviews.read(review, namespace_labels)
        return self._table.doubts(request, self.names if names is None else names)

    def _decide(self, name: str, request: Request) -> Decision:
        instance = self._instances[name]
        return self._functions[name](request, instance.parameters, self._settings[name])

    def _warns(self, name: str) -> bool:
        return self.settings.mode(name) == "warn"

    def _merged(
        self, decisions: Mapping[str, Decision], problems: frozenset[str], uid: str
    ) -> dict[str, Any]:
        refusals = _union(decision.deny for decision in decisions.values())
        denials = problems | _union(
            decision.deny for name, decision in decisions.items() if not self._warns(name)
        )
        warnings = (refusals - denials) | _union(decision.warn for decision in decisions.values())
        response: dict[str, Any] = {"allowed": not denials}
        patch = _joined(decision.patch for decision in decisions.values())
        if patch and not denials:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        if warnings:
            response["warnings"] = sorted({_cut(message) for message in warnings})
        if annotations := self._annotations(decisions, admitted=not denials):
            response["auditAnnotations"] = {**annotations, "decisionUID": uid}
        if denials:
            contact = f" (ask {self.settings.contact})" if self.settings.contact else ""
            message = _cut("; ".join(sorted(denials))) + contact
            response["status"] = {"code": 403, "reason": "Forbidden", "message": message}
        return response

    def _annotations(self, decisions: Mapping[str, Decision], *, admitted: bool) -> dict[str, str]:
        """What the API server's audit log says of each intent."""
        annotations = {}
        for name, decision in decisions.items():
            if decision.deny:
                word = "would be refused" if self._warns(name) else "refused"
                annotations[name] = _cut(f"{word}: {'; '.join(sorted(decision.deny))}")
            elif admitted and decision.audit:
                annotations[name] = _cut(decision.audit)
        return annotations


def of_policies(policies: PolicySet) -> Policies:
    """The policies of a set that comes from folders. Raises InputError, and MissingError if an
    intent is not written in Python.
    """
    return Policies(policies.settings, policies.active, loading.load)


def of_data(settings: Settings, data: Mapping[str, str]) -> Policies:
    """The policies in the data of their ConfigMap. Raises as `of_policies`, and UsageError."""
    policies = PolicySet.deployed(data, settings)
    return Policies(settings, policies.active, loading.load_from(data))


def _is_too_large(request: Request) -> bool:
    return any(
        review_limits.is_too_large(request.kind.path, value)
        for value in (request.object, request.old_object)
    )


def _refused(_: str, request: Request) -> Decision:
    """What an intent says of an object that is too large, whatever the intent is about."""
    changes = review_limits.changes(request.operation, request.object, request.old_object)
    return Decision(deny=frozenset({review_limits.TOO_LARGE} if changes else ()))


def _unknown(namespace: str) -> str:
    return f"namespace {quoted(namespace)} is not known to the policy yet: retry in a moment"


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def _joined(patches: Iterable[Iterable[Patch]]) -> list[Patch]:
    """One patch of several. Two may add a list that the object lacks: the items of the second are
    appended, or its list would replace the first.
    """
    joined: list[Patch] = []
    lists = set()
    for operation in (operation for patch in patches for operation in patch):
        path, value = operation["path"], operation.get("value")
        if operation["op"] != "add" or not isinstance(value, list):
            joined.append(operation)
        elif path in lists:
            joined += ({"op": "add", "path": f"{path}/-", "value": item} for item in value)
        else:
            lists.add(path)
            joined.append(operation)
    return joined


def _cut(message: str) -> str:
    return texts.shortened(message, _LONGEST)
