"""Cases of placement over clusters: what each engine answers, and how a difference is told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fairlead import verification
from fairlead.common.progress import Progress
from fairlead.policy import placement_cases
from fairlead.policy.placement_cases import Expect, PlacementCase
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification import placements
from fairlead.verification.opa import OpaEngine
from fairlead.verification.verify import Result

CLUSTERS = {"a": {"jurisdiction": "de", "location": "on-prem"}}
CASE = PlacementCase(
    name="one",
    data={"placement": {"clusters": CLUSTERS, "customers": {"acme": {"jurisdictions": ["de"]}}}},
    resource={
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"customer": "acme"}},
    },
    expect=Expect(
        annotations={"replica-set-preferences": {"clusters": {"a": {"weight": 1}}}},
        explanation={"a": "allowed"},
    ),
    path=Path("cases.yaml"),
    line=1,
)


def on_opa(*cases: PlacementCase) -> list[Result]:
    return placements.verify(cases, [OpaEngine()], Progress())


def test_every_case_holds_on_opa() -> None:
    assert [result for result in on_opa(*placement_cases.load()) if not result.passed] == []


@pytest.mark.parametrize(
    ("expect", "detail"),
    [
        ({"annotations": {}}, "annotations: expected {}, got {'replica-set-preferences'"),
        ({"errors": {"customer": ["x"]}}, "errors.customer: expected parts ['x'], got []"),
        ({"explanation": {"a": "far"}}, "explanation.a: expected a part 'far', got 'allowed'"),
        ({"explanation": {"b": ""}}, "explanation.b: expected a part '', got None"),
    ],
)
def test_what_differs_is_told(expect: dict[str, object], detail: str) -> None:
    changed = CASE.expect.model_copy(update=expect)
    right, wrong = on_opa(CASE, dataclasses.replace(CASE, expect=changed))
    assert (right.passed, right.detail) == (True, "")
    assert wrong.passed is False
    assert wrong.detail.startswith(detail)
    assert bool(wrong.diff) == ("annotations" in expect)


def test_each_error_has_to_be_expected() -> None:
    nameless = dataclasses.replace(CASE, resource={"kind": "Deployment"})
    (result,) = on_opa(nameless)
    assert "errors.customer: expected parts [], got ['" in result.detail


def test_other_engines_say_that_they_cannot_express_it() -> None:
    others = [engine for engine in verification.load(()) if engine.name != "opa"]
    results = placements.verify([CASE], others, Progress())
    assert {result.engine for result in results} == set(verification.ENGINES) - {"opa"}
    assert {result.passed for result in results} == {None}
    assert "which only the engine opa takes from a case" in results[0].detail


def test_policies_without_placement_leave_a_case_undecided(tmp_path: Path) -> None:
    (tmp_path / "main.rego").write_text("package system.main\n")
    (result,) = placements.verify(
        [CASE], [OpaEngine(PolicySet.load(Settings(), tmp_path))], Progress()
    )
    assert result.passed is False
    assert "give no answer" in result.detail
