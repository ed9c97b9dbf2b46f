"""The comparison of decisions by two policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairlead.admission import batch, diff, engine_decisions, inventory
from fairlead.admission.decisions import Decision
from fairlead.cli.decisions import diff as diff_command
from fairlead.common.progress import Progress
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PATCH = ({"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "gpu"}},)
PLACED = Decision(True, "", (), PATCH, "gpu", {"agentpool": "gpu"})
REFUSED = Decision(False, "no", (), (), "gpu", {})


@pytest.mark.parametrize(
    ("deployed", "new", "difference"),
    [
        (PLACED, PLACED, None),
        (PLACED, replace(PLACED, pool=None, selector={}), None),  # staged policies do not tell it
        (replace(PLACED, warnings=("a", "b")), replace(PLACED, warnings=("b", "a")), None),
        (PLACED, REFUSED, diff.REFUSED),
        (REFUSED, PLACED, diff.ADMITTED),
        (PLACED, replace(PLACED, patch=()), diff.PATCHED),
        (PLACED, replace(PLACED, warnings=("careful",)), diff.TOLD),
        (REFUSED, replace(REFUSED, message="never"), diff.TOLD),
    ],
)
def test_decisions_differ_by_what_is_done_and_told(
    deployed: Decision, new: Decision, difference: str | None
) -> None:
    assert diff.compare(deployed, new) == difference


def decide(settings: Settings, *pods: dict[str, Any]) -> list[Decision]:
    """Decisions of the deployed policies."""
    reviews = [
        review for pod in pods for subject in inventory.of_pod(pod) for review in subject.reviews
    ]
    namespaces = {"payments": {"metadata": {"labels": {"agentpool": "gpu"}}}}
    modules = staging.stage(PolicySet.load(settings).bundle, Progress()).modules
    return batch.decide(
        reviews, modules=modules, kubernetes={"namespaces": namespaces}, progress=Progress()
    )


def test_staged_policies_decide_by_their_own_settings() -> None:
    stored = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "payments"},
            "spec": spec,
        }
        for name, spec in (("plain", {}), ("own", {"nodeSelector": {"disk": "ssd"}}))
    ]
    plain, own = decide(Settings(), *stored)
    assert (plain.allowed, own.allowed) == (True, False)
    assert batch.described(plain.patch) == 'add /spec/nodeSelector {"agentpool": "gpu"}'
    assert [d.allowed for d in decide(Settings(pod_selector="merge"), *stored)] == [True, True]
    warned = decide(Settings.model_validate({"enforcement": "warn"}), *stored)[1]
    assert (warned.allowed, warned.patch, len(warned.warnings)) == (True, (), 1)
    assert diff.compare(own, warned) == diff.ADMITTED


@pytest.mark.parametrize("engine", ["cel", "python"])
def test_another_engine_is_compared_by_what_it_does_with_each_request(engine: str) -> None:
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "payments"},
            "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec},
        }
        for name, spec in (("plain", {}), ("own", {"nodeSelector": {"disk": "ssd"}}))
    ]
    reviews = [
        each for pod in pods for subject in inventory.of_pod(pod) for each in subject.reviews
    ]
    labels = {"payments": {"agentpool": "gpu", "kubernetes.io/metadata.name": "payments"}}

    def compared(settings: Settings) -> list[str | None]:
        policies = PolicySet.load(settings)
        others = engine_decisions.decide(engine, policies, reviews, labels, progress=Progress())
        return [
            diff.compare(*(engine_decisions.comparable(each, review) for each in pair))
            for review, *pair in zip(reviews, decide(Settings(), *pods), others, strict=True)
        ]

    assert compared(Settings()) == [None, None]
    assert compared(Settings(pod_selector="merge")) == [None, diff.ADMITTED]


@pytest.mark.parametrize(
    ("deployed", "new", "message"),
    [
        (("no", False), ("no", True), "refused -> admitted with a warning: no"),
        (("no", False), ("never", False), "refused: no -> refused: never"),
        (("", True), ("no", False), "admitted unchanged -> refused: no"),
    ],
)
def test_people_read_what_a_decision_was_and_what_it_becomes(
    deployed: tuple[str, bool], new: tuple[str, bool], message: str
) -> None:
    """Each decision by its text and whether it admits: the text is then a warning."""

    def decision(text: str, allowed: bool) -> dict[str, object]:
        warnings = [text] if allowed and text else []
        return {
            "of": "Pod",
            "asked": True,
            "allowed": allowed,
            "message": "" if allowed else text,
            "warnings": warnings,
            "patch": [],
        }

    sides = {"deployed": decision(*deployed), "new": decision(*new)}
    assert diff_command.message({"kind": "Pod", **sides}) == message
    assert diff_command.message({"kind": "Job", **sides}) == f"its pods: {message}"


def test_people_read_where_opa_is_no_longer_asked() -> None:
    told = {"of": "Pod", "message": "", "warnings": [], "patch": []}
    refused = {**told, "asked": True, "allowed": False, "message": "no"}
    shown = diff_command.message(
        {"kind": "Pod", "deployed": refused, "new": {**told, "asked": False, "allowed": True}}
    )
    assert shown == "refused: no -> not asked"


def test_people_read_that_its_pods_were_refused_and_now_the_object_is() -> None:
    told = {"asked": True, "allowed": False, "warnings": [], "patch": []}
    sides = {
        "deployed": {**told, "of": "Pod", "message": "no pool"},
        "new": {**told, "of": "Deployment", "message": "no label"},
    }
    shown = diff_command.message({"kind": "Deployment", **sides})
    assert shown == "its pods refused: no pool -> refused: no label"


OTHER = ({"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "cheap"}},)
MOVED = replace(PLACED, patch=OTHER)
PLAIN = Decision(True, "")
NEVER = replace(REFUSED, message="never")


@pytest.mark.parametrize(
    ("pods", "itself", "expected"),
    [
        ((PLACED, PLACED), (PLAIN, PLAIN), None),
        ((PLACED, MOVED), (PLAIN, PLAIN), (diff.PATCHED, "Pod", "Pod")),
        ((PLACED, MOVED), (PLAIN, REFUSED), (diff.REFUSED, "Deployment", "Deployment")),
        ((PLACED, REFUSED), (PLAIN, PLAIN), (diff.REFUSED, "Pod", "Pod")),
        ((PLACED, REFUSED), (PLAIN, REFUSED), (diff.REFUSED, "Deployment", "Deployment")),
        ((PLACED, MOVED), (REFUSED, PLAIN), (diff.ADMITTED, "Deployment", "Deployment")),
        ((REFUSED, PLACED), (PLAIN, PLAIN), (diff.ADMITTED, "Pod", "Pod")),
        ((PLACED, MOVED), (REFUSED, REFUSED), None),
        ((REFUSED, MOVED), (PLAIN, REFUSED), (diff.TOLD, "Pod", "Deployment")),
        ((PLACED, MOVED), (REFUSED, NEVER), (diff.TOLD, "Deployment", "Deployment")),
        ((PLACED, MOVED), (PLAIN, replace(PLAIN, warnings=("w",))), (diff.PATCHED, "Pod", "Pod")),
    ],
)
def test_an_object_is_as_its_gravest_decision(
    pods: tuple[Decision, Decision],
    itself: tuple[Decision, Decision],
    expected: tuple[str, str, str] | None,
) -> None:
    """Of a Deployment, the decisions on its pods and on itself, each deployed and new."""
    stored: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "payments"},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    (subject,) = inventory.of_workload(stored, ("spec", "template"))
    before, after = zip(pods, itself, strict=True)
    compared = [diff.compare(*pair) for pair in (pods, itself)]
    found = diff.differences([subject], before, after, compared)
    told = [(each.difference, each.deployed["of"], each.new["of"]) for each in found]
    assert told == ([] if expected is None else [expected])
