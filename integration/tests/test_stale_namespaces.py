"""A namespace that OPA still holds without a pool, although it has got one: its pods are placed or
refused."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import suspension
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.operations import decision_logs, deploy, deployed_state
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded("it sets a default pool, and stops the sidecar")

RETRY = "is not known to the policy yet: retry in a moment"
ROUNDS = 60
TRANSITIONS = {"to a pool": "pool1", "to no label": None}
"""The new values of an empty label, and the resulting pool: the label's, or the default."""
DEFAULT = "pool2"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def defaulted(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster in which every namespace has a pool, except those with an empty label."""
    deploy.deploy(cluster, PolicySet.load(Settings(default_pool=DEFAULT)), progress=Progress())
    yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


@pytest.fixture(scope="module")
def api(defaulted: EmbeddedCluster) -> clients.Objects:
    return defaulted.objects()


@pytest.fixture(scope="module")
def held(defaulted: EmbeddedCluster, api: clients.Objects) -> Callable[[str], Any]:
    """OPA's data about a namespace."""
    credentials, (server, *_) = deployed_state.credentials(api), defaulted.opas()
    assert credentials
    opa = OpaApi(server.url, ca=server.ca, token=credentials.token)
    return lambda name: opa.document(["kubernetes", "namespaces", name])


def label(api: clients.Objects, name: str, pool: str | None) -> None:
    labels = {} if pool is None else {"agentpool": pool}
    api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )


def empty(api: clients.Objects, held: Callable[[str], Any], name: str) -> None:
    """Give the namespace an empty label, which takes it out of every pool, and wait until OPA and
    the API server know.

    The API server does once it does not ask: a pod is left as it is.
    """
    label(api, name, "")
    until(
        lambda: (held(name) or {}).get("metadata", {}).get("labels") == {"agentpool": ""},
        what="OPA has the empty label",
    )
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": name},
    }
    api.apply(account)


def outcome(api: clients.Objects, pod: dict[str, Any]) -> str:
    """The pool of a new pod, "unplaced", or the message of a refusal."""
    try:
        made = api.create(pod)
    except Refused as error:
        return "asked to retry" if RETRY in error.message else error.message
    return str((made["spec"].get("nodeSelector") or {}).get("agentpool", "unplaced"))


@contextmanager
def hung(cluster: EmbeddedCluster) -> Iterator[None]:
    """Suspend the cluster's sidecar during the block, and its probe, which would restart it."""
    (sidecar,) = cluster.sidecars()
    with suspension.unprobed(f"{sidecar.url}/live"), suspension.suspended(sidecar.pid):
        yield


@pytest.mark.parametrize("pool", TRANSITIONS.values(), ids=TRANSITIONS)
def test_a_pod_right_after_the_label_changed_is_placed_or_refused(
    defaulted: EmbeddedCluster,
    api: clients.Objects,
    held: Callable[[str], Any],
    pod: Callable[..., Any],
    pool: str | None,
) -> None:
    outcomes: dict[str, str] = {}
    for number in range(ROUNDS):
        name = f"stale-{next(_numbers)}"
        empty(api, held, name)
        label(api, name, pool)
        outcomes[name] = outcome(api, pod(name, f"p{number}"))
    results = Counter(outcomes.values())
    assert results.keys() <= {pool or DEFAULT, "asked to retry", "unplaced"}, results
    assert results[pool or DEFAULT] >= ROUNDS / 2
    # The API server has a copy of the labels, too. A busy one may not know yet that it has to ask.
    *_, placed = [name for name, result in outcomes.items() if result == (pool or DEFAULT)]
    until(lambda: placed in asked_about(defaulted), what="OPA has written its log")
    unplaced = {name for name, result in outcomes.items() if result == "unplaced"}
    assert not unplaced & asked_about(defaulted)


def asked_about(cluster: EmbeddedCluster) -> set[str]:
    """The namespaces about whose objects OPA was asked."""
    entries = decision_logs.decisions(cluster, decision_logs.Selection())
    requests = [(entry.get("input") or {}).get("request") or {} for entry in entries]
    return {str(request.get("namespace")) for request in requests}


@pytest.mark.parametrize(
    "spec", [{}, {"nodeName": "pool1-0"}], ids=["plain", "on a node of its own choice"]
)
@pytest.mark.parametrize("pool", TRANSITIONS.values(), ids=TRANSITIONS)
def test_while_the_sidecar_hangs_it_is_refused_and_placed_afterwards(
    defaulted: EmbeddedCluster,
    api: clients.Objects,
    held: Callable[[str], Any],
    pod: Callable[..., Any],
    pool: str | None,
    spec: dict[str, Any],
) -> None:
    name = f"stale-{next(_numbers)}"
    empty(api, held, name)
    with hung(defaulted):
        label(api, name, pool)
        # of 2 s each
        outcomes = [outcome(api, pod(name, f"p{number}", **spec)) for number in range(2)]
    assert outcomes == ["asked to retry"] * 2
    until(lambda: outcome(api, pod(name)) == (pool or DEFAULT), what="pods are placed again")


def test_one_that_lost_its_pool_is_looked_up_and_left_alone(
    defaulted: EmbeddedCluster, api: clients.Objects, held: Callable[[str], Any]
) -> None:
    """An API server still asks until it notices the change; here the test asks."""
    name = f"stale-{next(_numbers)}"
    empty(api, held, name)
    server, *_ = defaulted.opas()
    opa = OpaApi(server.url, ca=server.ca)
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": name,
            "object": {"metadata": {"name": "web"}, "spec": {"nodeName": "pool1-0"}},
        },
    }
    assert opa.decide(review)["response"]["allowed"] is True
    with hung(defaulted):
        assert RETRY in opa.decide(review)["response"]["status"]["message"]
    opa.close()
