"""Other settings are deployed while pods are created: a pod that has a pool before and after is
never unplaced."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from applied import applied, namespace_manifest
from kubernetes import client
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.kube import api_requests, clients
from fairlead.kube.errors import Refused, Unreachable
from fairlead.operations.deploy import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import DecisionLogs, Pool, Replicated, Settings, Toleration
from lab.chaos import invariants

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it deploys again and again")

QUIET = Progress()
BASE = Settings()
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "both": {"agentpool": "pool1", "pool": "pool2"},
    "first": {"agentpool": "pool1"},
    "empty": {"agentpool": "", "pool": "pool2"},
    "bare": {},
}
TAINTED = Toleration(key="dedicated", value="pool1", effect="NoSchedule")
DECLARED = {"pool1": Pool(tolerations=[TAINTED]), "pool2": Pool()}
CHANGES: Mapping[str, tuple[Settings, Settings]] = {
    "namespaceLabel": (BASE, Settings(namespace_label="pool")),
    "namespaceLabel with a defaultPool": (
        Settings(default_pool="pool3"),
        Settings(default_pool="pool3", namespace_label="pool"),
    ),
    "nodeLabel": (BASE, Settings(node_label="example.com/pool")),
    "podSelector": (BASE, Settings(pod_selector="merge")),
    "defaultPool set": (BASE, Settings(default_pool="pool3")),
    "defaultPool changed": (Settings(default_pool="pool3"), Settings(default_pool="pool2")),
    "pools declared": (BASE, Settings(pools=DECLARED)),
    "pools closed to other tolerations": (
        Settings(pools=DECLARED),
        Settings(pools={**DECLARED, "pool1": Pool(tolerations=[TAINTED], allowed_tolerations=[])}),
    ),
    "enforcement": (BASE, Settings(enforcement={"node-pool": "warn"})),
    "what no pod is placed by": (
        BASE,
        Settings(
            failure_policy="Ignore",
            replicate=[Replicated(version="v1", resource="nodes", namespaced=False)],
            decision_logs=DecisionLogs(console=False),
            timeout_seconds=9,
            replicas=3,
            contact="#x",
            admins=["a"],
            pool_admins=["b"],
            api_server_ports=[6443],
        ),
    ),
    "several at once": (
        Settings(default_pool="pool3"),
        Settings(
            namespace_label="pool",
            node_label="example.com/pool",
            pools=DECLARED,
            pod_selector="merge",
        ),
    ),
}
"""Pairs of settings; the cluster changes from each to the other and back."""
RISKIEST = ("namespaceLabel", "several at once")
"""The changes that move most pods; `make test-all` makes the others, too."""
WRITERS = 2
PAUSE = 0.1
"""Seconds between two pods of a writer. Two cores have to run the deployment, too."""
NAMES = r"web-\d+"
"""The variable parts of refusals."""
ENOUGH = 5
"""The number of admitted pods of each namespace and phase to wait for."""


@dataclass
class Phase:
    """The outcomes of the pods that were created during a phase. `legal` are the settings that may
    decide on them.
    """

    name: str
    legal: tuple[Settings, ...]
    outcomes: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in NAMESPACES}
    )

    def judge(self, namespace: str, pod: Mapping[str, Any]) -> None:
        """Check an admitted pod."""
        wrong = [invariants.wrong(pod, pool_of(namespace, s), {}, s) for s in self.legal]
        self.outcomes[namespace]["admitted" if None in wrong else f"admitted {wrong[0]}"] += 1


def pool_of(namespace: str, settings: Settings) -> str | None:
    return NAMESPACES[namespace].get(settings.namespace_label, settings.default_pool) or None


def mapped(settings: Settings) -> set[str]:
    return {name for name in NAMESPACES if pool_of(name, settings)}


class Writers:
    """Create pods in every namespace continuously; `phase` says which outcomes are legal."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.phase = Phase("none", (BASE,))
        self._core = client.CoreV1Api(clients.connect(cluster.kubeconfig))

    @contextmanager
    def working(self) -> Iterator[None]:
        stop = Event()
        with ThreadPoolExecutor(WRITERS) as several:
            futures = [several.submit(self._work, stop) for _ in range(WRITERS)]
            try:
                yield
            finally:
                stop.set()
            for future in futures:
                future.result()

    def _work(self, stop: Event) -> None:
        for number in itertools.count():
            for namespace in NAMESPACES:
                if stop.wait(PAUSE):
                    return
                self._create(namespace, f"web-{number}")

    def _create(self, namespace: str, name: str) -> None:
        """Create a pod by a dry run, which passes the whole admission."""
        phase = self.phase
        spec = {"containers": [{"name": "main", "image": "nginx:1.29"}]}
        pod: Any = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        try:
            with api_requests.explained("cannot create the pod"):
                made = self._core.create_namespaced_pod(namespace, pod, dry_run="All")
        except Refused as error:
            phase.outcomes[namespace][f"refused: {re.sub(NAMES, '', error.message)}"] += 1
        except Unreachable as error:  # of a machine that is too busy to answer
            phase.outcomes[namespace][f"no answer: {type(error.__cause__).__name__}"] += 1
        else:
            phase.judge(namespace, self._core.api_client.sanitize_for_serialization(made))


@pytest.fixture(scope="module")
def changing(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster with two OPAs, so that during a deployment they decide by different settings."""
    objects = cluster.objects()
    with applied(
        objects, [namespace_manifest(name, **labels) for name, labels in NAMESPACES.items()]
    ):
        for name in NAMESPACES:
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            }
            objects.apply(account)
        yield cluster
    deploy(cluster, PolicySet.load(BASE), progress=QUIET)


@pytest.fixture(scope="module")
def writers(changing: EmbeddedCluster) -> Iterator[Writers]:
    started = Writers(changing)
    with started.working():
        yield started


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change, marks=[] if change in RISKIEST else [pytest.mark.lab])
        for change in CHANGES
    ],
)
def test_no_pod_of_a_namespace_with_a_pool_either_way_has_none(
    changing: EmbeddedCluster, writers: Writers, change: str
) -> None:
    first, second = CHANGES[change]
    deploy(changing, PolicySet.load(first), progress=QUIET)
    for old, new in ((first, second), (second, first)):
        phases = [Phase("before", (old,)), Phase("during", (old, new)), Phase("after", (new,))]
        judged = (mapped(old) & mapped(new)) | (NAMESPACES.keys() - mapped(old) - mapped(new))
        for phase in phases:
            writers.phase = phase
            if phase.name == "during":
                deploy(changing, PolicySet.load(new), progress=QUIET)
            else:
                enough(phase, judged)
        for phase in phases:
            for namespace in judged:
                outcomes = phase.outcomes[namespace]
                wrong = [what for what in outcomes if what.startswith("admitted ")]
                assert wrong == [], f"{phase.name} in namespace {namespace}: {outcomes}"
                assert outcomes["admitted"], f"{phase.name} in namespace {namespace}: {outcomes}"
                if old.namespace_label != new.namespace_label:
                    # Policies that ask for another label come once every sidecar replicates it:
                    # nobody has to retry.
                    unknown = [
                        what for what in outcomes if "is not known to the policy yet" in what
                    ]
                    assert unknown == [], f"{phase.name} in namespace {namespace}: {outcomes}"


def enough(phase: Phase, namespaces: set[str]) -> None:
    until(
        lambda: all(phase.outcomes[name]["admitted"] >= ENOUGH for name in namespaces),
        what=f"pods are admitted in {', '.join(sorted(namespaces))} {phase.name}",
    )
