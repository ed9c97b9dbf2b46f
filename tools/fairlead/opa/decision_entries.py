"""Reads entries of OPA's decision log: who asked for what, and what was decided.

Source: openpolicyagent.org/docs/management-decision-logs. OPA's plugin decides which parts of a
request an entry has (see tools/plugin/shown.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fairlead.common import texts
from fairlead.kube import admission_reviews

DECISION_UID = "decisionUID"
"""The audit annotation that is not an intent's: it holds the uid of the request."""

# The outcomes that policies/main.rego writes into audit annotations, before the colon.
_OUTCOMES = {"refused": "denied", "would be refused": "warned", "placed": "placed"}
_GRAVEST_FIRST = ("failed", "denied", "warned", "placed")
REFUSALS = ("denied", "failed")
"""The verdicts that refuse a request. API servers treat a failed decision as a refusal."""
_SERVICE_ACCOUNT = "system:serviceaccount:"


def outcomes(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The outcomes of one decision: (intent, outcome) for each intent that applied.

    The outcome is `placed`, `warned` or `denied`. If no intent reports one, the intent is "" and
    the outcome is `allowed`, `warned`, `denied`, or `failed` if OPA had no answer. API servers
    treat a failure as a refusal.
    """
    response = mapping(entry.get("result")).get("response")
    if not isinstance(response, dict):
        yield "", "failed"
        return
    annotations = response.get("auditAnnotations") or {}
    by_intent = {key: text for key, text in annotations.items() if key != DECISION_UID}
    for intent, annotation in by_intent.items():
        yield intent, _OUTCOMES.get(str(annotation).partition(":")[0], "allowed")
    if not by_intent:
        allowed = "warned" if response.get("warnings") else "allowed"
        yield "", allowed if response.get("allowed") is True else "denied"


def summary(entry: Mapping[str, Any]) -> dict[str, str | None]:
    """A decision for people: {time, user, request, verdict, reason}.

    `verdict` is refused, failed, warned, placed or allowed; the gravest one if several intents have
    a say. It is an outcome of the metric fairlead_decisions_total, which calls refused `denied`.
    `reason` is the message, the warnings, OPA's error, or the pool. An API server asks twice about
    a pod, to place it and about its final state: the first reason ends with `added`, the second one
    with `there already`.
    """
    user = str(mapping(request(entry).get("userInfo")).get("username") or "-")
    decided = verdict(entry)
    return {
        "time": texts.time(time(entry)),
        "user": user.removeprefix(_SERVICE_ACCOUNT),
        "request": admission_reviews.title(entry.get("input")),
        "verdict": "refused" if decided == "denied" else decided,
        "reason": _reason(entry, decided) or None,
    }


def verdict(entry: Mapping[str, Any]) -> str:
    """The gravest outcome of a decision: failed, denied, warned, placed or allowed."""
    kinds = {outcome for _, outcome in outcomes(entry)}
    return next((outcome for outcome in _GRAVEST_FIRST if outcome in kinds), "allowed")


def _reason(entry: Mapping[str, Any], decided: str) -> str:
    response = mapping(mapping(entry.get("result")).get("response"))
    if decided == "failed":
        error = entry.get("error")
        return str(mapping(error).get("message") or error or "OPA had no answer")
    if decided == "denied":
        return str(mapping(response.get("status")).get("message", ""))
    if decided == "warned":
        return "; ".join(map(str, response.get("warnings") or ()))
    annotations = mapping(response.get("auditAnnotations"))
    details = [
        str(text).partition(": ")[2]
        for intent, text in sorted(annotations.items())
        if intent != DECISION_UID
    ]
    if decided == "placed":
        details.append("added" if response.get("patch") else "there already")
    return "; ".join(details)


def time(entry: Mapping[str, Any]) -> datetime:
    """When OPA decided; 1970 if the entry does not say it."""
    try:
        decided = datetime.fromisoformat(str(entry.get("timestamp")))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return decided if decided.tzinfo else decided.replace(tzinfo=UTC)


def request(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request that was decided on; empty if the entry has none."""
    return admission_reviews.request_of(entry.get("input"))


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is a map, else an empty one, as forged reviews can have values of any type."""
    return value if isinstance(value, dict) else {}
