"""Decides requests by admission policies without an API server: API servers' own code does it, in
the program `fairlead-matcher`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Undecided
from fairlead.kube.responses import DENIAL
from fairlead.programs import matcher


def decide(
    objects: Sequence[Mapping[str, Any]],
    reviews: Sequence[Mapping[str, Any]],
    namespaces: Mapping[str, Mapping[str, str]],
    *,
    progress: Progress,
) -> list[Decision | Undecided]:
    """What an API server with these policies, and no other, decides about each of `reviews`, in
    their order.

    A message is what the policy says, without its name. In the object afterwards, what a policy
    adds has no defaults. A request is undecided if policies ask something that only an API server
    knows.

    Args:
        objects: policies, their bindings and their parameters, as a cluster has them or as an
            engine renders them. There is at least one.
        reviews: AdmissionReviews as a webhook would get them.
        namespaces: the labels of the reviews' namespaces, by name.

    Raises FairleadError if an object cannot be read, or if the program cannot be built or fails.
    """
    question = {"policies": list(objects), "namespaces": namespaces}
    answers = matcher.answers(question, reviews, progress)
    return [_decided(*pair) for pair in zip(reviews, answers, strict=True)]


def _decided(review: Mapping[str, Any], answer: Mapping[str, Any]) -> Decision | Undecided:
    if unreadable := answer.get("unreadable"):
        return Undecided(f"no API server sends such a review: {unreadable}")
    if invalid := answer.get("invalid"):
        return Undecided(f"an API server does not accept the object: {invalid}")
    decision = answer["decision"]
    if error := decision.get("error"):
        return Undecided(error)
    warnings = tuple(decision["warnings"])
    if not decision["allowed"]:
        message = DENIAL.split(decision["message"], maxsplit=1)[-1]
        return Decision(False, message, None, warnings)
    after = decision.get("object", review["request"].get("object"))
    return Decision(True, "", after, warnings)
