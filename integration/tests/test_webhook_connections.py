"""API servers keep their connections to OPA, and stop using an OPA that ends before it closes
them.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairlead.clusters import webhook_connections
from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.manifests import render_objects
from fairlead.kube import clients
from fairlead.opa import containers
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["processes"]

SEEN = 30.0
"""Seconds until the API server notices a changed webhook."""


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS)
def test_a_pod_answers_on_for_longer_than_api_servers_keep_connections(sidecar: str) -> None:
    settings = Settings()
    objects = render_objects(
        PolicySet.load(settings), Credentials.fresh(), sidecar=sidecars.SIDECARS[sidecar]
    )
    (deployment,) = [
        each
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "opa")
    ]
    spec = deployment["spec"]["template"]["spec"]
    sleeps = {
        each["name"]: each["lifecycle"]["preStop"]["sleep"]["seconds"]
        for each in spec["containers"]
    }
    assert min(sleeps.values()) >= containers.DRAIN > 90
    if sidecar == "sync":  # OPA asks it until it ends
        assert sleeps["opa"] < sleeps[sidecar]
    elif sidecar == "kube-mgmt":  # it would report an OPA that ends before it
        assert sleeps[sidecar] < sleeps["opa"]
    # OPA and the server end open requests for up to 10 s
    assert spec["terminationGracePeriodSeconds"] >= sleeps.get("opa", sleeps[sidecar]) + 10 + 5
    assert spec["terminationGracePeriodSeconds"] > sleeps[sidecar]


@pytest.mark.embedded("it looks into the API server's process")
def test_an_api_server_asks_by_new_connections_once_they_are_renewed(
    cluster: Cluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., Any],
    settings: Settings,
) -> None:
    at = namespace(agentpool="pool1")

    def asked() -> set[int]:
        """The local ports of the API server's connections to OPA after a request."""
        created = objects.apply(pod(at), dry_run=True)
        assert created["spec"]["nodeSelector"] == {"agentpool": "pool1"}
        return connected(cluster, "kube-apiserver", str(cluster.webhook_url(cluster.sidecar)))

    before = asked()
    assert asked() == before
    moment = datetime.now(UTC)
    assert webhook_connections.since(objects) < moment
    webhook_connections.renew(objects, moment)
    assert webhook_connections.since(objects) == moment
    waiting.until(lambda: asked() - before, deadline=SEEN, what="it connects again")
    after = ca_bundles(objects)
    assert all(b"# connections since " in bundle for bundle in after)
    deploy.deploy(cluster, PolicySet.load(settings), progress=Progress())
    assert ca_bundles(objects) == after, "a deployment brings back the connections of before"


@pytest.mark.embedded("it looks into the process of the API server")
def test_requests_open_no_new_connections(
    cluster: Cluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., Any],
) -> None:
    at = namespace(agentpool="pool1")

    def asked() -> set[int]:
        """The local ports of the connections to OPA after a request."""
        created = objects.apply(pod(at))
        assert created["spec"]["nodeSelector"] == {"agentpool": "pool1"}
        return connected(cluster, "kube-apiserver", str(cluster.webhook_url(cluster.sidecar)))

    def are_kept() -> bool:
        """Whether ten more requests use the same connections, which they do not if a probe asks at
        the same moment.
        """
        first = asked()
        return bool(first) and all(asked() == first for _ in range(10))

    waiting.until(
        are_kept, deadline=SEEN, what="ten requests use the connections of the one before"
    )


def ca_bundles(objects: clients.Objects) -> list[bytes]:
    configuration = (
        objects.get("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "fairlead")
        or {}
    )
    return [b64decode(webhook["clientConfig"]["caBundle"]) for webhook in configuration["webhooks"]]


def connected(cluster: Cluster, server: str, url: str) -> set[int]:
    """The local ports of the server's connections to this URL. Source: proc(5), /proc/net/tcp."""
    pid = cluster.servers()[server]["pid"]
    inodes = {
        link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()
    }
    port = urlsplit(url).port
    ports = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *rest = line.split()
        if (
            state == "01"
            and int(remote.rpartition(":")[2], 16) == port
            and f"socket:[{rest[5]}]" in inodes
        ):
            ports.add(int(local.rpartition(":")[2], 16))
    return ports
