"""Each invariant of chaos can hold and can be violated."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.settings.models import Pool, Settings, Toleration
from lab.chaos import invariants
from lab.chaos.invariants import Attempt, Push, Verdict

DEDICATED = Toleration(key="dedicated", value="gpu", effect="NoSchedule")
SETTINGS = Settings(pools={"gpu": Pool(tolerations=[DEDICATED]), "cheap": Pool()})
GPU = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
ADDED = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
WEBHOOK = 'admission webhook "node-pool.fairlead.dev" denied the request'
UNREACHED = (
    'Internal error occurred: failed calling webhook "node-pool.fairlead.dev": connection refused'
)


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "a", "uid": "1"},
        "spec": {"tolerations": [ADDED], **spec},
    }


def attempt(**changed: Any) -> Attempt:
    values: dict[str, Any] = {
        "namespace": "a",
        "pool": "gpu",
        "pod": "web",
        "wish": "plain",
        "began": 10.0,
        "ended": 11.0,
        "status": 201,
        "reason": "",
        "warnings": (said("A"),),
    }
    return Attempt(**{**values, **changed})


def said(main: str, first: str = "", second: str = "") -> str:
    return f'299 - "fairlead-chaos main={main} first={first or main} second={second or main}"'


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, "created"),
        ({"status": 409, "reason": 'pods "web" already exists'}, "there already"),
        ({"status": 403, "reason": f"{WEBHOOK}: because"}, "refused"),
        ({"status": 500, "reason": UNREACHED}, "webhook failed"),
        ({"status": 0, "reason": "Connection refused"}, "API server"),
        (
            {"status": 403, "reason": "pods is forbidden: not yet ready to handle request"},
            "API server",
        ),
    ],
)
def test_an_outcome_tells_whose_it_is(changed: dict[str, Any], outcome: str) -> None:
    assert attempt(**changed).outcome == outcome


@pytest.mark.parametrize(
    ("pool", "spec", "asked", "why"),
    [
        ("gpu", {"nodeSelector": {"agentpool": "gpu"}, "tolerations": [ADDED, GPU]}, {}, None),
        ("cheap", {"nodeSelector": {"agentpool": "cheap", "zone": "a"}}, {}, None),
        ("cheap", {}, {}, "without its assignment"),
        ("cheap", {"nodeSelector": {"agentpool": "gpu"}}, {}, "without its assignment"),
        ("gpu", {"nodeSelector": {"agentpool": "gpu"}}, {}, "without its tolerations"),
        (None, {}, {}, None),
        (None, {"nodeSelector": {"disk": "ssd"}}, {"nodeSelector": {"disk": "ssd"}}, None),
        (None, {"nodeSelector": {"agentpool": "gpu"}}, {}, "altered"),
        (None, {}, {"nodeSelector": {"disk": "ssd"}}, "altered"),
        (None, {"tolerations": [ADDED, GPU]}, {}, "altered"),
        (None, {}, None, "nobody asked"),
    ],
)
def test_a_pod_is_what_it_must_be(
    pool: str | None, spec: dict[str, Any], asked: Any, why: str | None
) -> None:
    reason = invariants.wrong(pod(**spec), pool, asked, SETTINGS)
    assert (reason is None) if why is None else (reason is not None and why in reason)


def test_wrong_pods_are_named_under_the_invariant_that_they_violate() -> None:
    unplaced, altered = invariants.pods(
        {"a/x": "without its assignment", "b/y": "altered in a namespace"}, 9
    )
    assert (unplaced.violations, unplaced.checked) == (("a/x: without its assignment",), 9)
    assert altered.violations == ("b/y: altered in a namespace",)
    assert all(verdict.holds for verdict in invariants.pods({}, 9))


def check(verdict: Verdict, good: bool) -> None:
    assert verdict.checked == 1
    assert verdict.holds == good
    assert good or "a/web" in verdict.violations[0]


@pytest.mark.parametrize(
    ("status", "reason", "good"),
    [
        (201, "", True),
        (0, "Connection refused", True),
        (500, UNREACHED, False),
        (403, f"{WEBHOOK}: no", False),
    ],
)
def test_an_unmapped_namespace_sees_no_error_of_ours(status: int, reason: str, good: bool) -> None:
    check(invariants.unmapped([attempt(pool=None, status=status, reason=reason), attempt()]), good)


@pytest.mark.parametrize(
    ("reason", "good"), [(UNREACHED, True), ("", False), (f"{WEBHOOK} without explanation", False)]
)
def test_a_failure_says_why(reason: str, good: bool) -> None:
    check(invariants.reasons([attempt(status=500, reason=reason), attempt()]), good)


@pytest.mark.parametrize(
    ("wish", "status", "reason", "good"),
    [
        ("plain", 201, "", True),
        (
            "first",
            403,
            f"{WEBHOOK}: namespace is not known to the policy yet: retry in a moment",
            True,
        ),
        ("plain", 403, f"{WEBHOOK}: sets spec.nodeSelector", False),
        ("evading", 403, f"{WEBHOOK}: sets spec.nodeSelector", True),
        ("evading", 201, "", False),
        ("evading", 0, "Connection refused", True),
    ],
)
def test_only_what_evades_is_refused(wish: str, status: int, reason: str, good: bool) -> None:
    check(
        invariants.justified(
            [attempt(wish=wish, status=status, reason=reason), attempt(pool=None)]
        ),
        good,
    )


@pytest.mark.parametrize(
    ("warnings", "whole", "in_force"),
    [
        ((said("B"),), True, True),
        ((said("A"),), True, False),
        ((said("B", "A"),), False, True),
        ((said("B", "B", "A"),), False, True),
        ((said("C"),), False, True),
        ((), False, True),
    ],
)
def test_an_answer_is_of_one_variant_and_of_the_one_in_force(
    warnings: tuple[str, ...], whole: bool, in_force: bool
) -> None:
    pushes = [Push("A", 0.0, 1.0, True), Push("B", 8.0, 9.0, True)]
    entire, current = invariants.answers([attempt(warnings=warnings)], pushes)
    assert (entire.holds, current.holds) == (whole, in_force)


@pytest.mark.parametrize(
    ("contact", "whole", "in_force"),
    [("B", True, True), ("A", True, False), ("", False, True)],
)
def test_a_refusal_is_of_the_variant_that_its_contact_names(
    contact: str, whole: bool, in_force: bool
) -> None:
    pushes = [Push("A", 0.0, 1.0, True), Push("B", 8.0, 9.0, True)]
    ask = f" (ask fairlead-chaos settings={contact})" if contact else ""
    refused = attempt(status=403, reason=f"{WEBHOOK}: sets spec.nodeSelector{ask}", warnings=())
    entire, current = invariants.answers([refused], pushes)
    assert (entire.holds, current.holds) == (whole, in_force)


@pytest.mark.parametrize(
    "push",
    [Push("B", 8.0, 9.0, False), Push("B", 8.0, 10.5, True), Push("B", 10.5, 12.0, True)],
    ids=["failed", "ends meanwhile", "begins meanwhile"],
)
def test_while_a_push_is_on_or_has_failed_both_variants_may_answer(push: Push) -> None:
    for tag in "AB":
        verdicts = invariants.answers(
            [attempt(warnings=(said(tag),))], [Push("A", 0.0, 1.0, True), push]
        )
        assert all(verdict.holds for verdict in verdicts)
        assert verdicts[1].checked == 0


def test_an_old_credential_that_is_accepted_is_named_with_its_server() -> None:
    assert invariants.credentials({"https://opa": []}, 3).holds
    assert invariants.credentials({"https://opa": ["an old token"]}, 3).violations == (
        "https://opa: an old token",
    )
