"""Intents as earlier versions wrote them: in a cluster they are read, in a folder converted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import fairlead

from fairlead.checks import policies
from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.policy import carried, intents, new_policy
from fairlead.policy.instances import Instance
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

OLD = """\
# METADATA
# title: No host network
# description: Only pods of the infrastructure team use the network of their node.
# schemas:
#   - input: schema.admission_review
#   - input.request.object: schema.kubernetes.core.v1.Pod
# custom:
#   owner: infra # stays
#   parameters:
#     properties:
#       team: {type: string, default: infra}
#       kinds: {type: array, items: {type: string}, default: [v1/Pod]}
#       enforced: {type: boolean, default: true}
#   requests:
#     # Pods that run already are left alone.
#     - kinds: "{{ parameters.kinds }}"
#       operations: [CREATE]
#       when: "{{ parameters.enforced }}"
#       namespaces: &selected
#         matchExpressions:
#           - {key: team, operator: NotIn, values: ["{{ parameters.team }}"]}
#           - {key: "{{ settings.namespaceLabel }}", operator: Exists}
#       conditions:
#         - name: not-mine
#           expression: object.metadata.name != '{{ parameters.team }}'
#         - name: network
#           expression: >-
#             object.spec.?hostNetwork.orValue(false)
#     - name: updates
#       kinds: [v1/Pod/ephemeralcontainers]
#       operations: [UPDATE]
#       namespaces: *selected
package no_host_network

import data.review

# METADATA
# description: The decision of this intent.
decision := {"deny": deny, "patch": [], "warn": set()}

# METADATA
# description: Why the request is refused.
deny contains sprintf("pod %q: remove spec.hostNetwork", [review.name]) if {
	review.kind == ["", "Pod"]
	input.request.object.spec.hostNetwork
}
"""
NEW = """\
# yaml-language-server: $schema=../intent.schema.json
parameters:
  properties:
    team: {type: string, default: infra}
    kinds: {type: array, items: {type: string}, default: [v1/Pod]}
    enforced: {type: boolean, default: true}
requests:
  # Pods that run already are left alone.
  - kinds: [$(parameters.kinds)]
    operations: [CREATE]
    when: parameters.enforced
    namespaces: &selected
      matchExpressions:
        - {key: team, operator: NotIn, values: [$(parameters.team)]}
        - {key: $(settings.namespaceLabel), operator: Exists}
    conditions:
      - name: not-mine
        expression: object.metadata.name != $(parameters.team)
      - name: network
        expression: >-
          object.spec.?hostNetwork.orValue(false)
  - name: updates
    kinds: [v1/Pod/ephemeralcontainers]
    operations: [UPDATE]
    namespaces: *selected
"""
CASES = """\
- name: a pod on the network of its node
  intent: no-host-network
  namespace: {name: shop, labels: {agentpool: pool1}}
  request:
    operation: CREATE
    object:
      {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {hostNetwork: true, containers: []}}
  expect: {allowed: false, message: remove spec.hostNetwork}
"""
TEST = """\
package no_host_network_test

import data.no_host_network

test_other_kinds_are_left_alone if {
	no_host_network.deny == set() with input as {"request": {"kind": {"group": "", "kind": "Node"}}}
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of policies with one of an earlier version."""
    place = tmp_path / "policies" / "no_host_network"
    (place / "cases").mkdir(parents=True)
    (place / "no_host_network.rego").write_text(OLD)
    (place / "no_host_network_test.rego").write_text(TEST)
    (place / "cases" / "pods.yaml").write_text(CASES)
    return tmp_path / "policies"


def test_a_folder_says_how_to_convert_it(folder: Path) -> None:
    with pytest.raises(InputError) as error:
        PolicySet.load(Settings(), folder)
    module = folder / "no_host_network" / "no_host_network.rego"
    assert str(error.value).startswith(f"{module}:1: its METADATA have custom.requests")
    assert f"run `fairlead new intent-file {module.parent}`" in str(error.value)


def test_the_command_writes_intent_files_and_all_checks_pass(folder: Path) -> None:
    done = fairlead("new", "intent-file", str(folder), "-o", "json")
    assert done.returncode == 0, done.stderr
    place = folder / "no_host_network"
    assert {Path(each["file"]).name for each in json.loads(done.stdout)} == {
        "intent.yaml",
        "no_host_network.rego",
        "intent.schema.json",
    }
    assert (place / "intent.yaml").read_text() == NEW
    module = (place / "no_host_network.rego").read_text()
    custom = OLD[OLD.index("#   parameters:") : OLD.index("package")]
    assert module == OLD.replace(custom, "")  # with its own annotations: title, schemas, owner
    settings = Settings(policies=[str(folder)])
    assert fairlead("generate", "--policies", str(folder)).returncode == 0
    results = [*policies.run(PolicySet.examples(settings, folder), progress=Progress())]
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"intents": {"no-host-network": {"parameters": {"team": "web"}}}},
        {"intents": {"no-host-network": {"parameters": {"enforced": False}}}},
    ],
)
def test_what_a_cluster_has_decides_on_the_same_requests(
    folder: Path, given: dict[str, object]
) -> None:
    settings = Settings.model_validate({"policies": [str(folder)], **given})
    old = PolicySet.deployed({"no_host_network.no_host_network.rego": OLD}, settings).active
    new_policy.intent_files(folder)
    new = [one for one in PolicySet.load(settings).active if one.name != "node-pool"]
    assert [one.parameters for one in old] == [one.parameters for one in new]
    for before, after in zip(_documents(old), _documents(new), strict=True):
        assert before == after


def _documents(active: Sequence[Instance]) -> list[dict[str, object]]:
    """The requests; conditions without spaces, parentheses and quotes, which say nothing here."""
    documents = []
    for request in active[0].requests:
        document = request.model_dump()
        for condition in document["conditions"]:
            condition["expression"] = re.sub(r"[\s()]", "", condition["expression"]).replace(
                "'", '"'
            )
        documents.append(document)
    return documents


def test_one_policy_is_converted_by_its_own_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "no_host_network")
    assert len(new_policy.intent_files(Path())) == 3
    assert [intent.name for intent in intents.in_folder(folder)] == ["no-host-network"]


def test_an_expression_without_another_form_stays_and_is_named(folder: Path) -> None:
    module = folder / "no_host_network" / "no_host_network.rego"
    module.write_text(OLD.replace("operations: [UPDATE]", "operations: \"{{ ['UPDATE'] * 1 }}\""))
    new_policy.intent_files(folder)
    with pytest.raises(InputError) as error:
        PolicySet.load(Settings(), folder)
    assert re.search(
        r"intent\.yaml:\d+: requests\[1\]\.operations: Jinja2 expressions are not", str(error.value)
    )


def test_what_is_converted_already_is_left_alone(folder: Path) -> None:
    new_policy.intent_files(folder)
    done = fairlead("new", "intent-file", str(folder))
    assert done.returncode == 2
    assert "no policy there has custom.requests in its METADATA" in done.stderr


def test_facts_in_both_places_are_told(folder: Path) -> None:
    (folder / "no_host_network" / "intent.yaml").write_text("enabled: false\n")
    with pytest.raises(InputError, match=r"is there already: remove it, or custom\.requests"):
        new_policy.intent_files(folder)


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
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% for a in settings %}x{% endfor %}", "only expressions and `if` can stand here"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "only expressions and `if`"),
        ("{% include 'x' %}", "only expressions and `if` can stand here"),
        ("{% set a='x' %}{% set a=a~a %}", "only expressions and `if` can stand here"),
        ("{% with a='x' %}{{ a }}{% endwith %}", "only expressions and `if` can stand here"),
        ("{% filter upper %}x{% endfilter %}", "only expressions and `if` can stand here"),
        ("{{ 'a'" + "|replace('a','aaaaaaaaaa')" * 12 + " }}", "of more than 16384 characters"),
        ("{{ 'aaaaaaaa'" + "|join('aaaaaaaa')" * 20 + " }}", "of more than 16384 characters"),
        ("{{ '\"'" + "|tojson" * 60 + " }}", "of more than 16384 characters"),
        ("{{ ('a'" + "|replace('a','aaaaaaaaaa')" * 4 + ") }}" + "{{ settings }}" * 99, "16384"),
        ("{{ 'x" + "x" * 5000 + "' }}", "it has more than 4096 characters"),
    ],
)
def test_an_expression_in_a_cluster_that_fails_or_never_ends_is_a_mistake(
    expression: str, words: str
) -> None:
    request = f"{{kinds: [v1/Pod], operations: [CREATE], when: {json.dumps(expression)}}}"
    text = f"# METADATA\n# custom:\n#   requests: [{request}]\npackage sample\n"
    intent = carried.of_module(text, "sample.sample.rego")
    assert intent is not None
    with pytest.raises(InputError, match=re.escape(words)):
        intent.requests(Settings().document(), {})


def test_a_module_that_names_no_requests_is_a_library() -> None:
    for text in ("package x\n", "# METADATA\n# title: x\npackage x\n"):
        assert carried.of_module(text, "x") is None
    assert carried.of_module("# METADATA\n# custom: {owner: me}\npackage x\n", "x") is None


def test_a_schema_of_parameters_that_is_none_is_a_mistake() -> None:
    text = "# METADATA\n# custom: {parameters: {type: 1}, requests: [{}]}\npackage x\n"
    with pytest.raises(InputError, match=r"x:1: METADATA: custom\.parameters\.type is not JSON"):
        carried.of_module(text, "x")


def test_the_document_of_a_converted_file_has_no_expression(folder: Path) -> None:
    new_policy.intent_files(folder)
    (document,) = yaml_files.read_yaml(folder / "no_host_network" / "intent.yaml")
    assert "{{" not in str(document.value)
    assert "{%" not in str(document.value)
