"""Kyverno's own admission controller, with the policies that `fairlead render --engine kyverno`
prints, and with those of all conformance cases."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import left_out
import pytest
from waits import until

from fairlead import engines
from fairlead.clusters import registry
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.engines.kyverno import manifests
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.policy import cases
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification.verify import verify
from lab.engines.kyverno import KyvernoEngine, controller, marker
from lab.engines.live import clusters
from lab.engines.live.worlds import create

pytestmark = [
    pytest.mark.skipif(
        registry.of_environment().kind != "embedded", reason="Kyverno runs beside its own cluster"
    ),
    left_out.unless_built(controller.PROGRAM),
]
STRICT_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}
NASTY = 'it\'s "so" \\ `x` ${y} {{ z }} // no\ncomment\t\x07é\U0001f692 cel.bind(params, 1, '

NASTY_LINE = "".join(character for character in NASTY if character.isprintable())

ECHO = """\
# METADATA
# title: Echo
# scope: package
package echo

decision := {"deny": set(), "warn": set(), "patch": []}
"""
FACTS = """\
writtenFor: [cel]
requests:
  - kinds: [v1/Secret]
    operations: [CREATE]
parameters:
  type: object
  properties:
    text: {type: string}
    items: {type: array}
"""
# It also has a macro's variable of the same name, and comments.
ECHO_IN_CEL = """\
variables:
  - {name: params, expression: "'own'"}
  - name: types
    expression: |-
      params.items.map(item, string(type(item) == int) + ' ' + string(type(item) == double)
        + ' ' + string(item)).join(', ') // params
validations:
  - expression: "['params'].exists(params, params == variables.params) // params"
    messageExpression: params.text + '|' + variables.types + '|' + variables.params
"""


@pytest.fixture(scope="module")
def kyverno() -> Iterator[BareCluster]:
    """A cluster whose API server asks Kyverno, without policies."""
    with controller.running(Progress()) as cluster:
        yield cluster


@pytest.fixture
def rest(kyverno: BareCluster) -> Objects:
    return clusters.api(kyverno)


@contextmanager
def enforced(rest: Objects, policies: list[dict[str, Any]]) -> Iterator[None]:
    """The policies are in force during the block."""
    try:
        for policy in policies:
            answer = rest.request("POST", manifests.path(policy), policy)
            assert answer.ok, answer.message
        with marker.placed(rest):
            yield
    finally:
        for policy in policies:
            rest.request("DELETE", f"{manifests.path(policy)}/{policy['metadata']['name']}")


def mapped_namespace(rest: Objects, name: str) -> str:
    """The path of a new namespace whose pool is pool1."""
    metadata = {"name": name, "labels": {"agentpool": "pool1"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    create(rest, path_of(namespace, None), namespace)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    rest.request("POST", path_of(account, name), account)  # a controller may have been faster
    return f"/api/v1/namespaces/{name}"


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"contact": NASTY_LINE, "pools": {"gpu": {"tolerations": [{"key": "gpu"}]}, "two": {}}},
        {"enforcement": {"node-pool": "warn"}, "failurePolicy": "Ignore", "timeoutSeconds": 3},
        {"intents": {"node-pool": {"exempt": {"users": [NASTY_LINE], "groups": ["x"]}}}},
        {
            "intents": {
                "replica-limits": {"parameters": {"ranges": [{"max_replicas": 5}]}},
                "few": {
                    "intent": "replica-limits",
                    "parameters": {"ranges": [{"min_replicas": 1}]},
                    "namespaces": {"matchLabels": {"size": "small"}},
                },
            }
        },
    ],
    ids=["defaults", "pools", "warn", "exempt", "instances"],
)
def test_kyverno_takes_each_policy_strictly(rest: Objects, chosen: dict[str, Any]) -> None:
    """Its own webhook compiles each expression."""
    rendered = engines.render("kyverno", PolicySet.load(Settings.model_validate(chosen)))
    assert len(rendered) >= 2
    for policy in rendered:
        answer = rest.request("POST", manifests.path(policy), policy, query=STRICT_DRY_RUN)
        assert (answer.ok, answer.message, answer.warnings) == (True, "", ())


def test_kyverno_refuses_a_policy_with_a_mistake(rest: Objects) -> None:
    """So that a policy that cannot be evaluated is not taken for one that allows everything."""
    policy = engines.render("kyverno", PolicySet.load(Settings()))[0]
    wrong = json.loads(json.dumps(policy).replace("namespaceObject.metadata", "nothing.metadata"))
    answer = rest.request("POST", manifests.path(policy), wrong, query={"dryRun": "All"})
    assert not answer.ok
    assert "undeclared reference to 'nothing'" in answer.message
    unknown = {**policy, "spec": {**policy["spec"], "paramKind": {}}}
    answer = rest.request("POST", manifests.path(policy), unknown, query=STRICT_DRY_RUN)
    assert 'unknown field "spec.paramKind"' in answer.message


def test_what_is_rendered_places_pods_and_refuses_other_nodes(rest: Objects) -> None:
    namespace = mapped_namespace(rest, "payments")
    with enforced(rest, engines.render("kyverno", PolicySet.load(Settings(contact=NASTY_LINE)))):
        dry_run = {"dryRun": "All"}  # the cases have pods of this name in the namespace
        placed = rest.request("POST", f"{namespace}/pods", POD, query=dry_run)
        assert placed.body["spec"]["nodeSelector"] == {"agentpool": "pool1"}
        elsewhere = {**POD, "spec": {**POD["spec"], "nodeSelector": {"agentpool": "pool2"}}}
        refused = rest.request("POST", f"{namespace}/pods", elsewhere, query=dry_run)
    assert refused.status == 400
    assert refused.message.startswith(
        'Policy fairlead.node-pool failed: pod "web" sets spec.nodeSelector agentpool=pool2'
    )
    assert refused.message.endswith(f" (ask {NASTY_LINE})")


def test_a_pod_that_loses_its_pool_again_is_refused(rest: Objects) -> None:
    """An API server repeats its own policies after webhooks, and does not ask Kyverno again."""
    namespace = mapped_namespace(rest, "undone")
    attempt = functools.partial(
        rest.request, "POST", f"{namespace}/pods", POD, query={"dryRun": "All"}
    )
    with enforced(rest, engines.render("kyverno", PolicySet.load(Settings()))), undoing(rest):
        refused = until(
            lambda: None if (answer := attempt()).ok else answer,
            what="the admission policy removes the nodeSelector",
        )
    assert refused.message.startswith(
        "Policy fairlead.node-pool failed: another webhook has undone what node-pool adds"
    )


@contextmanager
def undoing(rest: Objects) -> Iterator[None]:
    """An admission policy removes the nodeSelector of pods during the block."""
    # No matchCondition: an API server repeats only what it has invoked before.
    removal = (
        "has(object.spec.nodeSelector) ? [JSONPatch{op: 'remove', path: '/spec/nodeSelector'}] : []"
    )
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": removal}}
    specs = {
        "MutatingAdmissionPolicy": {
            "matchConstraints": {"resourceRules": [rule]},
            "reinvocationPolicy": "IfNeeded",
            "mutations": [mutation],
        },
        "MutatingAdmissionPolicyBinding": {"policyName": "undoing"},
    }
    every = [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "undoing"},
            "spec": spec,
        }
        for kind, spec in specs.items()
    ]
    try:
        for manifest in every:
            create(rest, path_of(manifest, None), manifest)
        yield
    finally:
        for manifest in every:
            rest.request("DELETE", path_of(manifest, None, "undoing"))


def test_expressions_see_the_parameters_as_they_are(rest: Objects, tmp_path: Path) -> None:
    (tmp_path / "echo" / "engines").mkdir(parents=True)
    (tmp_path / "echo" / "echo.rego").write_text(ECHO)
    (tmp_path / "echo" / "intent.yaml").write_text(FACTS)
    (tmp_path / "echo" / "engines" / "cel.yaml").write_text(ECHO_IN_CEL)
    items = [1, -(2**63) + 1, 2.0, 0.1, 1e22]
    settings = Settings.model_validate(
        {
            "intents": {
                "node-pool": False,
                "echo": {"parameters": {"text": NASTY, "items": items}},
            }
        }
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "some"}}
    with enforced(rest, engines.render("kyverno", PolicySet.load(settings, tmp_path))):
        path = path_of(secret, "default")
        refused = rest.request("POST", path, secret, query={"dryRun": "All"})
    types = "true false 1, true false -9223372036854775807, false true 2, "
    types += "false true 0.1, false true 1e+22"
    assert refused.message == f"Policy fairlead.echo failed: {NASTY}|{types}|own"


@pytest.mark.lab
def test_every_case_holds_on_kyverno(kyverno: BareCluster) -> None:
    every = cases.load(None)
    results = verify(every, [KyvernoEngine(cluster=kyverno)], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    decided = [result for result in results if result.passed]
    assert len(decided) >= 400
