"""Decides requests by admission policies without an API server: API servers' own code does it, in
the program `fairlead-matcher`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common import texts
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

    API servers note in an object when it was sent, by which exceptions end: here that is now.

    Args:
        objects: policies, their bindings and their parameters, as a cluster has them or as an
            engine renders them. There is at least one.
        reviews: AdmissionReviews as a webhook would get them.
        namespaces: the labels of the reviews' namespaces, by name.

    Raises FairleadError if an object cannot be read, or if the program cannot be built or fails.
    """
    question = {"policies": list(objects), "namespaces": namespaces}
    sent = [_sent_now(review) for review in reviews]
    answers = matcher.answers(question, sent, progress)
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
    before = review["request"].get("object")
    after = decision.get("object", before)
    return Decision(True, "", _without_time(after, before), warnings)


def _sent_now(review: Mapping[str, Any]) -> Mapping[str, Any]:
    """The review with the time that an API server notes. It notes none in what is sent to a
    subresource with objects of its own kind, such as a Scale.
    """
    request = review["request"]
    value = request.get("object")
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or "managedFields" in metadata:
        return review
    if request.get("subResource") and value.get("kind") != "Pod":
        return review
    with_time = {**metadata, "managedFields": [{"time": texts.now()}]}
    return {**review, "request": {**request, "object": {**value, "metadata": with_time}}}


def _without_time(after: Any, before: Any) -> Any:
    """The object afterwards without the time that `_sent_now` noted in it."""
    metadata = after.get("metadata") if isinstance(after, dict) else None
    if not isinstance(metadata, dict) or "managedFields" in (before.get("metadata") or {}):
        return after
    rest = {key: part for key, part in metadata.items() if key != "managedFields"}
    return {**after, "metadata": rest}
