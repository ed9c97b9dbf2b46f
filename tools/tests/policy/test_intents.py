"""What intent.yaml says about an intent, and how a cluster keeps it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.policy import carried, intent_file, intents, policy_files, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings

POD = "requests: [{kinds: [v1/Pod], operations: [CREATE]}]\n"


def folder(place: Path, facts: str | None, package: str = "sample") -> Path:
    """The folder of a policy."""
    path = place / package
    path.mkdir()
    (path / f"{package}.rego").write_text(f"# METADATA\n# title: A sample\npackage {package}\n")
    if facts is not None:
        (path / "intent.yaml").write_text(facts)
    return path


def intent_of(place: Path, facts: str) -> intents.Intent:
    intent = intents.of_folder(folder(place, facts))
    assert intent is not None
    return intent


def requests(
    place: Path, facts: str, parameters: dict[str, Any] | None = None, **settings: Any
) -> list[Request]:
    intent = intent_of(place, facts)
    document = Settings.model_validate(settings).document()
    return intent.requests(document, intent.parameters(parameters or {}))


def test_it_has_the_title_of_the_rego_and_the_name_of_its_folder(tmp_path: Path) -> None:
    folder(tmp_path, POD, "no_host_network")
    (intent,) = intents.in_folder(tmp_path)
    assert (intent.name, intent.title) == ("no-host-network", "A sample")
    assert intent.module == tmp_path / "no_host_network" / "no_host_network.rego"


def test_a_folder_without_an_intent_file_is_a_library(tmp_path: Path) -> None:
    folder(tmp_path, None)
    assert intents.in_folder(tmp_path) == []


def test_a_kind_is_written_like_in_manifests(tmp_path: Path) -> None:
    (request,) = requests(
        tmp_path,
        """
requests:
  - kinds:
      - v1/Pod
      - apps/v1/Deployment
      - {group: a.example, version: v1beta1, kind: Gpu, resource: gpus}
    operations: [CREATE]
""",
    )
    assert [(kind.path, kind.resources) for kind in request.kinds] == [
        ("/Pod", "pods"),
        ("apps/Deployment", "deployments"),
        ("a.example/Gpu", "gpus"),
    ]


def test_a_subresource_belongs_to_a_kind(tmp_path: Path) -> None:
    (request,) = requests(
        tmp_path,
        """
requests:
  - kinds:
      - apps/v1/Deployment/scale
      - v1/Pod/eviction
      - {group: a.example, version: v1, kind: Gpu, resource: gpus, subresource: scale}
      - v1/Pod/ephemeralcontainers
    operations: [UPDATE]
""",
    )
    assert [(kind.group, kind.resources, kind.path) for kind in request.kinds] == [
        ("apps", "deployments/scale", "autoscaling/Scale/scale"),
        ("", "pods/eviction", "policy/Eviction/eviction"),
        ("a.example", "gpus/scale", "autoscaling/Scale/scale"),
        ("", "pods/ephemeralcontainers", "/Pod/ephemeralcontainers"),
    ]


DEPENDING = """
parameters:
  properties:
    team: {type: string, default: infra}
    user: {type: string, default: eve}
    teams: {type: array, items: {type: string}, default: [a, b]}
    all: {type: boolean, default: false}
    mode: {type: string, default: warn}
    kinds: {type: array, default: [v1/Service]}
    custom:
      type: array
      default: [{group: a.example, version: v1, kind: Gpu, resource: gpus}]
requests:
  - kinds: [v1/Pod, $(parameters.kinds), $(parameters.custom)]
    operations: [CREATE]
    unless: parameters.all
    namespaces:
      matchLabels: {team: $(parameters.team)}
      matchExpressions:
        - {key: $(settings.namespaceLabel), operator: NotIn, values: ["", $(settings.pools)]}
        - {key: tier, operator: In, values: [$(parameters.teams)]}
        - {key: x, operator: Exists, when: settings.defaultPool}
    conditions:
      - {name: named, expression: object.metadata.name != $(parameters.user)}
      - name: changes
        anyOf:
          - "object.a ? true : false"
          - {when: settings.pools.*.allowedTolerations, expression: object.b in $(parameters.teams)}
      - {name: strict, when: {parameters.mode: [refuse, strict]}, expression: 'false'}
"""


def test_references_and_tests_read_settings_and_parameters(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, DEPENDING, {"user": 'x"y'}, pools={"gpu": {}})
    assert [kind.path for kind in request.kinds] == ["/Pod", "/Service", "a.example/Gpu"]
    assert [(c.name, c.expression) for c in request.conditions] == [
        ("named", 'object.metadata.name != "x\\"y"'),
        ("changes", "object.a ? true : false"),
    ]
    assert [expression.document() for expression in request.namespaces.expressions[1:]] == [
        {"key": "agentpool", "operator": "NotIn", "values": ["", "gpu"]},
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
    ]


@pytest.mark.parametrize(("kinds", "count"), [([], 1), (["v1/Pod"], 1), (["a", "v1/Service"], 2)])
def test_one_of_several_values_has_to_be_the_one_of_a_test(
    tmp_path: Path, kinds: list[str], count: int
) -> None:
    facts = (
        f"{POD}  # and\n".replace(
            "}]",
            "}, {name: more, kinds: [v1/Service], operations: [CREATE],"
            " when: {parameters.kinds.*: v1/Service}}]",
        )
        + "parameters: {properties: {kinds: {type: array, items: {type: string}, default: []}}}\n"
    )
    assert len(requests(tmp_path, facts, {"kinds": kinds})) == count


def test_what_has_a_test_is_there_only_if_it_holds(tmp_path: Path) -> None:
    pools: dict[str, Any] = {"gpu": {"allowedTolerations": []}}
    (request,) = requests(tmp_path, DEPENDING, {"mode": "strict"}, pools=pools, defaultPool="gpu")
    assert request.namespaces.expressions[-1].key == "x"
    assert [(c.name, c.expression) for c in request.conditions][1:] == [
        ("changes", '(object.a ? true : false) || (object.b in ["a", "b"])'),
        ("strict", "false"),
    ]


def test_a_request_is_left_out_by_its_test(tmp_path: Path) -> None:
    assert requests(tmp_path, DEPENDING, {"all": True}) == []


def test_a_value_of_a_parameter_that_makes_no_request_is_told_with_the_place(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError) as error:
        requests(tmp_path, DEPENDING, {"kinds": ["Pod"]})
    assert str(error.value).startswith(f"{tmp_path}/sample/intent.yaml:14: requests[0], with these")
    assert "'Pod' has no version" in str(error.value)


@pytest.mark.parametrize(
    ("facts", "line", "words"),
    [
        ("request: []", 1, "unknown key 'request': did you mean 'requests'?"),
        ("requests: []", 1, "requests is too short: write at least 1 item"),
        ("requests:\n  - kinds: [v1/Pod]", 2, "requests[0].operations is missing: add it"),
        (
            "requests:\n  - operations: [CREATE]\n    kinds: [Pod]",
            3,
            "requests[0].kinds[0]: 'Pod' has no version: write v1/Pod",
        ),
        (
            "requests: [{kinds: [example.com/v1/Gpu], operations: [CREATE]}]",
            1,
            "Gpu needs its resource (see kubectl api-resources)",
        ),
        ("requests: [{kinds: [v1/Pod], operations: [PATCH]}]", 1, "operations[0] is 'PATCH'"),
        (
            "requests: [{kinds: [v1/Pod], operations: [CREATE], "
            "conditions: [{name: x, operations: [UPDATE], expression: 'true'}]}]",
            1,
            "condition x is about UPDATE, but the operations of these requests are CREATE",
        ),
        (
            f"{POD}parameters:\n  type: 1",
            3,
            "parameters.type is not JSON Schema: 1 is not valid",
        ),
        ("requests: [{\n", 2, "is not valid YAML"),
        (f"{POD}writtenFor: [opa]", 2, "writtenFor[0] is 'opa': write 'cel'"),
        (
            "requests: [{kinds: [v1/Pod], operations: [CREATE], when: settings.pool}]",
            1,
            "requests[0].when: settings has no 'pool': did you mean 'pools'?",
        ),
        (
            "requests:\n  - kinds: [v1/Pod]\n    operations: [CREATE]\n"
            "    unless: {settings.pools.*.taint: x}",
            4,
            "settings.pools.* has no 'taint'",
        ),
        (
            "requests: [{kinds: [$(parameters.kinds)], operations: [CREATE]}]",
            1,
            "requests[0].kinds[0]: parameters has no 'kinds': remove it",
        ),
        (
            "requests: [{kinds: [v1/Pod], operations: [CREATE], conditions: "
            "[{name: x, expression: 'object.a == $(settings.)'}]}]",
            1,
            "a reference is written like $(settings.contact) or $(parameters.name)",
        ),
        (
            'requests: [{kinds: [v1/Pod], operations: [CREATE], when: "{{ settings.pools }}"}]',
            1,
            "requests[0].when: Jinja2 expressions are not evaluated here: write a reference",
        ),
        (
            "requests: [{kinds: [v1/Pod], operations: [CREATE], conditions: [{name: x}]}]",
            1,
            "condition x: write either `expression` or `anyOf`",
        ),
        (
            "requests: [{kinds: [v1/Pod], operations: [CREATE], when: pools}]",
            1,
            "requests[0].when",
        ),
        (f"{POD}---\n{POD}", 3, "holds more than one document"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_fix(
    tmp_path: Path, facts: str, line: int, words: str
) -> None:
    with pytest.raises(InputError) as error:
        intents.of_folder(folder(tmp_path, facts))
    assert str(error.value).startswith(f"{tmp_path}/sample/intent.yaml:{line}: ")
    assert words in str(error.value)


def test_an_intent_file_without_its_policy_is_told(tmp_path: Path) -> None:
    path = folder(tmp_path, POD)
    (path / "sample.rego").unlink()
    with pytest.raises(InputError, match=r"is about no policy: there is no sample\.rego beside it"):
        intents.in_folder(tmp_path)


def test_parameters_get_the_defaults_of_their_schema_and_are_checked(tmp_path: Path) -> None:
    intent = intent_of(
        tmp_path,
        f"""
parameters:
  properties:
    limits: {{type: object, default: {{}}, properties: {{cpu: {{type: integer, default: 2}}}}}}
    names: {{type: array, items: {{type: string}}, default: [a]}}
{POD}""",
    )
    assert intent.parameters({}) == {"limits": {"cpu": 2}, "names": ["a"]}
    assert intent.parameters({"limits": {"cpu": 1}})["limits"] == {"cpu": 1}
    for given, words in (
        ({"names": [1]}, r"parameters.names\[0\]: 1 is not of type 'string'"),
        ({"name": []}, r"parameters: unknown key 'name': did you mean 'names'\?"),
    ):
        with pytest.raises(ValueError, match=words):
            intent.parameters(given)


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
    folder(tmp_path, POD, package)
    with pytest.raises(InputError, match=re.escape(words)):
        intents.in_folder(tmp_path)


@pytest.mark.parametrize("reference", ["#/none", "http://127.0.0.1:1/schema"])
def test_a_schema_of_parameters_refers_to_nothing_elsewhere(tmp_path: Path, reference: str) -> None:
    facts = f"{POD}parameters: {{properties: {{team: {{$ref: '{reference}'}}}}}}\n"
    with pytest.raises(ValueError, match="refers to another one that is not in it"):
        intent_of(tmp_path, facts).parameters({"team": "shop"})


def test_the_json_schema_takes_the_projects_files_and_no_mistake() -> None:
    schema = json.loads((paths.root() / "tools" / "schemas" / intent_file.SCHEMA).read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    documents = [
        yaml_files.read_yaml(path)[0].value for path in policy_files.builtin().glob("*/intent.yaml")
    ]
    assert len(documents) == 8
    for document in documents:
        assert list(validator.iter_errors(document)) == []
        assert list(validator.iter_errors({**document, "request": []})) != []


def test_a_cluster_keeps_it_with_the_module_whatever_staging_does() -> None:
    policies = PolicySet.examples(Settings())
    staged = staging.staged(policies, "opa", Progress())
    deployed = PolicySet.deployed(staged.modules, policies.settings)
    assert [(i.name, i.intent.facts, i.requests) for i in deployed.active] == [
        (i.name, i.intent.facts, i.requests) for i in policies.active
    ]


def test_a_change_of_it_is_a_new_revision(tmp_path: Path) -> None:
    path = folder(tmp_path, POD)
    before = PolicySet.load(Settings(policies=[str(tmp_path)]))
    (path / "intent.yaml").write_text(POD.replace("CREATE", "CREATE, UPDATE"))
    after = PolicySet.load(Settings(policies=[str(tmp_path)]))
    assert before.revision != after.revision


def test_a_mistake_in_a_cluster_has_the_line_of_the_module() -> None:
    text = carried.carrying("package sample\n\nx := 1\n", "requests: []\n")
    with pytest.raises(InputError, match=r"sample\.sample\.rego:6: requests is too short"):
        carried.of_module(text, "sample.sample.rego")
    assert carried.without_facts(text) == "package sample\n\nx := 1\n"
