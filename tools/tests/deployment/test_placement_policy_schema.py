"""The schema of PlacementPolicies, judged by the code of API servers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from rendering import every

from fairlead.common.progress import Progress
from fairlead.programs import matcher


@cache
def schema() -> dict[str, Any]:
    crd = every({"placementPolicies": True})[
        "CustomResourceDefinition", "placementpolicies.policy.fairlead.dev"
    ]
    (version,) = crd["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def judged(spec: dict[str, Any], name: str = "teams") -> list[str]:
    """What API servers say of such a policy; first, they take the schema."""
    value = {"metadata": {"name": name}, "spec": spec}
    asked = {"parameters": [{"schema": schema(), "value": value}]}
    (answer,) = matcher.ask(asked, Progress())["parameters"]
    assert not answer["schema"]
    return [mistake["message"] for mistake in answer["value"] or ()]


def test_a_policy_with_parameters_is_taken() -> None:
    rego = "# A comment, and a package below it.\n\npackage teams\n\n# package system\nx := 1"
    assert judged({"rego": rego, "parameters": {"deep": {"list": [1]}}}) == []


@pytest.mark.parametrize(
    ("rego", "name", "words"),
    [
        ("x := 1", "teams", "names no package"),
        ("# package x\nx := 1", "teams", "names no package"),
        ("package system\nmain := 1", "teams", "what OPA itself decides by"),
        ("# c\n\tpackage   system.authz\nallow := true", "teams", "what OPA itself decides by"),
        ("package x", "a" * 64, "at most 63 characters"),
    ],
)
def test_what_the_rules_exclude_is_refused_with_the_reason(
    rego: str, name: str, words: str
) -> None:
    (message,) = judged({"rego": rego}, name)
    assert words in message
