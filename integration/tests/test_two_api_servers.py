"""Two API servers with one etcd: a change at one is soon known at the other."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from second_api_server import second_api_server
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.kube import api_requests, clients
from fairlead.kube.errors import Refused
from fairlead.operations import disable
from fairlead.operations.deploy import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it has a cluster of its own with two API servers")

ROUNDS = 100
_numbers = itertools.count()


@pytest.fixture(scope="module")
def first() -> Iterator[EmbeddedCluster]:
    """The cluster of the first API server, which OPA's sidecar asks."""
    # The plugin would wait until each new namespace has its account `default`, and the caches are
    # current by then.
    further = {"kube-apiserver": {"disable-admission-plugins": "ServiceAccount"}}
    with EmbeddedCluster(f"servers-{os.getpid()}") as cluster:
        cluster.start_control_plane(further=further, progress=Progress())
        deploy(cluster, PolicySet.load(Settings()), progress=Progress())
        yield cluster


@pytest.fixture(scope="module")
def servers(
    first: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Any]]:
    """A client of each of the two API servers."""
    second = tmp_path_factory.mktemp("second") / "kubeconfig"
    with second_api_server(first, second):
        yield [client.CoreV1Api(clients.connect(path)) for path in (first.kubeconfig, second)]


def make(api: Any, labels: dict[str, str]) -> str:
    """A new namespace with these labels."""
    name = f"two-servers-{next(_numbers)}"
    api.create_namespace({"metadata": {"name": name, "labels": labels}})
    return name


def outcome(api: Any, namespace: str) -> str:
    """The pool of a new pod (a dry run), "unplaced", or "asked to retry". Raises Refused for
    another refusal.
    """
    spec = {"containers": [{"name": "main", "image": "nginx:1.29"}]}
    try:
        with api_requests.explained("cannot create the pod"):
            made = api.create_namespaced_pod(
                namespace, {"metadata": {"name": "web"}, "spec": spec}, dry_run="All"
            )
    except Refused as error:
        if "retry in a moment" in error.message:
            return "asked to retry"
        raise
    return str((made.spec.node_selector or {}).get("agentpool", "unplaced"))


@pytest.mark.parametrize("here", [0, 1])
def test_a_namespace_created_with_its_label_at_one_has_no_unplaced_pod_at_the_other(
    servers: list[Any], here: int
) -> None:
    outcomes = Counter(
        outcome(servers[1 - here], make(servers[here], {"agentpool": "pool1"}))
        for _ in range(ROUNDS)
    )
    assert outcomes.keys() <= {"pool1", "asked to retry"}, outcomes
    assert outcomes["pool1"] >= ROUNDS / 2


def test_a_namespace_labelled_later_at_one_is_mapped_at_the_other_a_moment_later(
    servers: list[Any],
) -> None:
    """Until then the other API server does not ask, because of its own cache, which no webhook can
    see.
    """
    first, second = servers
    namespace = make(first, {})
    until(lambda: outcome(second, namespace) == "unplaced", what="the other knows the namespace")
    first.patch_namespace(namespace, {"metadata": {"labels": {"agentpool": "pool1"}}})
    until(lambda: outcome(second, namespace) == "pool1", what="the other knows the label")
    assert {outcome(second, namespace) for _ in range(20)} == {"pool1"}


def test_what_is_disabled_at_one_is_disabled_at_the_other_a_moment_later(
    first: EmbeddedCluster, servers: list[Any]
) -> None:
    namespace = make(servers[0], {"agentpool": "pool1"})

    def until_outcome(expected: str) -> None:
        until(
            lambda: {outcome(api, namespace) for api in servers} == {expected},
            what=f"a new pod is {expected}",
        )

    until_outcome("pool1")
    disable.disable(first, None, "a test")
    until_outcome("unplaced")
    disable.enable(first, None)
    until_outcome("pool1")
