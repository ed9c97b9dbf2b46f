"""A controller that is killed at any write of a change leaves the old or the new policies in force,
and the next one ends the change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from applied import fairlead_manifest, until_settings_are_in_force
from suspension import without_controller

from fairlead.clusters.base import Server
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import NAME, VERSION
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it plays the controller")

Object = dict[str, Any]
NEVER = -1
MOST = 60
"""More writes than a change has."""
# What the controller does, once; killed before the write with this number.
REPLICA = """
import os, signal, sys
from pathlib import Path
from fairlead.controller.inside import InsideCluster
from fairlead.controller.lifecycle import Lifecycle
from fairlead.keeper import servers
from fairlead.kube.api_requests import ApiRequests

kubeconfig, ca, opas, sidecars, url, controller_url, at = sys.argv[1:]
writes, send = 0, ApiRequests._send

def counted(self, method, path, *rest, **more):
    global writes
    writes += method != "GET" and "leases" not in path
    if writes == int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    return send(self, method, path, *rest, **more)

ApiRequests._send = counted
address = lambda text: [(one.split(":")[0], int(one.split(":")[1])) for one in text.split(",")]
listed = servers.named(address(opas), address(sidecars))
inside = lambda: InsideCluster(Path(kubeconfig), Path(ca), listed, (url, controller_url))
assert Lifecycle(Path(kubeconfig), inside, replica="test").look()
"""
REGO = """# METADATA
# title: Numbered
# description: No pod has a nodeName.
package numbered

import data.review

decision := {"deny": deny, "patch": [], "warn": set()}

deny contains "number NUMBER" if {
	review.kind == ["", "Pod"]
	input.request.object.spec.nodeName
}
"""


def policy(number: int) -> Object:
    """A policy that refuses pods with this number. Its webhook changes with the number, too."""
    intent = {"requests": [{"kinds": ["v1/Pod"], "operations": ["CREATE"]}]}
    spec = {
        "rego": REGO.replace("NUMBER", str(number)),
        "intent": intent,
        "exempt": {"users": [f"user-{number}"]},
    }
    return {"apiVersion": VERSION, "kind": "Policy", "metadata": {"name": "numbered"}, "spec": spec}


@pytest.fixture(autouse=True)
def _alone(cluster: EmbeddedCluster, objects: clients.Objects) -> Iterator[None]:
    """The settings are an object, and the controller is suspended, during the test. In the end,
    what files say is in force.
    """
    objects.apply(fairlead_manifest())
    until_settings_are_in_force(objects)
    with without_controller(cluster):
        yield
        objects.delete(VERSION, "Fairlead", NAME)
        objects.delete(VERSION, "Policy", "numbered")
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


@pytest.fixture
def decided(
    objects: clients.Objects, new_namespace: Callable[..., str], pod: Callable[..., Object]
) -> Callable[[], str]:
    """Says what becomes of a pod with a nodeName, as a dry run; first that one without is
    placed.
    """
    at = new_namespace(agentpool="pool1")

    def outcome() -> str:
        mapped_pod = objects.apply(pod(at), dry_run=True)
        assert mapped_pod["spec"]["nodeSelector"] == {"agentpool": "pool1"}
        try:
            objects.apply(pod(new_namespace(), nodeName="pool1-0"), dry_run=True)
        except Refused as error:
            return str(error).rpartition(": ")[2]
        return "admitted"

    return outcome


def replica(cluster: EmbeddedCluster, at: int) -> subprocess.CompletedProcess[str]:
    """The controller, once; killed before the write with this number."""
    ca = cluster.opas()[0].ca
    urls = (str(cluster.webhook_url(cluster.sidecar)), str(cluster.controller_url()))
    places = (_addresses(cluster.opas()), _addresses(cluster.sidecars()))
    arguments = (str(cluster.kubeconfig), str(ca), *places, *urls, str(at))
    return subprocess.run(
        [sys.executable, "-c", REPLICA, *arguments], capture_output=True, text=True, check=False
    )


def _addresses(servers: Sequence[Server]) -> str:
    return ",".join(urlsplit(server.url).netloc for server in servers)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.lab)])
def test_killed_at_any_write_it_leaves_old_or_new_policies_and_the_next_one_ends_the_change(
    cluster: EmbeddedCluster, objects: clients.Objects, decided: Callable[[], str], step: int
) -> None:
    objects.apply(policy(0))
    assert replica(cluster, NEVER).returncode == 0
    assert decided() == "number 0"
    killed = 0
    for at in range(1, MOST, step):
        objects.apply(policy(at))
        done = replica(cluster, at)
        if done.returncode == 0:  # it has no such write
            break
        assert done.returncode == -9, done.stderr
        killed += 1
        assert decided() in (f"number {max(0, at - step)}", f"number {at}")
        after = replica(cluster, NEVER)
        assert after.returncode == 0, after.stderr
        assert decided() == f"number {at}"
    assert killed >= 8 // step
