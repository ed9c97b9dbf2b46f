"""A real API server that asks `fairlead serve`, by the webhooks of a deployment."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from waits import until

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from fairlead.policy import fairlead_yaml
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it has a cluster of its own, without OPA")

SETTINGS = """\
contact: '#platform'
intents:
  replica-limits: {parameters: {ranges: [{min_replicas: 3, max_replicas: 10}]}}
"""
CONTAINERS = [{"name": "main", "image": "example.com/none"}]
_DRY_RUN = {"dryRun": "All"}


@dataclass
class World:
    """An API server, and the process that it asks."""

    rest: Objects
    server: subprocess.Popen[bytes]

    def namespace(self, name: str, **labels: str) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        assert self.rest.request("POST", path_of(manifest, None), manifest).ok
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.rest.request("POST", path_of(account, name), account)

    def create(self, manifest: dict[str, Any], namespace: str, *, dry: bool = True) -> Response:
        query = _DRY_RUN if dry else {}
        return self.rest.request("POST", path_of(manifest, namespace), manifest, query=query)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster whose webhooks call `fairlead serve`."""
    folder = tmp_path_factory.mktemp("python-webhook")
    with BareCluster(f"python-{os.getpid()}") as cluster:
        cluster.start_control_plane(workloads=False, progress=Progress())
        settings = folder / "fairlead.yaml"
        settings.write_text(SETTINGS)
        credentials = Credentials.fresh()
        (port,) = ports.free_ports(1)
        process = serve(folder, credentials, cluster.kubeconfig, port)
        try:
            url = f"https://127.0.0.1:{port}/"
            until(
                functools.partial(ready, process, f"{url}health/ready", folder / "ca.crt"),
                what="the server is ready",
            )
            register(cluster, fairlead_yaml.load(settings), credentials, url)
            world = World(Objects(cluster.kubeconfig), process)
            world.namespace("payments", agentpool="pool1")
            until(
                lambda: (
                    world.create(pod(nodeName="n1"), "payments").denied
                    and world.create(workload("Deployment", 1), "payments").denied
                ),
                what="the API server asks the server",
            )
            yield world
        finally:
            process.terminate()
            process.wait(30)


def serve(
    folder: Path, credentials: Credentials, kubeconfig: Path, port: int
) -> subprocess.Popen[bytes]:
    """Start `fairlead serve`."""
    for name, content in credentials.tls.files.items():
        (folder / name).write_bytes(content)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "fairlead", "serve"),
            f"--settings={folder / 'fairlead.yaml'}",
            f"--kubeconfig={kubeconfig}",
            f"--listen=127.0.0.1:{port}",
            f"--tls-cert-file={folder / 'tls.crt'}",
            f"--tls-private-key-file={folder / 'tls.key'}",
            "--workers=1",
        ]
    )


def ready(process: subprocess.Popen[bytes], url: str, ca: Path) -> bool:
    assert process.poll() is None
    try:
        return requests.get(url, verify=str(ca), timeout=5).ok
    except requests.RequestException:
        return False


def register(cluster: BareCluster, settings: Settings, credentials: Credentials, url: str) -> None:
    """Apply the webhooks of a deployment, so that they call `url`."""
    rendered = manifests.render_objects(PolicySet.load(settings), credentials, webhook_url=url)
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    for manifest in rendered:
        if manifest["kind"] in kinds:
            cluster.objects().apply(manifest)


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": CONTAINERS, **spec},
    }


def workload(kind: str, replicas: int | None, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS, **spec}}
    scaled = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **scaled},
    }


def test_a_pod_gets_its_pool(world: World) -> None:
    answer = world.create(pod(), "payments")
    assert answer.ok, answer.message
    assert answer.body["spec"]["nodeSelector"] == {"agentpool": "pool1"}


def test_a_pod_that_evades_its_pool_is_refused(world: World) -> None:
    answer = world.create(pod(nodeSelector={"agentpool": "pool2"}), "payments")
    assert answer.status == 403
    assert 'places its pods in pool "pool1"' in answer.message
    assert answer.message.endswith("(ask #platform)")


def test_a_template_gets_a_warning_and_a_daemon_set_its_pool(world: World) -> None:
    answer = world.create(workload("Deployment", 3, nodeName="n1"), "payments")
    assert answer.ok
    assert any("its template sets spec.nodeName=n1" in text for text in answer.warnings)
    answer = world.create(workload("DaemonSet", None), "payments")
    assert answer.body["spec"]["template"]["spec"]["nodeSelector"] == {"agentpool": "pool1"}


def test_a_pod_right_after_its_namespace_is_placed(world: World) -> None:
    for number in range(5):
        world.namespace(f"fresh-{number}", agentpool="pool2")
        answer = world.create(pod(), f"fresh-{number}")
        assert answer.ok, answer.message
        assert answer.body["spec"]["nodeSelector"] == {"agentpool": "pool2"}


def test_a_namespace_without_a_pool_is_left_alone(world: World) -> None:
    world.namespace("free")
    answer = world.create(pod(nodeSelector={"zone": "a"}), "free")
    assert answer.ok, answer.message
    assert answer.body["spec"]["nodeSelector"] == {"zone": "a"}


def test_the_number_of_replicas_is_limited_in_manifests_and_by_scaling(world: World) -> None:
    refused = world.create(workload("Deployment", 2), "payments")
    assert "replicas 2 is not within 3..10" in refused.message
    assert world.create(workload("Deployment", 3), "payments", dry=False).ok
    path = path_of(workload("Deployment", 3), "payments", "web", "scale")
    scale = world.rest.request("GET", path).body
    # Without a version, the status that a controller writes meanwhile is not a conflict.
    del scale["metadata"]["resourceVersion"]
    scale["spec"]["replicas"] = 11
    refused = world.rest.request("PUT", path, scale, query=_DRY_RUN)
    assert "replicas 11 is not within 3..10" in refused.message
