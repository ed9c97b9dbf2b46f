"""What the METADATA of a policy say about its intent."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead.common.errors import InputError
from fairlead.programs import toolchain
from fairlead.settings import intents
from fairlead.settings.models import Settings


def module(custom: str, package: str = "sample") -> str:
    lines = "".join(f"# {line}\n" for line in custom.splitlines())
    return f"# METADATA\n# title: A sample\n# custom:\n{lines}package {package}\n"


def requests(custom: str, parameters: dict[str, Any] | None = None) -> list[intents.Request]:
    intent = intents.of_module(module(custom), "sample.rego")
    assert intent is not None
    return intent.requests(Settings().document(), intent.parameters(parameters or {}))


def test_they_are_those_that_opa_reads() -> None:
    """The METADATA are read without OPA, as settings name intents before OPA is built."""
    folder = intents.builtin_folder()
    opa = toolchain.ensure(["opa"])["opa"]
    inspected = json.loads(
        subprocess.run(
            [opa, "inspect", "--annotations", "--format=json", str(folder)],
            capture_output=True,
            check=True,
        ).stdout
    )
    annotated = {
        annotations["title"]: annotations["custom"]
        for each in inspected["annotations"]
        if "requests" in (annotations := each["annotations"]).get("custom", {})
    }
    assert annotated == {
        intent.title: intent.metadata.model_dump(by_alias=True, exclude_defaults=True)
        for intent in intents.in_folder(folder)
    }


def test_a_kind_is_written_like_in_manifests() -> None:
    (request,) = requests(
        """
  requests:
    - kinds:
        - v1/Pod
        - apps/v1/Deployment
        - {group: a.example, version: v1beta1, kind: Gpu, resource: gpus}
      operations: [CREATE]
"""
    )
    assert [(kind.path, kind.resources) for kind in request.kinds] == [
        ("/Pod", "pods"),
        ("apps/Deployment", "deployments"),
        ("a.example/Gpu", "gpus"),
    ]


def test_a_subresource_belongs_to_a_kind() -> None:
    (request,) = requests(
        """
  requests:
    - kinds:
        - apps/v1/Deployment/scale
        - v1/Pod/eviction
        - {group: a.example, version: v1, kind: Gpu, resource: gpus, subresource: scale}
        - v1/Pod/ephemeralcontainers
      operations: [UPDATE]
"""
    )
    assert [(kind.group, kind.resources, kind.path) for kind in request.kinds] == [
        ("apps", "deployments/scale", "autoscaling/Scale/scale"),
        ("", "pods/eviction", "policy/Eviction/eviction"),
        ("a.example", "gpus/scale", "autoscaling/Scale/scale"),
        ("", "pods/ephemeralcontainers", "/Pod/ephemeralcontainers"),
    ]


def test_expressions_read_settings_and_parameters() -> None:
    custom = """
  parameters:
    properties:
      team: {type: string, default: infra}
      all: {type: boolean, default: false}
  requests:
    - kinds: [v1/Pod]
      operations: [CREATE]
      when: "{{ not parameters.all }}"
      namespaces:
        matchLabels: {"team": "{{ parameters.team }}"}
        matchExpressions:
          - {key: "{{ settings.namespaceLabel }}", operator: Exists}
          - "{{ {'key': 'x', 'operator': 'Exists'} if settings.defaultPool else none }}"
      conditions:
        - {name: named, expression: "object.metadata.name != '{{ parameters.team }}'"}
"""
    (request,) = requests(custom, {"team": "1"})
    assert [expression.document() for expression in request.namespaces.expressions] == [
        {"key": "team", "operator": "In", "values": ["1"]},
        {"key": "agentpool", "operator": "Exists"},
    ]
    assert request.conditions[0].expression == "object.metadata.name != '1'"
    assert requests(custom, {"all": True}) == []


@pytest.mark.parametrize(
    ("custom", "words"),
    [
        ("  request: []", "unknown key custom.request: did you mean 'requests'?"),
        ("  requests: []", "custom.requests is too short: write at least 1 item"),
        ("  requests: [{kinds: [v1/Pod]}]", "request 1: operations is missing: add it"),
        (
            "  requests: [{kinds: [Pod], operations: [CREATE]}]",
            "request 1: kinds[0]: 'Pod' has no version: write v1/Pod",
        ),
        (
            "  requests: [{kinds: [example.com/v1/Gpu], operations: [CREATE]}]",
            "Gpu needs its resource (see kubectl api-resources)",
        ),
        (
            "  requests: [{kinds: [v1/Pod], operations: [PATCH]}]",
            "request 1: operations[0] is 'PATCH'",
        ),
        (
            "  requests: [{kinds: [v1/Pod], operations: [CREATE], "
            "conditions: [{name: x, operations: [UPDATE], expression: 'true'}]}]",
            "request 1: condition x is about UPDATE, but the operations of these requests are "
            "CREATE",
        ),
        (
            '  requests: [{kinds: [v1/Pod], operations: [CREATE], when: "{{ settings.x.y }}"}]',
            "request 1: 'dict object' has no attribute 'x'",
        ),
        (
            '  requests: [{kinds: [v1/Pod], operations: [CREATE], name: "{{ 1 if false }}"}]',
            "has no value: for none, write `else none`",
        ),
        ("  requests: [{\n", "METADATA: is not valid YAML"),
        ("  parameters: {type: 1}\n  requests: [{}]", "custom.parameters is no JSON Schema"),
    ],
)
def test_a_mistake_is_told_with_its_place(custom: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        requests(custom)
    assert str(error.value).startswith("sample.rego:1: METADATA: ")
    assert words in str(error.value)


def test_an_expression_cannot_leave_its_sandbox() -> None:
    with pytest.raises(InputError, match="unsafe"):
        requests(
            """
  requests:
    - kinds: [v1/Pod]
      operations: [CREATE]
      when: "{{ ''.__class__.__mro__ }}"
"""
        )


def test_a_module_without_requests_is_a_library() -> None:
    assert intents.of_module("package x\n", "x") is None
    assert intents.of_module("# METADATA\n# title: x\npackage x\n", "x") is None
    assert intents.of_module(module("  owner: me"), "x") is None


def test_parameters_get_the_defaults_of_their_schema_and_are_checked() -> None:
    intent = intents.of_module(
        module(
            """
  parameters:
    properties:
      limits: {type: object, default: {}, properties: {cpu: {type: integer, default: 2}}}
      names: {type: array, items: {type: string}, default: [a]}
  requests: [{kinds: [v1/Pod], operations: [CREATE]}]
"""
        ),
        "x",
    )
    assert intent is not None
    assert intent.parameters({}) == {"limits": {"cpu": 2}, "names": ["a"]}
    assert intent.parameters({"limits": {"cpu": 1}})["limits"] == {"cpu": 1}
    for given, words in (
        ({"names": [1]}, r"parameters.names\[0\]: 1 is not of type 'string'"),
        ({"name": []}, "Additional properties are not allowed"),
    ):
        with pytest.raises(ValueError, match=words):
            intent.parameters(given)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ settings.pools + 1 }}", "unsupported operand"),
        ("{{ 'x' * 10**10 }}", "cannot stand here"),
        ("{{ '%10000000000d' % 1 }}", "cannot stand here"),
        ("{{ 'x'.ljust(10000000000) }}", "not safely callable"),
        ("{{ 'x' | center(10000000000) }}", "No filter named 'center'"),
        ("{{ range(100000) | list }}", "'range' is undefined"),
        ("{% for a in settings %}x{% endfor %}", "only expressions and `if` can stand here"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "only expressions and `if`"),
        ("{% include 'x' %}", "only expressions and `if` can stand here"),
    ],
)
def test_an_expression_that_fails_or_never_ends_is_a_mistake(expression: str, words: str) -> None:
    with pytest.raises(InputError, match="METADATA: request 1: .*" + re.escape(words)):
        requests(f"  requests: [{{kinds: [v1/Pod], operations: [CREATE], when: {expression!r}}}]")


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("MyRule", "use lower-case words joined by '_'"),
        ("a" * 64, "has 64 characters: choose one of at most 63"),
        ("kubernetes", "has a meaning of its own"),
        ("package", "has a meaning of its own"),
        ("workloads", "the name of something of Fairlead's own"),
        ("namespaces", "the name of something of Fairlead's own"),
    ],
)
def test_a_policy_that_cannot_have_its_name_is_told_and_not_left_out(
    tmp_path: Path, package: str, words: str
) -> None:
    place = tmp_path / package
    place.mkdir()
    text = module("  requests: [{kinds: [v1/Pod], operations: [CREATE]}]", package)
    (place / f"{package}.rego").write_text(text)
    with pytest.raises(InputError, match=re.escape(words)):
        intents.in_folder(tmp_path)


@pytest.mark.parametrize("reference", ["#/none", "http://127.0.0.1:1/schema"])
def test_a_schema_of_parameters_refers_to_nothing_elsewhere(reference: str) -> None:
    custom = (
        f"  parameters: {{properties: {{team: {{$ref: '{reference}'}}}}}}\n"
        "  requests: [{kinds: [v1/Pod], operations: [CREATE]}]"
    )
    intent = intents.of_module(module(custom), "sample.rego")
    assert intent is not None
    with pytest.raises(ValueError, match="refers to another one that is not in it"):
        intent.parameters({"team": "shop"})
