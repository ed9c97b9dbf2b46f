"""Admission policies decided without an API server: as the one decides that
integration/tests/test_native_conformance.py asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead import engines
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Outcome, Undecided
from fairlead.engines.cel import manifests, offline
from fairlead.engines.cel.manifests import Rendered
from fairlead.kube import admission_reviews
from fairlead.policy import cases
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification.verify import verify
from lab.engines.cel import inexpressible, together
from lab.engines.live.worlds import World

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


# What an API server does itself before it asks its policies, or after them.
INEXPRESSIBLE = {
    "a namespace that nobody knows takes no pod": "API servers refuse a namespace that is absent",
    "an unset number that becomes 1 is not a change": "API servers set the default of the number",
}
POLICIES = CasePolicies()


@dataclass
class Question:
    """Cases that one process can decide: they agree about the labels of their namespaces."""

    world: World[Rendered] = field(default_factory=lambda: World(POLICIES, manifests.render))
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    reviews: list[dict[str, Any]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)

    def take(self, case: Case) -> bool:
        """Add the case, if it agrees with the others."""
        review = case.review()
        name = review["request"].get("namespace", "")
        labels = case.namespace.labels if case.namespace else {}
        if self.namespaces.setdefault(name, labels) != labels:
            return False
        user = review["request"]["userInfo"]
        user["groups"] = [*user.get("groups", ()), self.world.add(case)]
        self.reviews.append(review)
        self.cases.append(case)
        return True

    def outcomes(self) -> Iterator[tuple[Case, Outcome]]:
        objects = together.parameters(self.world)
        for policies in together.policies(self.world):
            objects += policies
        decided = offline.decide(objects, self.reviews, self.namespaces, progress=Progress())
        yield from zip(self.cases, decided, strict=True)


class OfflineEngine:
    """The engine `cel` without an API server."""

    name = "cel"
    asks_cluster = False

    def inexpressible(self, case: Case) -> str | None:
        return inexpressible.reason(case, POLICIES) or INEXPRESSIBLE.get(case.name)

    def decide(self, cases: Sequence[Case], _progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        questions: list[Question] = []
        for case in cases:
            if not any(question.take(case) for question in questions):
                questions.append(Question())
                questions[-1].take(case)
        for question in questions:
            yield from question.outcomes()


def test_every_case_holds_without_an_api_server() -> None:
    every = cases.load(None)
    assert {case.name for case in every} >= INEXPRESSIBLE.keys()
    results = verify(every, [OfflineEngine()], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    assert len([result for result in results if result.passed]) >= 400


def decide(
    objects: Sequence[Mapping[str, Any]],
    pod: Mapping[str, Any] = POD,
    namespaces: Mapping[str, Mapping[str, str]] = {"payments": {"agentpool": "gpu"}},
    **review: Any,
) -> Decision | Undecided:
    built = admission_reviews.build(pod, namespace="payments", **review)
    (decided,) = offline.decide(objects, [built], namespaces, progress=Progress())
    return decided


def with_node(name: str) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], "nodeName": name}}


def test_what_render_prints_decides_in_any_order() -> None:
    objects = engines.render("cel", PolicySet.load(Settings()))
    placed = Decision(
        True, "", {**POD, "spec": {**POD["spec"], "nodeSelector": {"agentpool": "gpu"}}}
    )
    for order in (objects, objects[::-1]):
        assert decide(order) == placed
    assert decide(objects, operation="DELETE") == Decision(True, "", None)


def test_a_refusal_has_the_words_of_the_policy() -> None:
    outcome = decide(engines.render("cel", PolicySet.load(Settings())), with_node("n1"))
    assert isinstance(outcome, Decision)
    assert (outcome.allowed, outcome.object) == (False, None)
    assert outcome.message.startswith('pod "web" sets spec.nodeName=n1, ')


def test_with_enforcement_warn_the_message_is_a_warning() -> None:
    settings = Settings.model_validate({"enforcement": "warn"})
    decided = decide(engines.render("cel", PolicySet.load(settings)), with_node("n1"))
    assert isinstance(decided, Decision)
    assert decided.allowed
    (warning,) = decided.warnings
    assert warning.startswith("Validation failed for ValidatingAdmissionPolicy 'fairlead.node-pool")


def test_a_namespace_without_labels_that_are_known_is_undecided() -> None:
    outcome = decide(engines.render("cel", PolicySet.load(Settings())), namespaces={})
    assert outcome == Undecided('the labels of the namespace "payments" are not known')


def test_what_no_api_server_asks_is_undecided() -> None:
    objects = engines.render("cel", PolicySet.load(Settings()))
    invalid = decide(objects, {**POD, "spec": {"containers": "none"}})
    assert isinstance(invalid, Undecided)
    assert "does not accept the object" in invalid.reason
    (unreadable,) = offline.decide(objects, [{"request": {}}], {}, progress=Progress())
    assert isinstance(unreadable, Undecided)


def test_an_object_that_cannot_be_read_is_named() -> None:
    policy = next(
        each
        for each in engines.render("cel", PolicySet.load(Settings()))
        if each["kind"] == "ValidatingAdmissionPolicy"
    )
    with pytest.raises(FairleadError, match=policy["metadata"]["name"]):
        decide([{**policy, "spec": {"validations": 1}}])
