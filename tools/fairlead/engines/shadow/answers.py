"""Asks the engines of a pair about reviews for one intent: OPA as an API server does, policies in
Python in this process, and admission policies by API servers' own code.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fairlead.common.errors import FairleadError
from fairlead.deployment import shadowing
from fairlead.deployment.names import CEL_ENGINE, INTENT_LABEL, PARAMETERS_GROUP, PART_OF
from fairlead.engines.disagreements import Answer
from fairlead.engines.python.decisions import Policies
from fairlead.engines.serving.namespaces import Labels
from fairlead.engines.shadow.deployed import Deployment
from fairlead.kube import admission_reviews
from fairlead.kube.clients import Objects
from fairlead.opa.api import OpaApi
from fairlead.programs import matcher

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_FRESH = 2.0
"""Seconds for which what was read of the cluster's admission policies is used."""
_WITHIN = 30.0
"""Seconds within which the matcher answers."""


class Asked(Protocol):
    """An engine that decides about reviews."""

    def answers(
        self, intent: str, reviews: Sequence[Any], namespaces: Mapping[str, Labels]
    ) -> Iterator[Answer]:
        """An answer to each review for this intent alone. `namespaces` are the labels of those that
        are known. Raises FairleadError if the engine gives none from here on.
        """


class Opa:
    """The OPAs behind a URL."""

    def __init__(self, url: str, ca: Path) -> None:
        self._api = OpaApi(url, ca=ca)

    def answers(
        self, intent: str, reviews: Sequence[Any], namespaces: Mapping[str, Labels]
    ) -> Iterator[Answer]:
        """See Asked. OPA knows the namespaces by itself."""
        for review in reviews:
            yield of_response(self._api.decide(review, intent), review)


class Python:
    """Policies in Python, in this process."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def answers(
        self, intent: str, reviews: Sequence[Any], namespaces: Mapping[str, Labels]
    ) -> Iterator[Answer]:
        """See Asked."""
        for review in reviews:
            labels = namespaces.get(review["request"].get("namespace") or "")
            try:
                answer = self._policies.answer(review, labels, {intent})
            except Exception as error:  # whatever the code of a policy raises
                yield Answer(None, f"{type(error).__name__}: {error}")
            else:
                yield of_response(answer, review)


class Cel:
    """The admission policies that are in the cluster. Those of a shadow are taken to have the
    effect that they would have without it.
    """

    def __init__(self, api: Objects, program: Path) -> None:
        self._api, self._program = api, program
        self._read: list[dict[str, Any]] = []
        self._read_at = float("-inf")
        self.deployment: Deployment | None = None

    def answers(
        self, intent: str, reviews: Sequence[Any], namespaces: Mapping[str, Labels]
    ) -> Iterator[Answer]:
        """See Asked."""
        question = {
            "configurations": [],
            "namespaces": namespaces,
            "reviews": reviews,
            "policies": self._policies(intent),
        }
        replies = matcher.answered(self._program, question, within=_WITHIN)["answers"]
        for reply, review in zip(replies, reviews, strict=True):
            yield _of_reply(reply, review)

    def forget(self) -> None:
        """Read the policies again, before the next answer."""
        self._read_at = float("-inf")

    def _policies(self, intent: str) -> list[dict[str, Any]]:
        """What decides for the intent: policies, bindings and parameters. Raises FairleadError."""
        deployment = self.deployment
        if deployment is None:
            raise FairleadError("no policies are known yet")
        if time.monotonic() > self._read_at + _FRESH:
            self._read = [*self._listed(deployment)]
            self._read_at = time.monotonic()
        live = {
            (each["kind"], each["metadata"]["name"]): each
            for each in self._read
            if (each["metadata"].get("labels") or {}).get(INTENT_LABEL) == intent
        }
        if deployment.engines.enforcing == CEL_ENGINE:
            return [*live.values()]
        effective = []
        for recorded in deployment.objects.get(intent, ()):
            kind, name = recorded["kind"], recorded["metadata"]["name"]
            present = live.get((kind, name))
            # Of a shadow, the bindings are meant to be missing of what would mutate.
            if present is None and not kind.endswith("Binding"):
                raise FairleadError(f"{kind} {name} is missing")
            effective.append(shadowing.with_effect(recorded, present))
        return effective

    def _listed(self, deployment: Deployment) -> Iterator[dict[str, Any]]:
        paths = [f"{_ADMISSION}/{plural}" for plural in _KINDS.values()]
        paths += [f"/apis/{PARAMETERS_GROUP}/v1/{each}" for each in deployment.plurals.values()]
        selector = {"labelSelector": f"{PART_OF}=fairlead,{INTENT_LABEL}"}
        for path in paths:
            yield from self._api.collection(path, selector)


def of_response(answer: Mapping[str, Any], review: Mapping[str, Any]) -> Answer:
    """The answer that a webhook gave, with the object after its patch."""
    try:
        response = answer["response"]
        if not response["allowed"]:
            return Answer(False, str(response.get("status", {}).get("message", "")))
        patch = admission_reviews.patch_of(answer)
        manifest = review["request"].get("object")
        after = admission_reviews.apply(patch, manifest) if patch else manifest
    except (FairleadError, KeyError, TypeError, AttributeError) as error:
        return Answer(None, f"its answer cannot be used: {error}")
    return Answer(True, "", after, tuple(response.get("warnings") or ()))


def _of_reply(reply: Mapping[str, Any], review: Mapping[str, Any]) -> Answer:
    """The answer in a reply of the matcher."""
    decision = reply.get("decision") or {}
    trouble = reply.get("unreadable") or reply.get("invalid") or decision.get("error")
    if trouble or "allowed" not in decision:
        return Answer(None, str(trouble or "the matcher gave no decision"))
    if not decision["allowed"]:
        return Answer(False, str(decision.get("message", "")))
    after = decision.get("object") or review["request"].get("object")
    return Answer(True, "", after, tuple(decision.get("warnings") or ()))
