"""What users write takes the memory of no sidecar and no OPA: both run within the limits of their
containers, at the sidecar's start and later, beside namespaces and replicated objects as large as
API servers take.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from applied import applied, namespace_manifest
from profiles import SETTINGS
from waits import until

from fairlead.clusters.base import Server
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.deployment.names import NAMESPACE
from fairlead.kube.clients import Objects
from fairlead.opa.api import OpaApi
from fairlead.operations import deployed_state
from lab.fuzz import limits
from lab.fuzz.limits import MemoryLimit

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded("it limits the memory of processes")

EMOJI = "\U0001f600"
"""A text with one takes four bytes for each character in Python."""
NAMESPACES, INGRESSES, PATHS = 150, 12, 12_000
RBAC, ROLE = "rbac.authorization.k8s.io", "replicates-ingresses"
RIGHTS = [
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [
            {
                "apiGroups": ["networking.k8s.io"],
                "resources": ["ingresses"],
                "verbs": ["list", "watch"],
            }
        ],
    },
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "opa", "namespace": NAMESPACE}],
    },
]


def crowded(number: int) -> dict[str, Any]:
    """A mapped namespace with as many bytes of annotations as API servers take."""
    manifest = namespace_manifest(f"crowd-{number}", agentpool="pool1")
    manifest["metadata"]["annotations"] = {"x": EMOJI + "a" * 260_000}
    return manifest


def ingress(name: str, paths: int, namespace: str = "crowd-0") -> dict[str, Any]:
    """An Ingress; 12,000 paths have a megabyte as JSON, and fifteen in OPA."""
    backend = {"service": {"name": "s", "port": {"number": 1}}}
    all_paths = [
        {"path": f"/{number}", "pathType": "Prefix", "backend": backend} for number in range(paths)
    ]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"rules": [{"http": {"paths": all_paths}}]},
    }


class Confined(NamedTuple):
    """A sidecar within the memory of its container."""

    cluster: EmbeddedCluster
    name: str
    limit: MemoryLimit
    server: Server

    def health(self) -> dict[str, Any]:
        return deployed_state.health(self.server)

    def require_one_life(self) -> None:
        """Neither it nor its OPA was killed, or took more than its limit."""
        server = self.cluster.servers()[self.name]
        assert (self.limit.kills, server["restarts"]) == (0, 0)
        assert limits.peak(server["pid"]) < self.limit.size
        (opa,) = self.cluster.opas()
        assert limits.peak(opa.pid) < limits.deployed(SETTINGS)["opa"]


@contextmanager
def confined(cluster: EmbeddedCluster) -> Iterator[Confined]:
    """The cluster's sidecar, started anew within its memory, with Ingresses to replicate."""
    (replica,) = cluster._replicas()
    argv, environment = cluster._remembered(f"{replica.sidecar}-started")
    cluster.stop_server(replica.sidecar)
    limit = MemoryLimit("sync", limits.deployed(SETTINGS)["sync"])
    name, url = f"{replica.sidecar}-confined", f"https://{replica.sidecar_address}"
    command = limit.confined([*argv, "--replicate=networking.k8s.io/v1/ingresses"])
    try:
        cluster.start_server(
            name, command, env=environment, ready=f"{url}/health", ca=replica.ca, deadline=120.0
        )
        yield Confined(cluster, name, limit, Server(url, replica.ca, None, replica.opa))
    finally:
        if name in cluster.servers():
            cluster.stop_server(name)
        limit.close()
        cluster.start_server(
            replica.sidecar, argv, env=environment, ready=f"{url}/health", ca=replica.ca
        )


@pytest.fixture
def crowd(cluster: EmbeddedCluster) -> Iterator[Objects]:
    """A client, beside NAMESPACES large namespaces."""
    objects = cluster.objects()
    with applied(objects, RIGHTS), ThreadPoolExecutor(3) as threads:
        list(threads.map(objects.create, map(crowded, range(NAMESPACES))))
        yield objects
        list(
            threads.map(
                lambda number: objects.delete("v1", "Namespace", f"crowd-{number}", None),
                range(NAMESPACES),
            )
        )


def test_sidecar_and_opa_keep_within_their_memory_beside_large_namespaces_and_objects(
    cluster: EmbeddedCluster, crowd: Objects, opa: OpaApi
) -> None:
    for number in range(INGRESSES):
        crowd.create(ingress(f"early-{number}", PATHS))
    crowd.create(ingress("small", 1, "crowd-1"))
    with confined(cluster) as sidecar:
        until(lambda: sidecar.health()["healthy"], "it has started and loaded everything")
        sidecar.require_one_life()
        namespaces = opa.document(["kubernetes", "namespaces"]) or {}
        assert {f"crowd-{number}" for number in range(NAMESPACES)} <= namespaces.keys()
        assert list(opa.document(["kubernetes", "ingresses"]) or {}) == ["crowd-1"]
        (sentence,) = sidecar.health()["leftOut"]
        assert sentence.startswith(f"networking.k8s.io/v1/ingresses: {INGRESSES} objects (crowd-0/")
        for number in range(NAMESPACES):
            change = {"metadata": {"labels": {"agentpool": "pool2"}}}
            crowd.merge(namespace_manifest(f"crowd-{number}"), change)
        for number in range(INGRESSES):
            crowd.create(ingress(f"late-{number}", PATHS))
        crowd.create(ingress("next", 1, "crowd-1"))
        until(
            lambda: (
                set(opa.document(["kubernetes", "ingresses", "crowd-1"]) or {}) == {"small", "next"}
            ),
            "changes come while large objects are written",
        )
        until(
            lambda: f"{2 * INGRESSES} objects" in " ".join(sidecar.health()["leftOut"]),
            "it says what is left out",
        )
        last = ["kubernetes", "namespaces", f"crowd-{NAMESPACES - 1}", "metadata", "labels"]
        until(lambda: opa.document(last) == {"agentpool": "pool2"}, "all labels come")
        sidecar.require_one_life()
