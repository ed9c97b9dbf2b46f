"""Engines and `fairlead verify` with the real OPA, also with wrong expectations and broken
policies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead import verification
from fairlead.cli.decisions.verify import command
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Inexpressible
from fairlead.engines.python.engine import PythonEngine
from fairlead.policy import cases, intents, policy_files
from fairlead.policy.cases import Case, Expect
from fairlead.verification import comparison, verify
from fairlead.verification.opa import OpaEngine

CASE = """\
- name: one
  intent: node-pool
  namespace: {name: payments, labels: {agentpool: pool1}}
  request:
    operation: CREATE
    object: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: nginx}]}}
  expect: {allowed: true, object: {spec: {nodeSelector: {agentpool: pool1}}}, warnings: []}
"""  # noqa: E501


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """The plain pod in a mapped namespace."""
    path = tmp_path / "case.yaml"
    path.write_text(CASE)
    return cases.load(path)[0]


def on_opa(*asked: Case) -> list[verify.Result]:
    return verify.verify(asked, [OpaEngine()], Progress())


def on_python(*asked: Case) -> list[verify.Result]:
    return verify.verify(asked, [PythonEngine()], Progress())


@pytest.mark.parametrize("name", verification.ENGINES)
def test_data_of_a_case_is_for_opa_alone(name: str, case: Case) -> None:
    (engine,) = verification.load([name])
    given = replace(case, data={"placement": {}})
    reason = engine.inexpressible(given)
    assert (reason is None) == (name == "opa")
    assert reason is None or "which only the engine opa takes from a case" in reason


def test_every_case_holds_on_opa() -> None:
    failed = [result for result in on_opa(*cases.load()) if result.passed is not True]
    assert failed == []


def test_every_case_holds_in_python_if_its_intent_is_written_so() -> None:
    results = on_python(*cases.load())
    assert [result for result in results if result.passed is False] == []
    assert len([result for result in results if result.passed]) >= 165
    folders = {path.parts[-3] for path in policy_files.builtin().glob("*/engines/python.py")}
    assert {r.intent for r in results if r.passed is None}.isdisjoint(
        folder.replace("_", "-") for folder in folders
    )


@pytest.mark.parametrize(
    ("expect", "detail"),
    [
        ({"allowed": False}, "expected refused, got allowed"),
        (
            {"allowed": True, "object": {"spec": {"nodeSelector": {"agentpool": "pool2"}}}},
            "object.spec.nodeSelector.agentpool: expected 'pool2', got 'pool1'",
        ),
        (
            {"allowed": True, "object": {"spec": {"nodeSelector": None}}},
            "object.spec.nodeSelector: expected none, got {'agentpool': 'pool1'}",
        ),
        (
            {"allowed": True, "object": {"spec": {"containers": [], "nodeName": "n"}}},
            "object.spec.containers: expected [], got [{'name': 'c', 'image': 'nginx'}]\n"
            "object.spec.nodeName: expected 'n', got none",
        ),
        ({"allowed": True, "warnings": ["careful"]}, "warnings: expected a part 'careful', got []"),
    ],
)
def test_a_wrong_expectation_fails_with_the_difference(
    case: Case, expect: dict[str, Any], detail: str
) -> None:
    (result,) = on_opa(replace(case, expect=Expect.model_validate(expect)))
    assert (result.case, result.intent, result.engine) == ("one", "node-pool", "opa")
    assert (result.passed, result.detail) == (False, detail)


@pytest.mark.parametrize(
    ("expect", "decision", "lines"),
    [
        (Expect(allowed=False, message="b"), Decision(False, "abc"), []),
        (
            Expect(allowed=False, message="x"),
            Decision(False, "abc"),
            ["message: expected a part 'x', got 'abc'"],
        ),
        (Expect(allowed=True), Decision(False, "abc"), ["expected allowed, got refused: abc"]),
        (
            Expect(allowed=True, warnings=[]),
            Decision(True, warnings=("a",)),
            ["warnings: expected none, got ['a']"],
        ),
        (Expect(allowed=True, warnings=["a"]), Decision(True, warnings=("bab",)), []),
        (
            Expect(allowed=True, object={"a": None, "b": None}),
            Decision(True, object={"a": {}, "b": []}),
            [],
        ),
        (
            Expect(allowed=True, object={"a": True}),
            Decision(True, object={"a": 1}),
            ["object.a: expected True, got 1"],
        ),
        (
            Expect(allowed=True, object={"a": {"b": 1}}),
            Decision(True),
            ["object: expected {'a': {'b': 1}}, got none"],
        ),
    ],
)
def test_a_decision_is_compared_part_by_part(
    expect: Expect, decision: Decision, lines: list[str]
) -> None:
    assert comparison.differences(expect, decision) == lines


def broken(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, old: str, new: str) -> None:
    """Run with policies in which `old` is replaced by `new` in one module."""
    shutil.copytree(policy_files.builtin(), folder / "policies")
    path = folder / "policies" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    monkeypatch.setattr(intents, "builtin_folder", lambda: folder / "policies")


def test_a_policy_that_refuses_its_own_output_fails(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = "own_selector in [{}, assignment.nodeSelector]"
    broken(monkeypatch, tmp_path, "node_pool/node_pool.rego", own, "own_selector == {}")
    (result,) = on_opa(case)
    assert result.passed is False
    assert "refuse what they made of the object themselves: pod" in result.detail


def test_a_policy_that_never_stops_patching_fails(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends = "_selector_operations := [] if _selector_after == node_selector\n\nelse"
    broken(monkeypatch, tmp_path, "node_pool/mutation.rego", ends, "_selector_operations")
    (result,) = on_opa(case)
    assert result.passed is False
    assert "not idempotent" in result.detail


def test_a_decision_that_is_missing_is_no_refusal(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken(monkeypatch, tmp_path, "main.rego", "package system", "package elsewhere")
    (result,) = on_opa(replace(case, expect=Expect(allowed=False)))
    assert result.passed is False
    assert result.detail.startswith("the policies give no answer")


def test_a_case_that_opa_fails_at_does_not_take_the_others_along(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    conflict = (
        '\nname := "a" if input.request.name == "x"\n\nname := "b" if input.request.name == "x"\n'
    )
    broken(
        monkeypatch,
        tmp_path,
        "review/review.rego",
        "\n# METADATA\n# description: Why",
        f"{conflict}\n# Why",
    )
    pod = {**case.request.manifest, "metadata": {"name": "x"}, "spec": {"nodeName": "n"}}
    other = replace(case, name="two", request=case.request.model_copy(update={"object": pod}))
    first, second = on_opa(case, other)
    assert first.passed
    assert "eval_conflict_error" in second.detail


def test_policies_that_do_not_compile_are_an_error_of_the_engine(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken(monkeypatch, tmp_path, "main.rego", "data.review", "data.reviews.nowhere(")
    with pytest.raises(FairleadError, match=r"main\.rego:\d+: rego_parse_error"):
        on_opa(case)


class Mute:
    """An engine that can express nothing. It knows so before it is asked, or only then."""

    name = "mute"
    asks_cluster = False

    def __init__(self, *, knows: bool) -> None:
        self._knows = knows

    def inexpressible(self, case: Case) -> str | None:
        return "it has no mouth" if self._knows else None

    def decide(
        self, asked: Sequence[Case], progress: Progress
    ) -> Iterator[tuple[Case, Inexpressible]]:
        assert not self._knows, "it is asked what it cannot express"
        yield from ((case, Inexpressible("it has no mouth")) for case in asked)


@pytest.mark.parametrize("knows", [True, False])
def test_what_cannot_be_expressed_is_neither_passed_nor_failed(case: Case, knows: bool) -> None:
    (result,) = verify.verify([case], [Mute(knows=knows)], Progress())
    assert (result.passed, result.detail) == (None, "not expressible: it has no mouth")


def test_the_table_in_the_docs_lists_just_what_cannot_be_expressed() -> None:
    text = (paths.root() / "docs" / "conformance.md").read_text()
    section = text.partition("## What an engine cannot express")[2].partition("\n## ")[0]
    rows = [
        tuple(cell.strip() for cell in row)
        for row in re.findall(r"^\|(.+)\|(.+)\|(.+)\|$", section, re.MULTILINE)
    ]
    assert rows[0] == ("case", "engine", "reason")
    documented = {(case, engine) for case, engine, _ in rows[2:]}
    real = {
        (result.case, result.engine) for result in on_opa(*cases.load()) if result.passed is None
    }
    assert documented == real


def test_all_engines_are_listed_once_and_in_order() -> None:
    assert [engine.name for engine in verification.load(())] == list(verification.ENGINES)
    assert [engine.name for engine in verification.load(["python", "opa", "opa"])] == [
        "opa",
        "python",
    ]


def test_an_unknown_engine_is_refused_with_the_list() -> None:
    with pytest.raises(
        UsageError,
        match=r"unknown engine 'opaa': did you mean 'opa'\? There are: opa, python, webhook",
    ):
        verification.load(["opaa"])
    with pytest.raises(UsageError, match=r"unknown engine 'x'\. There are: opa, python, webhook"):
        verification.load(["x"])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)


def test_the_command_ends_with_0_where_all_passed_and_1_where_not(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(CASE)
    good = run("--cases", str(path), "--engine", "opa", "-o", "json")
    assert good.return_value == 0
    expected = {"case": "one", "intent": "node-pool", "engine": "opa", "passed": True, "detail": ""}
    assert json.loads(good.stdout) == [expected]
    path.write_text(
        CASE.replace(
            "allowed: true, object: {spec: {nodeSelector: {agentpool: pool1}}}", "allowed: false"
        )
    )
    bad = run("--cases", str(path), "--engine", "opa")
    assert bad.return_value == 1
    assert "\nexpected    refused\n            no warnings\nactual      allowed\n" in bad.stdout
    assert bad.stdout.endswith("1 result: 1 failed\n")
