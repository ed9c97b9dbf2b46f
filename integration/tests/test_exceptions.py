"""Exceptions on a real API server, with each engine that takes them from the cluster: they come
into force, end on time and when they are deleted, and only those make them who may."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import engine_clusters
import pytest
from applied import applied
from engine_clusters import Run
from waits import until

from fairlead.admission.audit import VIOLATIONS
from fairlead.clusters.base import Cluster
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import texts
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names
from fairlead.deployment.names import CEL_ENGINE, OPA_ENGINE
from fairlead.kube import clients
from fairlead.kube.api_paths import path_of
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import EXCEPTIONS, GROUP, VERSION
from fairlead.operations import deploy, deployed_state, history
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["default", "python", "cel"]
pytestmark = pytest.mark.embedded("it deploys again, and the engines have clusters of their own")

Object = dict[str, Any]
KIND = EXCEPTIONS[1]
ROLE = "fairlead-exception-admin"
RBAC = "rbac.authorization.k8s.io/v1"


def exception(namespace: str, name: str = "import", **spec: Any) -> Object:
    """An exception of the pod `web` and of pods whose names begin with `web-`, for a day."""
    return {
        "apiVersion": VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "intents": ["node-pool"],
            "objects": {"names": ["web", "web-*"]},
            "reason": "it needs the node of the database",
            "owner": "team-payments",
            "until": texts.time(datetime.now(UTC) + timedelta(days=1)),
            **spec,
        },
    }


@pytest.fixture
def engine(objects: clients.Objects) -> str:
    return engine_names.of(deployed_state.config_map(objects))


@pytest.fixture
def take(cluster: EmbeddedCluster, engine: str) -> Iterator[Callable[[], None]]:
    """Has the engine take the exceptions of the cluster: OPA and the engine in Python do by
    themselves. In the end, there are none, nor policies of a revision with one, which the next
    deployment leaves and the one after it deletes.
    """

    def taken() -> None:
        if engine == CEL_ENGINE:
            deploy.deploy(cluster, PolicySet.load(Settings()), engine=engine, progress=Progress())

    yield taken
    taken()
    taken()


@pytest.fixture
def choosing(
    objects: clients.Objects, new_namespace: Callable[..., str], pod: Callable[..., Object]
) -> Object:
    """A pod that chooses another pool than that of its namespace."""
    return pod(new_namespace(agentpool="pool1"), nodeSelector={"agentpool": "pool2"})


@pytest.fixture
def fairlead(cluster: EmbeddedCluster, tmp_path: Path) -> Run:
    return engine_clusters.commands(cluster, tmp_path)


def is_admitted(objects: clients.Objects, manifest: Object) -> bool:
    try:
        objects.apply(manifest, dry_run=True)
    except Refused as error:
        if "nodeSelector" not in str(error):
            raise
        return False
    return True


def says(objects: clients.Objects, manifest: Object, reason: str) -> bool:
    """Whether the controller says this of an exception."""
    metadata = manifest["metadata"]
    live = objects.get(VERSION, KIND, metadata["name"], metadata["namespace"]) or {}
    conditions = live.get("status", {}).get("conditions", ())
    return any(condition["reason"] == reason for condition in conditions)


def has_controller(cluster: Cluster) -> bool:
    return bool(cluster.controllers())


def test_an_exception_is_in_force_until_it_is_deleted(
    cluster: EmbeddedCluster, objects: clients.Objects, choosing: Object, take: Callable[[], None]
) -> None:
    namespace = choosing["metadata"]["namespace"]
    other = {**choosing, "metadata": {"name": "other", "namespace": namespace}}
    assert not is_admitted(objects, choosing)
    manifest = exception(namespace)
    with applied(objects, [manifest]):
        take()
        until(lambda: is_admitted(objects, choosing), what="the exception is in force")
        assert not is_admitted(objects, other)
        if has_controller(cluster):
            until(lambda: says(objects, manifest, "InForce"), what="its status says so")
    take()
    until(lambda: not is_admitted(objects, choosing), what="the exception is gone")
    if has_controller(cluster):
        until(
            lambda: any(
                "import was deleted: it needs the node" in (row["message"] or "")
                for row in history.table(cluster)
            ),
            what="the history says so",
        )


def test_an_exception_ends_by_itself(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    choosing: Object,
    take: Callable[[], None],
    fairlead: Run,
    engine: str,
) -> None:
    namespace = choosing["metadata"]["namespace"]
    # A deployment takes seconds, and leaves out what has ended.
    lasting = timedelta(seconds=30 if engine == CEL_ENGINE else 3)
    end = texts.time(datetime.now(UTC) + lasting)
    manifest = exception(namespace, "short", until=end)
    with applied(objects, [manifest]):
        take()
        if engine == CEL_ENGINE:
            assert texts.now() < end
            assert is_admitted(objects, choosing)
        until(lambda: texts.now() > end, what="the exception has ended")
        assert not is_admitted(objects, choosing)
        assert_that_no_request_says_when_it_was_sent(objects, choosing)
        if has_controller(cluster):
            until(lambda: says(objects, manifest, "Ended"), what="its status says so")
            shown = fairlead("history", "-o", "json")
            assert shown.returncode == 0, shown.stderr
            title = f"{namespace}/short"
            (row,) = [row for row in json.loads(shown.stdout) if title in (row["message"] or "")]
            assert (row["action"], row["intents"], row["until"], row["revision"]) == (
                "exception",
                ["node-pool"],
                end,
                None,
            )
            assert row["message"].endswith(
                "ended: it needs the node of the database (team-payments)"
            )


def assert_that_no_request_says_when_it_was_sent(
    objects: clients.Objects, choosing: Object
) -> None:
    """Nobody prolongs an exception by an object that claims to be old."""
    entry: Object = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2020-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:nodeSelector": {}}},
    }
    path = path_of(choosing, choosing["metadata"]["namespace"])
    of_a_status = {**entry, "subresource": "status"}
    managed_fields: list[list[Object]] = [[], [entry], [of_a_status], [{}]]
    for managed in managed_fields:
        claimed = {**choosing, "metadata": {**choosing["metadata"], "managedFields": managed}}
        query = {"dryRun": "All", "fieldManager": "m"}
        answer = objects.request("POST", path, claimed, query=query)
        assert answer.status == 403, answer.message
        assert "nodeSelector" in answer.message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"until": "2026-12-24"}, "spec.until"),
        ({"until": "tomorrow"}, "spec.until"),
        ({"until": "2026-12-24T18:00:00+01:00"}, "spec.until"),
        ({"until": None}, "spec.until"),
        ({"reason": ""}, "spec.reason"),
        ({"owner": " "}, "spec.owner"),
        ({"intents": []}, "spec.intents"),
        ({"objects": {"names": []}}, "spec.objects.names"),
        ({"objects": {"names": ["*web"]}}, "spec.objects.names"),
        ({"objects": {}}, "spec.objects.names"),
    ],
)
def test_api_servers_refuse_what_is_no_exception(
    objects: clients.Objects, new_namespace: Callable[..., str], spec: Object, message: str
) -> None:
    manifest = exception(new_namespace(), **spec)
    manifest["spec"] = {key: value for key, value in manifest["spec"].items() if value is not None}
    with pytest.raises(Refused, match=message):
        objects.apply(manifest, dry_run=True)


@pytest.fixture
def tenant(cluster: Cluster, objects: clients.Objects) -> Iterator[clients.Objects]:
    """The API as a user sees it who has all rights on exceptions, as far as RBAC goes."""
    resources = [EXCEPTIONS[0], f"{EXCEPTIONS[0]}/status"]
    role = {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": "tenants"},
        "rules": [{"apiGroups": [GROUP], "resources": resources, "verbs": ["*"]}],
    }
    with applied(objects, [role, binding("tenants", None)]):
        yield clients.Objects(cluster.kubeconfig, user="tenant")


def binding(role: str, namespace: str | None) -> Object:
    """Gives the tenant a ClusterRole, in a namespace or in all."""
    metadata = {"name": f"test-{role}", **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": RBAC,
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}],
    }


def test_only_those_make_exceptions_who_may(
    objects: clients.Objects, new_namespace: Callable[..., str], tenant: clients.Objects
) -> None:
    own, other = new_namespace(), new_namespace()

    def refusal(manifest: Object, change: Callable[..., Any] = tenant.apply, *of: Any) -> str:
        """Why the tenant may not do it; nothing if it may."""
        try:
            change(manifest, *of)
        except Refused as error:
            return str(error)
        return ""

    guarded = f"tenant may not create or change exceptions in namespace {own}: an exception takes"
    until(lambda: guarded in refusal(exception(own)), what="the guard refuses the tenant")
    with applied(objects, [binding(ROLE, own)]):
        until(lambda: not refusal(exception(own)), what="the tenant may in its own namespace")
        assert f"in namespace {other}" in refusal(exception(other))
        assert not refusal(exception(own, until="2090-01-01T00:00:00Z"))
    until(lambda: guarded in refusal(exception(own)), what="the tenant may no more")
    assert not refusal(exception(own), tenant.merge, {"metadata": {"labels": {"a": "b"}}})
    assert guarded in refusal(exception(own), tenant.merge, {"spec": {"intents": ["all"]}})
    ended = refusal(exception(own), tenant.merge_status, {"conditions": []})
    assert "it belongs to Fairlead" in ended
    tenant.delete(VERSION, KIND, "import", own)  # whoever ends one evades nothing


def test_what_is_excepted_is_no_finding(
    objects: clients.Objects, choosing: Object, fairlead: Run, engine: str, tmp_path: Path
) -> None:
    if engine != OPA_ENGINE:
        pytest.skip("the command decides by OPA, whatever the engine is")
    namespace = choosing["metadata"]["namespace"]

    def findings() -> list[Object]:
        shown = fairlead("audit", "-o", "json")
        return [
            finding
            for finding in json.loads(shown.stdout)["findings"]
            if finding["namespace"] == namespace
        ]

    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(choosing))
    with applied(objects, [exception(namespace)]):
        until(lambda: is_admitted(objects, choosing), what="the exception is in force")
        objects.apply(choosing)
        assert not any(finding["finding"] in VIOLATIONS for finding in findings())
        live = fairlead("eval", str(file), "--live", "--fail-on", "refused")
        assert live.returncode == 0, live.stdout
    assert any(finding["finding"] in VIOLATIONS for finding in findings())
    objects.delete("v1", "Pod", "web", namespace)
    assert fairlead("eval", str(file), "--live", "--fail-on", "refused").returncode == 1
