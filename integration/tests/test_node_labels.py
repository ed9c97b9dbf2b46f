"""The pool label of a node: a node may set it when it registers, and no node may change it later.

The requests are dry runs in a user's name. Those of nodes first pass the real authorizer and the
plugin NodeRestriction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.kube import clients
from fairlead.operations import preflight
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import NODE_LABELS, Pool, Settings

GUARD = "fairlead-node-labels"
ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
JSON = "application/json"
POOL = "agentpool"
PROTECTED = NODE_LABELS["node-restriction"]


class Asking:
    """Sends dry runs as any user. Returns the status, and the message of a refusal."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = clients.connect(cluster.kubeconfig)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str,
        group: str = "",
        kind: str = MERGE,
    ) -> tuple[int, str]:
        headers = {"Content-Type": kind, "Impersonate-User": user} | (
            {"Impersonate-Group": group} if group else {}
        )
        url = f"{self._api.configuration.host}/api/v1/nodes{path}?dryRun=All"
        answer = self._api.call_api(method, url, headers, body)
        document = json.loads(answer.read())
        return answer.status, str(document.get("message")) if answer.status >= 300 else ""

    def as_node(
        self, node: str, method: str, path: str, body: Any = None, *, kind: str = MERGE
    ) -> tuple[int, str]:
        return self(method, path, body, user=f"system:node:{node}", group="system:nodes", kind=kind)


@pytest.fixture
def node(objects: clients.Objects) -> dict[str, Any]:
    """A node of pool1."""
    first, *_ = objects.list("v1", "Node", None, f"{POOL}=pool1")
    return first


@pytest.fixture
def ask(cluster: Cluster, node: dict[str, Any]) -> Asking:
    """A client of a cluster in which the guard is in force."""
    asking, name = Asking(cluster), node["metadata"]["name"]
    change = ("PATCH", f"/{name}", labelled(agentpool="pool2"))
    until(lambda: asking.as_node(name, *change)[0] == 403, what="the guard is in force")
    return asking


def labelled(**labels: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


def drawing(node: dict[str, Any]) -> dict[str, tuple[str, str, Any, str]]:
    """Changes of a node that would attract the pods of another pool or drive away its own, by
    name.
    """
    # whatever it is by now
    name, metadata = node["metadata"]["name"], {**node["metadata"], "resourceVersion": ""}
    replaced = {**node, "metadata": {**metadata, "labels": {**metadata["labels"], POOL: "pool2"}}}
    return {
        "another pool": ("PATCH", f"/{name}", labelled(agentpool="pool2"), MERGE),
        "no pool": ("PATCH", f"/{name}", labelled(agentpool=None), MERGE),
        "an empty one": ("PATCH", f"/{name}", labelled(agentpool=""), MERGE),
        "by its status": ("PATCH", f"/{name}/status", labelled(agentpool="pool2"), MERGE),
        "as a whole": ("PUT", f"/{name}", replaced, JSON),
    }


def test_no_node_changes_its_pool(ask: Asking, node: dict[str, Any]) -> None:
    name = node["metadata"]["name"]
    for what, (method, path, body, kind) in drawing(node).items():
        status, message = ask.as_node(name, method, path, body, kind=kind)
        assert status == 403, (what, message)
        assert f"'{GUARD}'" in message, (what, message)
        assert f"system:node:{name} may not change the label agentpool of node {name}" in message
        assert "ask those who run Fairlead in this cluster" in message


def test_all_else_about_it_a_node_tells_as_before(ask: Asking, node: dict[str, Any]) -> None:
    name = node["metadata"]["name"]
    same = node["metadata"]["labels"][POOL]
    for path, body in (
        (f"/{name}", labelled(rack="7", agentpool=same)),
        (f"/{name}/status", {"status": {"nodeInfo": {"kubeletVersion": "v1.36.9"}}}),
        (f"/{name}/status", {"metadata": {"annotations": {"a": "b"}}}),
    ):
        assert ask.as_node(name, "PATCH", path, body) == (200, "")


def test_a_node_registers_with_its_pool_and_cannot_do_so_twice(
    ask: Asking, node: dict[str, Any]
) -> None:
    new = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "new-1", "labels": {POOL: "pool2"}},
    }
    assert ask.as_node("new-1", "POST", "", new, kind=JSON) == (201, "")
    name = node["metadata"]["name"]
    again = {**new, "metadata": {**new["metadata"], "name": name}}  # type: ignore[dict-item]
    assert ask.as_node(name, "POST", "", again, kind=JSON)[0] == 409
    status, message = ask.as_node(name, "DELETE", f"/{name}", kind=JSON)
    assert (status, "cannot delete resource" in message) == (403, True)


def test_a_protected_label_no_node_gives_itself_even_then(ask: Asking) -> None:
    """The purpose of the preset node-restriction: the API server's own plugin refuses this."""
    new = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "new-1", "labels": {PROTECTED: "pool2"}},
    }
    status, message = ask.as_node("new-1", "POST", "", new, kind=JSON)
    assert (status, f"not allowed to set the following labels: {PROTECTED}" in message) == (
        403,
        True,
    )


@pytest.fixture
def may_change_nodes(objects: clients.Objects) -> Iterator[list[str]]:
    """Users that RBAC allows to change nodes: an operator of nodes, and cloud controllers."""
    name = "test-node-changers"
    users = [
        "operator",
        "system:cloud-controller-manager",
        "system:serviceaccount:kube-system:cloud",
        "cloud:nodes",
    ]
    rule = {
        "apiGroups": [""],
        "resources": ["nodes", "nodes/status"],
        "verbs": ["get", "update", "patch"],
    }
    objects.apply(
        {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    )
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
            for user in users
        ],
    }
    objects.apply(binding)
    yield users
    objects.delete(RBAC, "ClusterRoleBinding", name)
    objects.delete(RBAC, "ClusterRole", name)


def test_administrators_and_cloud_controllers_may(
    ask: Asking, node: dict[str, Any], may_change_nodes: list[str]
) -> None:
    changes = drawing(node).values()
    for user in may_change_nodes:
        until(
            lambda: ask("PATCH", f"/{node['metadata']['name']}", {}, user=user)[0] == 200,  # noqa: B023
            what=f"{user} has its right",
        )
        for method, path, body, kind in changes:
            assert ask(method, path, body, user=user, kind=kind) == (200, "")
    for method, path, body, kind in changes:
        assert ask(method, path, body, user="root", group="system:masters", kind=kind) == (200, "")
        status, message = ask(method, path, body, user="tenant", kind=kind)
        assert (status, "cannot" in message) == (403, True), "this is RBAC's to say"


def guards(settings: Settings) -> list[dict[str, Any]]:
    rendered = manifests.render_objects(PolicySet.load(settings), Credentials.fresh())
    return [manifest for manifest in rendered if manifest["metadata"]["name"] == GUARD]


def test_every_label_of_a_declared_pool_counts(
    objects: clients.Objects, ask: Asking, node: dict[str, Any], settings: Settings
) -> None:
    name = node["metadata"]["name"]
    gpu = Pool(node_selector={"agentpool": "gpu", "acme.io/accelerator": "nvidia"})
    change = ("PATCH", f"/{name}", {"metadata": {"labels": {"acme.io/accelerator": "nvidia"}}})
    assert ask.as_node(name, *change)[0] == 200
    try:
        for manifest in guards(Settings(pools={"gpu": gpu, "cheap": Pool()})):
            objects.apply(manifest)
        until(lambda: ask.as_node(name, *change)[0] == 403, what="the other guard is in force")
        assert "may not change the label acme.io/accelerator of" in ask.as_node(name, *change)[1]
        both = {"metadata": {"labels": {"acme.io/accelerator": "nvidia", "agentpool": "gpu"}}}
        assert (
            "the label acme.io/accelerator, agentpool of"
            in ask.as_node(name, "PATCH", f"/{name}", both)[1]
        )
    finally:
        for manifest in guards(settings):
            objects.apply(manifest)
        until(lambda: ask.as_node(name, *change)[0] == 200, what="the guard is as it was")


def test_what_refuses_is_the_guard(
    objects: clients.Objects, ask: Asking, node: dict[str, Any], settings: Settings
) -> None:
    """Without the guard a node can change its pool, so nothing else prevents it."""
    name = node["metadata"]["name"]
    method, path, body, kind = drawing(node)["another pool"]
    objects.delete(ADMISSION, "ValidatingAdmissionPolicyBinding", GUARD)
    try:
        until(
            lambda: ask.as_node(name, method, path, body, kind=kind)[0] == 200,
            what="the guard is gone",
        )
        for method, path, body, kind in drawing(node).values():
            assert ask.as_node(name, method, path, body, kind=kind) == (200, "")
    finally:
        for manifest in guards(settings):
            objects.apply(manifest)
        until(
            lambda: ask.as_node(name, method, path, body, kind=kind)[0] == 403,
            what="the guard is back",
        )


def test_a_check_tells_what_nodes_may_say_of_themselves() -> None:
    assert (
        "can set its own agentpool when it registers, but not later"
        in preflight._node_labels([POOL]).detail
    )
    protected = preflight._node_labels(Settings(node_label="node-restriction").pool_keys())
    assert (protected.ok, f"no node can set its own {PROTECTED}" in protected.detail) == (
        True,
        True,
    )
