"""Metacontroller itself carries out transient role bindings, as our manifests deploy it.

It runs where the program `metacontroller` is on the PATH or named by FAIRLEAD_METACONTROLLER.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import left_out
import pytest
import yaml
from access_world import BINDINGS, GROUP, NAMESPACE, RBAC, Users, bound, path, role
from applied import applied
from profiles import EVERYTHING
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE as OWN
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.programs.toolchain import installed
from fairlead.settings.access import Access

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings")

ACCOUNT = "metacontroller"  # and its namespace
OTHERS = EVERYTHING.model_copy(
    update={"access": Access(controller=f"system:serviceaccount:{ACCOUNT}:{ACCOUNT}")}
)
MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all(
        (paths.root() / "integration" / "deploy" / ACCOUNT / "access.yaml").read_text()
    )
)
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def definition(kind: str) -> dict[str, Any]:
    """A kind of Metacontroller, without its schema."""
    plural, group = f"{kind.lower()}s", "metacontroller.k8s.io"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, request not yet submitted"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural},
            "scope": "Namespaced" if kind == "ControllerRevision" else "Cluster",
            "versions": [version],
        },
    }


WORLD = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    role("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}),
    role(
        "requester",
        {
            "apiGroups": [GROUP],
            "resources": ["transientrolebindings"],
            "verbs": ["create", "get", "delete"],
        },
        {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"]},
        {"apiGroups": [RBAC], "resources": ["rolebindings"], "verbs": ["delete", "get"]},
    ),
    bound("ClusterRoleBinding", "requesters", "requester", "boss"),
    *(definition(kind) for kind in ("CompositeController", "DecoratorController")),
    definition("ControllerRevision"),
]


@pytest.fixture(scope="module")
def metacontroller() -> Path:
    """The program."""
    named = os.environ.get("FAIRLEAD_METACONTROLLER")
    path = Path(named) if named else next(installed.on_path(ACCOUNT), None)
    if path is None:
        left_out.skip(ACCOUNT, "put it on the PATH, or set FAIRLEAD_METACONTROLLER")
    return path


@pytest.fixture(scope="module")
def users(
    metacontroller: Path, cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Users]:
    """Users of a cluster in which Metacontroller runs."""
    deploy.deploy(cluster, PolicySet.load(OTHERS), progress=Progress())
    with applied(cluster.objects(), WORLD):
        bring(cluster, metacontroller, tmp_path_factory.mktemp("metacontroller"))
        users = Users(cluster.kubeconfig)
        until(lambda: may_ask(users), "the guards are those of the other settings")
        yield users
        cluster.stop_server(ACCOUNT)
    deploy.deploy(cluster, PolicySet.load(EVERYTHING), progress=Progress())


def may_ask(users: Users) -> bool:
    """Whether the guards let somebody ask for access without saying who asks, as these settings
    do.
    """
    created = users.create("boss", "early", validFrom=at(60), validUntil=at(120))
    return created.ok and users("boss", "DELETE", path("early")).ok


def bring(cluster: EmbeddedCluster, metacontroller: Path, folder: Path) -> None:
    """Apply our manifests, for OPA's address here, and start the program as their Deployment
    would.
    """
    objects = cluster.objects()
    (opa,) = cluster.opas()
    apart = {"Deployment": [], "CompositeController": []}  # type: dict[str, list[dict[str, Any]]]
    for manifest in MANIFESTS:
        if manifest["kind"] in apart:
            apart[manifest["kind"]].append(manifest)
        else:
            objects.apply(manifest)
    data = {}
    for key, secret in (("token", "opa-token-access"), ("ca.crt", "opa-tls")):
        data[key] = (objects.get("v1", "Secret", secret, OWN) or {})["data"][key]
    metadata = {"name": "opa-trust", "namespace": ACCOUNT}
    objects.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    def bring_controllers() -> bool:
        for manifest in apart["CompositeController"]:
            webhook = manifest["spec"]["hooks"]["sync"]["webhook"]
            webhook["url"] = webhook["url"].replace("https://opa.fairlead.svc", opa.url)
            cluster.objects().apply(manifest)
        return True

    until(bring_controllers, "the kinds of Metacontroller are served")
    kubeconfig = folder / "kubeconfig"
    cluster.service_account_kubeconfig(ACCOUNT, ACCOUNT, kubeconfig)
    (deployment,) = apart["Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = cluster.free_ports(2)
    further = [f"--metrics-address=127.0.0.1:{ports[0]}", f"--kubeconfig={kubeconfig}"]
    further.append(f"--health-probe-bind-address=127.0.0.1:{ports[1]}")
    cluster.start_server(ACCOUNT, [metacontroller, *container["args"], *further])


def at(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def reason(users: Users, name: str) -> str:
    """The reason of the condition `effective`."""
    status = users("boss", "GET", path(name)).body.get("status") or {}
    reasons = {each["type"]: each["reason"] for each in status.get("conditions", ())}
    return str(reasons.get("effective"))


def test_it_gives_access_and_takes_it_away(users: Users) -> None:
    subjects = [{"kind": "User", "name": "alice"}]
    window = {"validFrom": at(-1), "validUntil": at(3600)}
    created = users.create("boss", "night", subjects=subjects, **window)
    assert created.ok, created.message
    until(lambda: users("alice", "GET", PODS).ok, "alice has access")
    until(lambda: reason(users, "night") == "Granted", "the status says so")
    forged = users("boss", "DELETE", f"{BINDINGS}/night")
    assert forged.status == 403, "the guard knows the controller's bindings"
    assert users("boss", "DELETE", path("night")).ok
    until(lambda: not users("alice", "GET", PODS).ok, "alice has lost it")


def test_access_ends_by_itself(users: Users) -> None:
    subjects = [{"kind": "User", "name": "bob"}]
    window = {"validFrom": at(1), "validUntil": at(8)}
    created = users.create("boss", "short", subjects=subjects, **window)
    assert created.ok, created.message
    until(lambda: reason(users, "short") == "Expired", "it has ended")
    until(lambda: not users("bob", "GET", PODS).ok, "bob has no access")
    assert users("boss", "GET", f"{BINDINGS}/short").status == 404
