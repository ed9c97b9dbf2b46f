"""What an engine beside OPA decides on requests, for `fairlead diff --engine`. No cluster is asked:
API servers' own code evaluates admission policies, and this process runs the functions in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jsonpatch

from fairlead import engines
from fairlead.admission.decisions import Decision, fields
from fairlead.common.progress import Progress
from fairlead.deployment.names import CEL_ENGINE
from fairlead.engines import base
from fairlead.engines.base import Undecided
from fairlead.engines.cel import offline
from fairlead.engines.python import decisions
from fairlead.kube import admission_reviews
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.policy_set import PolicySet

Review = Mapping[str, Any]
Labels = Mapping[str, Mapping[str, str]]


def decide(
    engine: str,
    policies: PolicySet,
    reviews: Sequence[Review],
    namespaces: Labels,
    exceptions: Sequence[PolicyException] = (),
    *,
    progress: Progress,
) -> list[Decision]:
    """The decisions of the engine, `cel` or `python`, in the order of `reviews`. `namespaces` are
    the labels of all namespaces, by name. Raises UsageError for an intent that the engine cannot
    express, and FairleadError.
    """
    progress.update(engine, "deciding", total=len(reviews))
    if engine == CEL_ENGINE:
        objects = engines.render(engine, policies.excepting(exceptions))
        answers = offline.decide(objects, reviews, namespaces, progress=progress)
        return [_of_cel(*pair) for pair in zip(reviews, answers, strict=True)]
    functions = decisions.of_policies(policies)
    return [_of_python(functions, review, namespaces, exceptions) for review in reviews]


def comparable(decision: Decision, review: Review) -> Decision:
    """The decision without what engines may word differently: messages, and the form of a patch."""
    before = review["request"].get("object")
    after = admission_reviews.apply(decision.patch, before) if decision.patch else before
    return replace(
        decision,
        message="",
        warnings=("it warns",) if decision.warnings else (),
        patch=_patch(before, after),
    )


def _of_cel(review: Review, outcome: base.Decision | Undecided) -> Decision:
    if isinstance(outcome, Undecided):
        return Decision(False, outcome.reason)
    patch = _patch(review["request"].get("object"), outcome.object) if outcome.allowed else ()
    return Decision(outcome.allowed, outcome.message, outcome.warnings, patch)


def _of_python(
    functions: decisions.Policies,
    review: Review,
    namespaces: Labels,
    exceptions: Sequence[PolicyException],
) -> Decision:
    name = review["request"].get("namespace") or ""
    labels, intents = namespaces.get(name, {}), review.get("intents")
    answer = functions.answer(review, labels, intents, exceptions)
    return Decision(**fields(answer)).without_note()


def _patch(before: Any, after: Any) -> tuple[dict[str, Any], ...]:
    """The JSON Patch between two objects, in a form of its own."""
    return tuple(jsonpatch.make_patch(before, after).patch) if before != after else ()
