"""Policies of many shapes, each with the settings and the sentences that `fairlead convert` must
make of it. The shapes are those of the policy libraries of Kyverno and Gatekeeper."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.convert import conversion, gatekeeper_templates
from fairlead.convert.conversion import Conversion
from fairlead.convert.gatekeeper_constraints import LIMITS_BEFORE_1_1

SHAPES: list[dict[str, Any]] = yaml_files.read_yaml(Path(__file__).with_name("shapes.yaml"))[
    0
].value


def converted(tmp_path: Path, *objects: Any) -> Conversion:
    path = tmp_path / "input.yaml"
    path.write_text("\n---\n".join(json.dumps(each) for each in objects))
    return conversion.convert([Path("input.yaml") if Path.cwd() == tmp_path else path], Progress())


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["name"])
def test_a_policy_becomes_these_settings_and_the_rest_is_named(
    shape: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = converted(tmp_path, *shape["input"])
    settings = dict(result.settings)
    intents = {name: each for name, each in settings.pop("intents", {}).items() if each}
    settings |= {"intents": intents} if intents else {}
    assert settings == shape.get("settings", {})
    assert [each.reason for each in result.not_taken_over] == shape.get("notTakenOver", [])


def test_there_are_sixty_shapes() -> None:
    assert len({shape["name"] for shape in SHAPES}) == len(SHAPES) >= 60


def of_kyverno(operations: list[str], *preconditions: Any, cel: str = "true") -> dict[str, Any]:
    match = {"any": [{"resources": {"kinds": ["Namespace"], "operations": operations}}]}
    validate = {"pattern": {"metadata": {"labels": {"team": "?*"}}}}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "rules": [
                {
                    "name": "r",
                    "match": match,
                    "preconditions": {"all": [*preconditions]},
                    "celPreconditions": [{"name": "c", "expression": cel}],
                    "validate": validate,
                }
            ]
        },
    }


def about_operation(operator: str, *values: str) -> dict[str, Any]:
    key = "{{ request.operation || 'BACKGROUND' }}"
    return {"key": key, "operator": operator, "value": [*values]}


def of_kyverno_in_cel(operations: list[str], *conditions: str) -> dict[str, Any]:
    namespaces = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**namespaces, "operations": operations}]},
            "matchConditions": [{"name": "c", "expression": each} for each in conditions],
            "validations": [{"expression": "object.metadata.?labels.?team.orValue('') != ''"}],
        },
    }


@pytest.mark.parametrize(
    ("policy", "is_told"),
    [
        (of_kyverno(["CREATE"]), True),
        (of_kyverno(["CREATE", "UPDATE"]), False),
        (of_kyverno([]), False),
        (of_kyverno([], about_operation("AnyIn", "CREATE")), True),
        (of_kyverno([], about_operation("AnyNotIn", "UPDATE", "DELETE")), True),
        (of_kyverno([], about_operation("AnyIn", "CREATE", "UPDATE")), False),
        (of_kyverno([], about_operation("AnyNotIn", "DELETE")), False),
        (of_kyverno_in_cel(["CREATE"]), True),
        (of_kyverno_in_cel(["CREATE", "UPDATE"]), False),
        (of_kyverno_in_cel(["*"]), False),
        (of_kyverno_in_cel(["*"], "request.operation == 'CREATE'"), True),
        (of_kyverno_in_cel(["*"], "request.operation in ['CREATE', 'UPDATE']"), False),
        (of_kyverno_in_cel(["*"], "request.operation != 'UPDATE'", "true"), True),
        (of_kyverno([], cel="request.operation == 'CREATE'"), True),
        (of_kyverno([], cel="request.operation != 'DELETE'"), False),
    ],
)
def test_that_updates_are_judged_too_is_told(
    tmp_path: Path, policy: dict[str, Any], is_told: bool
) -> None:
    result = converted(tmp_path, policy)
    assert result.settings["intents"]
    assert any("judges updates, too" in text for text in result.differences) == is_told


def template(rego: str, kind: str = "K8sRequiredLabels") -> dict[str, Any]:
    return {
        "apiVersion": "templates.gatekeeper.sh/v1",
        "kind": "ConstraintTemplate",
        "metadata": {"name": kind.lower()},
        "spec": {
            "crd": {"spec": {"names": {"kind": kind}}},
            "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": rego}],
        },
    }


def constraint(kind: str = "K8sRequiredLabels") -> dict[str, Any]:
    return {
        "apiVersion": "constraints.gatekeeper.sh/v1beta1",
        "kind": kind,
        "metadata": {"name": "owned"},
        "spec": {
            "match": {"kinds": [{"apiGroups": [""], "kinds": ["Namespace"]}]},
            "parameters": {"labels": [{"key": "owner"}]},
        },
    }


REGO = """
package k8srequiredlabels
violation[{"msg": msg}] {
  required := input.parameters.labels[_].key  # not 'provided'
  not input.review.object.metadata.labels[required]
  msg := sprintf("%v # is missing", [required])
}
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that has the code of REGO."""
    known = {gatekeeper_templates.digest(template(REGO)): "K8sRequiredLabels"}
    monkeypatch.setattr(gatekeeper_templates, "_LIBRARY", known)


@pytest.mark.parametrize("kind", ["K8sRequiredLabels", "OwnersOfOurs"])
@pytest.mark.parametrize(
    "rego",
    [
        REGO,
        REGO.replace("package k8srequiredlabels", "package ours"),
        REGO.replace("# not 'provided'", "") + "\n# the end\n",
        REGO.replace("  ", "\t").replace(" := ", ":="),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_constraint_is_known_by_the_code_of_its_template(
    kind: str, rego: str, tmp_path: Path
) -> None:
    for objects in (
        [template(rego, kind), constraint(kind)],
        [constraint(kind), template(rego, kind)],
    ):
        result = converted(tmp_path, *objects)
        assert result.settings["intents"]["owned"]["intent"] == "required-labels"
        assert (result.not_taken_over, result.assumptions) == ((), ())


@pytest.mark.parametrize(
    "rego",
    [
        REGO.replace("labels[required]", "annotations[required]"),
        REGO.replace("# is missing", "is missing"),
        REGO.replace("[_].key  #", "[_].key\n  required != `#`  #"),
        REGO + 'violation[{"msg": "no"}] { input.review.kind.kind == "Pod" }',
    ],
)
@pytest.mark.usefixtures("library")
def test_other_code_under_the_name_of_the_library_is_not_taken_for_the_library(
    rego: str, tmp_path: Path
) -> None:
    result = converted(tmp_path, template(rego), constraint())
    assert "owned" not in result.settings["intents"]
    reasons = [each.reason for each in result.not_taken_over]
    assert len(reasons) == 2
    assert "its code is none of the library's" in reasons[0]
    assert re.search(r"its ConstraintTemplate \(.*input.yaml:1\) has other code", reasons[1])


@pytest.mark.usefixtures("library")
def test_a_value_that_the_template_gives_to_parameters_counts_as_code(tmp_path: Path) -> None:
    changed = template(REGO)
    labels = {"type": "array", "default": [{"key": "team"}]}
    schema = {"openAPIV3Schema": {"properties": {"labels": labels}}}
    changed["spec"]["crd"]["spec"]["validation"] = schema
    assert "owned" not in converted(tmp_path, changed, constraint()).settings["intents"]


@pytest.mark.usefixtures("library")
def test_two_templates_of_one_kind_decide_nothing(tmp_path: Path) -> None:
    result = converted(tmp_path, template(REGO), template(f"{REGO}a := 1"), constraint())
    assert "several templates define it" in result.not_taken_over[-1].reason


def test_without_a_template_the_name_decides_and_the_result_says_so(tmp_path: Path) -> None:
    result = converted(tmp_path, constraint())
    assert result.settings["intents"]["owned"]["intent"] == "required-labels"
    (assumption,) = result.assumptions
    assert assumption.startswith("K8sRequiredLabels is the constraint of Gatekeeper's library, as")
    assert f"#   {assumption}" in result.text


def test_container_limits_before_1_1_ask_for_cpu_whatever_the_parameters_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "K8sContainerLimits"
    known = {gatekeeper_templates.digest(template(REGO)): LIMITS_BEFORE_1_1}
    monkeypatch.setattr(gatekeeper_templates, "_LIBRARY", known)
    limits = constraint(kind)
    limits["spec"] = {"parameters": {"cpu": "-1", "memory": "1Gi"}}
    for objects, required in (
        ([template(REGO, kind), limits], ["cpu", "memory"]),
        ([limits], ["memory"]),
    ):
        parameters = converted(tmp_path, *objects).settings["intents"]["owned"]["parameters"]
        assert parameters["limits"] == {"required": required, "container_max": {"memory": "1Gi"}}


def test_an_expression_that_is_none_is_a_mistake_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "input.yaml"
    path.write_text(
        "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {name: a}\nspec:\n"
        "  validations:\n  - expression: object.spec.\n"
    )
    with pytest.raises(InputError, match=r"input.yaml:6: spec.validations\[0\].expression is no "):
        conversion.convert([path], Progress())


def test_variables_in_variables_are_read_up_to_a_length(tmp_path: Path) -> None:
    variables = [{"name": "a", "expression": "object.spec.replicas"}]
    for name, before in zip("bcdefghijklmnopqrst", "abcdefghijklmnopqrs", strict=True):
        text = f"variables.{before} + variables.{before}"
        variables.append({"name": name, "expression": text})
    policy = {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "a"},
        "spec": {"variables": variables, "validations": [{"expression": "variables.t > 1"}]},
    }
    (left_out,) = converted(tmp_path, policy).not_taken_over
    assert left_out.reason == "its variable n is too long to be read"


def test_what_is_nested_too_deeply_is_left_out(tmp_path: Path) -> None:
    variables = [{"name": "v0", "expression": "object.a == 1"}]
    for number in range(1, 1500):
        variables.append({"name": f"v{number}", "expression": f"!variables.v{number - 1}"})
    policy = {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ValidatingPolicy",
        "metadata": {"name": "a"},
        "spec": {"variables": variables, "validations": [{"expression": "variables.v1499"}]},
    }
    (left_out,) = converted(tmp_path, policy).not_taken_over
    assert left_out.reason.startswith("it is nested too deeply to be read")
