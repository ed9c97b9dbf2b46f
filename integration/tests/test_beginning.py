"""Where only servers, rights and objects are applied, the controller makes all the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from applied import fairlead_manifest, until_settings_are_in_force
from suspension import suspended, unprobed
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.controller import beginning
from fairlead.deployment import controller, manifests, render
from fairlead.deployment.names import NAMESPACE, TLS_SECRET, TOKEN_SECRET
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import NAME, VERSION
from fairlead.operations import deploy, deployed_state, history, object_comparison
from fairlead.operations.status import status
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it stops the controller")

QUIET = Progress()
Object = dict[str, Any]


@pytest.fixture(autouse=True)
def _deployed_again(cluster: EmbeddedCluster, objects: clients.Objects) -> Iterator[None]:
    """In the end, what files say is in force."""
    yield
    objects.delete(VERSION, "Fairlead", NAME)
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)


def forget(objects: clients.Objects, cluster: EmbeddedCluster) -> None:
    """Delete what a controller makes, and the history."""
    credentials = deployed_state.credentials(objects)
    assert credentials
    policies = PolicySet.load(Settings())
    made = [
        manifest
        for manifest in manifests.render_objects(
            policies, credentials, webhook_url=cluster.webhook_url(cluster.sidecar)
        )
        if controller.makes(manifest)
    ]
    for manifest in made:
        metadata = manifest["metadata"]
        objects.delete(
            manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace")
        )
    for config_map in objects.list("v1", "ConfigMap", NAMESPACE):
        if config_map["metadata"]["name"].startswith("fairlead-"):
            objects.delete("v1", "ConfigMap", config_map["metadata"]["name"], NAMESPACE)


def test_the_controller_makes_what_nobody_has_applied(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    new_namespace: Callable[..., str],
    pod: Callable[..., Object],
) -> None:
    at = new_namespace(agentpool="pool1")

    def refused() -> str:
        with contextlib.suppress(Refused):
            objects.apply(pod(at, nodeSelector={"agentpool": "pool2"}), dry_run=True)
            return ""
        return "refused"

    old = deployed_state.credentials(objects)
    (running,) = cluster.controllers()
    with unprobed(running.url), suspended(running.pid):
        objects.apply(fairlead_manifest(contact="#ours"))
        assert not beginning.is_due(objects), "something is deployed"
        forget(objects, cluster)
        assert refused() == ""
        objects.delete(VERSION, "Fairlead", NAME)
        assert not beginning.is_due(objects), "nobody has said how"
        objects.apply(fairlead_manifest(contact="#ours"))
        assert beginning.is_due(objects)
        beginning.make(objects)
        objects.delete("v1", "Secret", TLS_SECRET, NAMESPACE)
        assert beginning.is_due(objects), "it was killed before the last Secret"
        beginning.make(objects)
        assert not beginning.is_due(objects)
    until(refused, what="policies, guards and webhooks are there")
    made = deployed_state.credentials(objects)
    assert old
    assert made
    assert (made.token != old.token, made.certificate != old.certificate) == (True, True)

    until_settings_are_in_force(objects)
    assert [entry.action for entry in history.entries(objects)] == ["deploy"]
    until(lambda: not status(cluster)["problems"], what="nothing is wrong")
    for name in (TOKEN_SECRET, TLS_SECRET):
        assert objects.get("v1", "Secret", name, NAMESPACE)
    # A tool that applies what Git has finds no difference to what the controller leaves.
    tool = clients.Objects(cluster.kubeconfig, field_manager="argocd")
    for manifest in render.render_for_objects(PolicySet.load(Settings(contact="#ours"))).objects:
        if manifest["kind"] == "Deployment":  # here, its servers are processes
            continue
        metadata = manifest["metadata"]
        live = objects.get(
            manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace")
        )
        assert live, metadata["name"]
        applied = tool.apply(manifest, dry_run=True)
        assert object_comparison.content(applied) == object_comparison.content(live)
