"""The manifests of the engine cel; integration/tests/test_native_conformance.py enforces them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead import engines
from fairlead.cli.operations import render
from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.engines.base import Outcome
from fairlead.engines.cel import admission_policies, definition, manifests, specialised
from fairlead.engines.cel.manifests import Rendered
from fairlead.policy import cases, generated, new_policy
from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.engines import matrix
from lab.engines.cel import CelEngine

RANGES = [{"min_replicas": 3, "max_replicas": 10}, {"min_replicas": 0, "max_replicas": 0}]
LIMITS: dict[str, Any] = {"parameters": {"ranges": RANGES}}


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters are too large to stand in a policy."""
    monkeypatch.setattr(specialised, "LARGEST", 0)


def rendered(**settings: Any) -> list[Rendered]:
    """What the instances of replica-limits become."""
    intents = settings.pop("intents", {"replica-limits": LIMITS})
    chosen = Settings.model_validate({**settings, "intents": {"node-pool": False, **intents}})
    return manifests.render(PolicySet.load(chosen).active, chosen)


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def test_the_same_settings_give_the_same_objects() -> None:
    assert rendered() == rendered()


@pytest.mark.usefixtures("no_room")
def test_a_change_gives_new_policies_and_parameters_to_the_same_bindings() -> None:
    (before,) = rendered()
    (after,) = rendered(
        intents={"replica-limits": {"parameters": {"ranges": [{"max_replicas": 5}, *RANGES[1:]]}}}
    )
    assert names(before.bindings) == names(after.bindings)
    assert names(before.bindings)[0] == "fairlead.replica-limits"
    assert not set(names(before.policies)) & set(names(after.policies))
    assert before.parameters is not None
    assert after.parameters is not None
    assert names([before.parameters]) != names([after.parameters])
    for each in (before, after):
        bound = [binding["spec"]["policyName"] for binding in each.bindings]
        assert bound == names(each.policies)


@pytest.mark.usefixtures("no_room")
def test_large_parameters_are_a_custom_resource_with_the_schema_of_the_metadata() -> None:
    (one,) = rendered()
    assert one.definition is not None
    assert one.parameters is not None
    assert one.parameters["ranges"] == RANGES
    schema = one.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["ranges"]["items"]["properties"]["min_replicas"]["minimum"] == 0
    reference = {"name": one.parameters["metadata"]["name"], "parameterNotFoundAction": "Deny"}
    assert all(binding["spec"]["paramRef"] == reference for binding in one.bindings)


def test_small_parameters_stand_in_the_expressions() -> None:
    limits = {"min_replicas": 3, "max_replicas": 10}
    (short,) = rendered(intents={"replica-limits": {"parameters": {"ranges": [limits]}}})
    (longer,) = rendered(intents={"replica-limits": {"parameters": {"ranges": RANGES}}})
    for one in (short, longer):
        assert one.definition is None
        assert one.parameters is None
        texts = json.dumps([one.policies, one.bindings])
        assert not {"params", "paramKind", "paramRef"} & {*re.findall(r"\w+", texts)}
    assert "dyn(3) <= variables.least && variables.least <= dyn(10)" in json.dumps(short.policies)
    first, *_ = longer.policies[0]["spec"]["variables"]
    assert first["name"] == "fairlead_parameter_0"
    assert first["expression"].startswith(
        "dyn([dyn({'max_replicas': 10, 'min_replicas': 3}), dyn({"
    )


def test_several_instances_do_not_share_a_name() -> None:
    two = rendered(
        intents={
            "few": {"intent": "replica-limits", **LIMITS},
            "many": {
                "intent": "replica-limits",
                "parameters": {"ranges": [{"min_replicas": 20}]},
                "namespaces": {"matchLabels": {"size": "big"}},
            },
        }
    )
    every = [name for one in two for name in names([*one.policies, *one.bindings])]
    assert len(every) == len(set(every))
    selector = two[1].policies[0]["spec"]["matchConstraints"]["namespaceSelector"]
    assert {"key": "size", "operator": "In", "values": ["big"]} in selector["matchExpressions"]


def test_what_is_refused_becomes_a_warning_where_enforcement_is_warn() -> None:
    (denying,), (warning,) = rendered(), rendered(enforcement={"replica-limits": "warn"})
    assert {tuple(b["spec"]["validationActions"]) for b in denying.bindings} == {("Deny",)}
    assert {tuple(b["spec"]["validationActions"]) for b in warning.bindings} == {("Warn", "Audit")}
    assert {p["spec"]["failurePolicy"] for p in warning.policies} == {"Ignore"}


def test_a_policy_has_only_what_is_about_its_kinds() -> None:
    settings = Settings.model_validate({"pools": {"a": {}}})
    (instance,) = (each for each in PolicySet.load(settings).active if each.name == "node-pool")
    (one,) = manifests.render([instance], settings)
    about = {
        (each["kind"], rule["resources"][0])
        for each in one.policies
        for rule in each["spec"]["matchConstraints"]["resourceRules"]
    }
    assert {kind for kind, resource in about if resource == "pods"} == {
        "MutatingAdmissionPolicy",
        "ValidatingAdmissionPolicy",
    }
    assert ("MutatingAdmissionPolicy", "namespaces") not in about
    assert ("ValidatingAdmissionPolicy", "namespaces") in about
    assert "fairlead.node-pool.warnings" not in names(one.bindings)
    assert "fairlead.node-pool.workloads.warnings" in names(one.bindings)


@pytest.mark.parametrize("largest", [0, specialised.LARGEST])
def test_a_policy_has_all_variables_that_it_reads_and_no_others(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specialised, "LARGEST", largest)
    settings = Settings.model_validate({"pools": {"a": {}}, "intents": {"replica-limits": LIMITS}})
    for each in manifests.render(PolicySet.load(settings).active, settings):
        for policy in each.policies:
            spec = policy["spec"]
            variables = [variable["name"] for variable in spec["variables"]]
            read = set(re.findall(r"variables\.(\w+)", json.dumps(spec)))
            assert read == set(variables), policy["metadata"]["name"]
            assert len(variables) == len(set(variables))


def test_exempt_users_and_namespaces_never_reach_the_expressions() -> None:
    exempt = {"users": ["root"], "namespaces": ["sandbox"]}
    (one,) = rendered(intents={"replica-limits": {**LIMITS, "exempt": exempt}})
    for policy in one.policies:
        conditions = [each["expression"] for each in policy["spec"]["matchConditions"]]
        assert '!(request.userInfo.username in ["root"])' in conditions
        selector = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert any("sandbox" in each["values"] for each in selector)
        assert "kube-system" in selector[0]["values"]


def test_a_refusal_says_whom_to_ask() -> None:
    (one,) = rendered(contact='"platform" team')
    validations = one.policies[0]["spec"]["validations"]
    assert validations
    for validation in validations:
        assert validation["messageExpression"].endswith("""' (ask "platform" team)'""")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(render.command, ["--engine", *arguments], standalone_mode=False)


@pytest.mark.usefixtures("no_room")
def test_render_prints_the_objects_in_the_order_in_which_to_apply_them(tmp_path: Path) -> None:
    settings = tmp_path / "fairlead.yaml"
    intents = {"replica-limits": LIMITS, "few": {"intent": "replica-limits", **LIMITS}}
    settings.write_text(json.dumps({"intents": intents}))
    first, second = (run("cel", "--settings", str(settings), "-o", "json") for _ in range(2))
    assert first.stdout == second.stdout
    kinds = [each["kind"] for each in json.loads(first.stdout)]
    order = [kind for kind, _ in itertools.groupby(kinds, key=_group)]
    assert order == ["definition", "parameters", "policy", "binding"]
    assert kinds.count("CustomResourceDefinition") == 1  # node-pool reads none of its settings
    assert kinds.count("ReplicaLimits") == 2


def _group(kind: str) -> str:
    if kind == "CustomResourceDefinition":
        return "definition"
    if kind.endswith("Binding"):
        return "binding"
    return "policy" if kind.endswith("Policy") else "parameters"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cel", "--sidecar", "sync"], "are about pods"),
        (["webhook"], "is not put in force by objects of a cluster alone"),
        (["cle"], "did you mean 'cel'"),
    ],
)
def test_render_refuses_what_an_engine_has_not(arguments: list[str], words: str) -> None:
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    assert words in str(error)


def test_an_intent_without_cel_is_refused_and_not_left_out(tmp_path: Path) -> None:
    new_policy.policy("sample-policy", tmp_path)
    with pytest.raises(UsageError, match=r"intents\.sample-policy: .*has no engines/cel\.yaml"):
        engines.render("cel", PolicySet.load(Settings(), tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("validatons: []", r"cel\.yaml:1: .*validatons.*did you mean 'validations'"),
        ("validations: [{expression: 'true'}]", "either a message or a messageExpression"),
        (
            "warnings: [{expression: 'true', message: x, kinds: [Pods]}]",
            r"cel\.yaml: warnings\[0\]\.kinds: Pods is in no request .*: use .*Namespace, Pod,",
        ),
        ("warnings: [{expression: 'a b', message: x}]", r"cel\.yaml:1: .*an operator is missing"),
        (f"refusedPods: {'(' * 500}a{')' * 500}", r"cel\.yaml:1: .*use variables"),
        ("inexpressible: [{when: 'always', reason: x}]", r"cel\.yaml:1: .*when"),
        ("", "is empty"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "cel.yaml").write_text(text)
    (intent, *_) = PolicySet.load(Settings()).active
    moved = type(intent.intent)(**{**vars(intent.intent), "source": str(tmp_path / "sample.rego")})
    with pytest.raises(InputError, match=words):
        definition.of(moved)


class Half:
    """An engine that cannot express updates."""

    name = "half"
    asks_cluster = False

    def inexpressible(self, case: Case) -> str | None:
        return "it forgets" if case.request.operation == "UPDATE" else None

    def decide(self, asked: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        raise AssertionError


def test_the_table_says_how_many_cases_an_engine_can_express_and_why_not_all() -> None:
    every = [case for case in cases.load() if case.intent == "node-pool"]
    updates = sum(case.request.operation == "UPDATE" for case in every)
    lines = matrix.table(every, [CelEngine(), Half()]).splitlines()
    assert lines[0] == "| intent | cases | `cel` | `half` |"
    assert lines[2] == f"| `node-pool` | {len(every)} | all | {len(every) - updates} |"
    assert lines[-1] == f"- `half` cannot express {updates} cases of `node-pool`: it forgets."


def test_the_table_in_the_docs_is_up_to_date() -> None:
    assert generated.outdated(matrix.texts()) == {}


def test_an_expression_with_too_many_parts_is_told() -> None:
    (instance,) = PolicySet.load(Settings()).active
    long = definition.Definition.model_validate(
        {"validations": [{"expression": " || ".join(["object.a"] * 2000), "message": "no"}]}
    )
    with pytest.raises(UsageError, match=r"intents\.node-pool: .*cel\.yaml has too many parts"):
        admission_policies.of(instance, long, Settings(), {})
