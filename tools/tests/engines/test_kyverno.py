"""The manifests of the engine kyverno. integration/tests/test_on_kyverno.py puts them in force."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead import engines
from fairlead.cli.operations import render
from fairlead.common.errors import UsageError
from fairlead.engines.cel import literals, specialised
from fairlead.engines.cel import manifests as cel_manifests
from fairlead.engines.kyverno import manifests
from fairlead.policy import new_policy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

RANGES = [{"min_replicas": 3, "max_replicas": 10}, {"min_replicas": 0, "max_replicas": 0}]
LIMITS: dict[str, Any] = {"parameters": {"ranges": RANGES}}


def rendered(**settings: Any) -> list[dict[str, Any]]:
    """The policies of the instances of replica-limits."""
    intents = settings.pop("intents", {"replica-limits": LIMITS})
    chosen = Settings.model_validate({**settings, "intents": {"node-pool": False, **intents}})
    return engines.render("kyverno", PolicySet.load(chosen))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(render.command, ["--engine", *arguments], standalone_mode=False)


def test_render_prints_the_same_policies_for_the_same_settings(tmp_path: Path) -> None:
    settings = tmp_path / "fairlead.yaml"
    settings.write_text(json.dumps({"intents": {"replica-limits": LIMITS}}))
    first, second = (run("kyverno", "--settings", str(settings), "-o", "json") for _ in range(2))
    assert first.stdout == second.stdout
    names = {(each["kind"], each["metadata"]["name"]) for each in json.loads(first.stdout)}
    assert {
        ("ValidatingPolicy", "fairlead.node-pool"),
        ("MutatingPolicy", "fairlead.node-pool"),
        ("ValidatingPolicy", "fairlead.replica-limits"),
    } <= names
    assert {kind for kind, _ in names} == {"ValidatingPolicy", "MutatingPolicy"}


def test_what_refuses_comes_before_what_changes() -> None:
    kinds = [each["kind"] for each in engines.render("kyverno", PolicySet.load(Settings()))]
    assert kinds == sorted(kinds, reverse=True)
    assert set(kinds) == {"ValidatingPolicy", "MutatingPolicy"}


@pytest.mark.parametrize("largest", [0, specialised.LARGEST])
def test_policies_say_the_same_as_the_admission_policies_of_the_engine_cel(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the parameters, which stand in the policy, and what only Kyverno has."""
    monkeypatch.setattr(specialised, "LARGEST", largest)
    settings = Settings.model_validate({"intents": {"replica-limits": LIMITS}, "contact": "us"})
    active = PolicySet.load(settings).active
    for native, own in zip(
        cel_manifests.render(active, settings), manifests.render(active, settings), strict=True
    ):
        native_policies = sorted(native.policies, key=lambda each: each["kind"].startswith("Mut"))
        variables_of_mutations = {
            variable["name"]
            for policy in native_policies
            if policy["kind"] == "MutatingAdmissionPolicy"
            for variable in policy["spec"]["variables"]
        }
        for one, other in zip(native_policies, own, strict=True):
            assert one["kind"].replace("Admission", "") == other["kind"]
            assert one["metadata"]["labels"] == other["metadata"]["labels"]
            same = set(one["spec"]) - {"paramKind"}
            assert set(other["spec"]) - same <= {
                "autogen",
                "evaluation",
                "validationActions",
                "webhookConfiguration",
            }
            for field in same - {"variables", "validations", "mutations"}:
                assert one["spec"][field] == other["spec"][field]
            unbound = json.loads(
                json.dumps(other["spec"]["variables"])
                .replace(r"cel.bind(params, variables.fairlead_parameters,\n", "")
                .replace(r"\n)", "")
            )
            if "paramKind" in one["spec"]:
                assert unbound.pop(0)["name"] == "fairlead_parameters"
            native_names = {variable["name"] for variable in one["spec"]["variables"]}
            if one["kind"] == "MutatingAdmissionPolicy":
                assert unbound == one["spec"]["variables"]
            # What an undone change is refused with, besides what tells that it is undone.
            others = {each["name"] for each in unbound} - native_names
            assert len(others - variables_of_mutations) <= 2


def test_large_parameters_stand_in_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialised, "LARGEST", 0)
    policy, *_ = rendered()
    first, *others = policy["spec"]["variables"]
    assert first == {
        "name": "fairlead_parameters",
        "expression": literals.value({"autoscalers": False, "ranges": RANGES}),
    }
    reading = [each for each in others if "params" in each["expression"]]
    assert reading
    for each in reading:
        assert each["expression"].startswith("cel.bind(params, variables.fairlead_parameters,\n")
        assert each["expression"].endswith("\n)")


def test_conditions_of_requests_see_no_parameters() -> None:
    exempt = {"users": ["params"], "namespaces": ["sandbox"], "groups": ["admins"]}
    policy, *_ = rendered(intents={"replica-limits": {**LIMITS, "exempt": exempt}})
    conditions = [each["expression"] for each in policy["spec"]["matchConditions"]]
    assert '!(request.userInfo.username in ["params"])' in conditions
    assert any('group in ["admins"]' in each for each in conditions)
    selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert any("sandbox" in each["values"] for each in selector)


def test_settings_decide_what_happens_if_it_is_false_or_fails() -> None:
    denying, *_ = rendered(timeoutSeconds=7)
    assert denying["spec"]["validationActions"] == ["Deny"]
    assert denying["spec"]["failurePolicy"] == "Fail"
    assert denying["spec"]["webhookConfiguration"] == {"timeoutSeconds": 7}
    ignoring, *_ = rendered(failurePolicy="Ignore")
    assert ignoring["spec"]["failurePolicy"] == "Ignore"
    warning, *_ = rendered(enforcement={"replica-limits": "warn"})
    assert warning["spec"]["validationActions"] == ["Warn", "Audit"]
    assert warning["spec"]["failurePolicy"] == "Ignore"


def test_kyverno_writes_no_rules_of_its_own() -> None:
    for policy in engines.render("kyverno", PolicySet.load(Settings())):
        assert policy["spec"]["autogen"] == {"podControllers": {"controllers": []}}
        assert policy["spec"]["evaluation"] == {"background": {"enabled": False}}


def test_an_intent_without_cel_is_refused_and_not_left_out(tmp_path: Path) -> None:
    new_policy.policy("sample-policy", tmp_path)
    with pytest.raises(
        UsageError, match=r"intents\.sample-policy: the engine kyverno .*no engines/cel\.yaml"
    ):
        engines.render("kyverno", PolicySet.load(Settings(), tmp_path))


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-(2**63) + 1, "-9223372036854775807"),
        (2**63, "9.223372036854776e+18"),
        (1.0, "1.0"),
        (1e22, "1e+22"),
        ("", "''"),
        ('it\'s "so" \\ `x` ${y} {{ z }} // no comment', None),
        ("line\nbreak\r\ttab\x00\x07", "'line\\nbreak\\r\\ttab\\u0000\\u0007'"),
        ("'\x7f\u2028é\U0001f692", None),
        ([], "dyn([])"),
        (["a", "b"], "dyn(['a', 'b'])"),
        ([1, "a"], "dyn([dyn(1), dyn('a')])"),
        ([1, 2.5], "dyn([dyn(1), dyn(2.5)])"),
        ([[], {}], "dyn([dyn([]), dyn({})])"),
        ({}, "dyn({})"),
        ({"b": 1, "a": 2}, "dyn({'a': 2, 'b': 1})"),
        ({"a": {"b": 1}, "c": "x"}, "dyn({'a': dyn({'b': 1}), 'c': dyn('x')})"),
        ({"a": None, "b": False}, "dyn({'a': dyn(null), 'b': dyn(false)})"),
        ({"dyn(": "dyn("}, "dyn({'dyn(': 'dyn('})"),
    ],
)
def test_values_become_literals(value: Any, literal: str | None) -> None:
    """integration/tests/test_on_kyverno.py has Kyverno read such literals."""
    written = literals.value(value)
    assert written == (json.dumps(value, ensure_ascii=False) if literal is None else literal)
    assert "\n" not in written


@pytest.mark.parametrize("value", [float("inf"), float("nan"), object()])
def test_what_json_does_not_have_is_no_literal(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON"):
        literals.value({"a": [value]})


def test_parameters_that_cel_cannot_have_are_refused_with_their_place() -> None:
    settings = Settings()
    active, *_ = PolicySet.load(settings).active
    wrong = dataclasses.replace(active, parameters={"a": float("inf")})
    with pytest.raises(UsageError, match=r"intents\.node-pool: its parameters"):
        manifests.render([wrong], settings)
