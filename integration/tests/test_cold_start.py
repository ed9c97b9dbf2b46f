"""A cluster starts from nothing by itself, and OPA with it: no webhook or guard prevents that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from applied import applied, namespace_manifest
from foreign import Foreign
from waits import DEADLINE, until

from fairlead.clusters import remote
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube.errors import Refused
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["foreign"]
pytestmark = pytest.mark.embedded("it starts a cluster from nothing")

POOL = {"agentpool": "pool1"}
# so that OPA is asked about every namespace that is not exempt
SETTINGS = Settings(default_pool="pool2")
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


@pytest.fixture(scope="module")
def foreign(undeployed: Foreign) -> Iterator[Foreign]:
    """A foreign cluster with Fairlead and a mapped namespace."""
    deployed = remote.RemoteCluster(undeployed.context, undeployed.kubeconfig)
    deploy.deploy(deployed, PolicySet.load(SETTINGS), sidecar="sync", progress=Progress())
    deployed.stop()
    with applied(undeployed.objects(), [namespace_manifest("mapped", **POOL)]):
        yield undeployed


def pod(foreign: Foreign, namespace: str) -> dict[str, Any]:
    """A pod after admission, by a dry run. Raises Refused if it is refused."""
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    locked = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "main", "image": "nginx:1.29", "securityContext": locked}
    spec = {"containers": [container], "securityContext": security}
    metadata = {"name": "web", "namespace": namespace}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return foreign.objects().apply(manifest, dry_run=True)


def placed(foreign: Foreign) -> bool:
    return bool(pod(foreign, "mapped")["spec"].get("nodeSelector") == POOL)


def pods_of_opa(foreign: Foreign) -> list[Any]:
    return list(
        foreign.core.list_namespaced_pod(
            NAMESPACE, label_selector="app.kubernetes.io/name=opa"
        ).items
    )


def unschedulable(foreign: Foreign, value: bool) -> None:
    """Make all nodes unschedulable, as if none were up yet, or schedulable again."""
    core: Any = foreign.core
    for node in core.list_node().items:
        core.patch_node(node.metadata.name, {"spec": {"unschedulable": value}})


def test_all_of_it_comes_back_from_nothing_by_itself(foreign: Foreign) -> None:
    until(lambda: placed(foreign), what="pods are placed")
    before = {p.metadata.uid for p in pods_of_opa(foreign)}

    unschedulable(foreign, True)
    foreign.core.delete_collection_namespaced_pod(NAMESPACE)
    until(lambda: not {"opa", "sync"} & foreign.servers().keys(), what="OPA is gone")
    for server in CONTROL_PLANE:
        foreign.restart_server(server, deadline=DEADLINE)
    foreign.wait_for(
        "kube-apiserver", f"{foreign.core.api_client.configuration.host}/readyz", deadline=DEADLINE
    )

    for namespace in ("mapped", "default"):
        with pytest.raises(
            Refused, match=r"failed calling webhook \"node-pool.fairlead.dev\""
        ) as refused:
            pod(foreign, namespace)
        assert refused.value.status == 500
    for namespace in ("kube-system", NAMESPACE):
        assert pod(foreign, namespace)["metadata"]["namespace"] == namespace
    # Its pods are made, by its controllers, while it is away; they wait for a node alone.
    made = until(lambda: _new(foreign, before), what="there are new pods of OPA")
    assert not any(p.spec.node_name for p in made)

    unschedulable(foreign, False)
    until(lambda: placed(foreign), what="pods are placed again")
    pods = until(lambda: _bound(foreign), what="every pod of OPA has a node")
    assert before.isdisjoint(p.metadata.uid for p in pods)


def _new(foreign: Foreign, before: set[str]) -> list[Any] | None:
    pods = [
        p
        for p in pods_of_opa(foreign)
        if p.metadata.uid not in before and not p.metadata.deletion_timestamp
    ]
    return pods if len(pods) == 2 else None


def _bound(foreign: Foreign) -> list[Any] | None:
    """The pods of OPA, once each is bound to a node. When they start depends on the simulator."""
    pods = [p for p in pods_of_opa(foreign) if not p.metadata.deletion_timestamp]
    return pods if len(pods) == 2 and all(p.spec.node_name for p in pods) else None
