"""Decides requests by admission policies without an API server: API servers' own code does it, in
the program `fairlead-matcher`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Undecided
from fairlead.kube.responses import DENIAL
from fairlead.programs import matcher


@dataclass(frozen=True)
class Decided:
    """What admission policies decide about a request. `audited` are the messages of failures with
    the action Audit, which are in the API server's audit log.
    """

    outcome: Decision | Undecided
    audited: tuple[str, ...] = ()


def decide(
    objects: Sequence[Mapping[str, Any]],
    reviews: Sequence[Mapping[str, Any]],
    namespaces: Mapping[str, Mapping[str, str]],
    *,
    progress: Progress,
) -> list[Decided]:
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


def _decided(review: Mapping[str, Any], answer: Mapping[str, Any]) -> Decided:
    if unreadable := answer.get("unreadable"):
        return Decided(Undecided(f"no API server sends such a review: {unreadable}"))
    if invalid := answer.get("invalid"):
        return Decided(Undecided(f"an API server does not accept the object: {invalid}"))
    decision = answer["decision"]
    if error := decision.get("error"):
        return Decided(Undecided(error))
    warnings, audited = tuple(decision["warnings"]), tuple(decision["audited"])
    if not decision["allowed"]:
        message = DENIAL.split(decision["message"], maxsplit=1)[-1]
        return Decided(Decision(False, message, None, warnings), audited)
    after = decision.get("object", review["request"].get("object"))
    return Decided(Decision(True, "", after, warnings), audited)
