"""Measures what each engine adds to a request and to a cluster; writes bench/engines.json, from
which `make generate` makes the table in docs/engines.md.

These are figures, not tests: a busy machine has worse ones. Each engine has an embedded cluster of
its own. All of them run at the same time, and get the same requests in turn, so that what else the
machine does concerns all alike. The floor is a cluster without any policy.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from fairlead.cli import output
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.engines.kyverno import manifests
from fairlead.engines.live import clusters
from fairlead.engines.live.worlds import create
from fairlead.kube.api_paths import path_of
from fairlead.operations import up
from fairlead.policy import bundles
from fairlead.settings.models import IntentSettings, Pool, Settings
from fairlead.verification import costs
from lab.bench import processes
from lab.engines.gatekeeper import GatekeeperEngine, in_force
from lab.engines.gatekeeper import controller as gatekeeper
from lab.engines.kyverno import KyvernoEngine
from lab.engines.kyverno import controller as kyverno

FLOOR = "no policy"
NAMESPACE = "measured"
_DEADLINE = 120.0
"""Seconds within which an engine enforces the policies."""
_DRY_RUN = {"dryRun": "All"}
_CONTAINER = {
    "name": "app",
    "image": "registry.example.com/app:1.2.3",
    "env": [{"name": name, "value": "x"} for name in ("REGION", "STAGE", "LOG_LEVEL")],
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
}
SETTINGS = Settings(
    pools={"pool1": Pool(), "pool2": Pool()},
    intents={
        "image-sources": IntentSettings(parameters={"sources": ["registry.example.com"]}),
        "replica-limits": IntentSettings(
            parameters={"ranges": [{"min_replicas": 3, "max_replicas": 10}]}
        ),
    },
)
Row = dict[str, Any]


@dataclass
class Peer:
    """A cluster with an engine. `groups` are those of the user who sends the requests."""

    name: str
    cluster: BareCluster
    groups: tuple[str, ...] = ()
    milliseconds: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.api = clusters.api(self.cluster)

    def send(self, manifest: dict[str, Any]) -> bool:
        """Whether the API server would create the object."""
        user = {"username": "alice", "groups": list(self.groups)}
        path = path_of(manifest, NAMESPACE)
        return self.api.request("POST", path, manifest, query=_DRY_RUN, user=user).ok

    def memory(self) -> dict[str, int]:
        """The memory of each server of the cluster in MiB."""
        return {
            name: processes.memory(server["pid"])
            for name, server in self.cluster.servers().items()
            if server["pid"] is not None
        }


def requests() -> dict[str, dict[str, Any]]:
    """What is measured: a pod that gets its nodeSelector, one that is refused, and a Deployment
    that two intents look at.
    """
    spec = {"containers": [_CONTAINER]}
    template = {"metadata": {"labels": {"app": "app"}}, "spec": spec}
    deployment = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "app"}},
        "template": template,
    }
    return {
        "pod, placed": _manifest("v1", "Pod", spec),
        "pod, refused": _manifest("v1", "Pod", {**spec, "nodeName": "node"}),
        "deployment": _manifest("apps/v1", "Deployment", deployment),
    }


def _manifest(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "app"}, "spec": spec}


@contextmanager
def floor(progress: Progress) -> Iterator[Peer]:
    """A cluster without policies."""
    with clusters.bare(progress) as cluster:
        yield Peer(FLOOR, cluster)


def deployed(engine: str) -> Callable[[Progress], AbstractContextManager[Peer]]:
    """A cluster in which `fairlead deploy` has put the engine in force."""

    @contextmanager
    def started(progress: Progress) -> Iterator[Peer]:
        with up.started(
            f"bench-{engine}", SETTINGS, {"pool1": 1}, engine=engine, progress=progress
        ) as cluster:
            yield Peer(engine, cluster)

    return started


@contextmanager
def with_gatekeeper(progress: Progress) -> Iterator[Peer]:
    """A cluster with Gatekeeper."""
    with clusters.bare(progress) as cluster:
        api = clusters.api(cluster)
        gatekeeper.serve_definitions(api, progress)
        gatekeeper.start(cluster, api, progress)
        in_force.InForce(api).put(GatekeeperEngine().render(_active(), SETTINGS))
        yield Peer("gatekeeper", cluster, (gatekeeper.GROUP,))


@contextmanager
def with_kyverno(progress: Progress) -> Iterator[Peer]:
    """A cluster with Kyverno."""
    with kyverno.running(progress) as cluster:
        api = clusters.api(cluster)
        for policy in KyvernoEngine().render(_active(), SETTINGS):
            create(api, manifests.path(policy), policy)
        yield Peer("kyverno", cluster)


def _active() -> list[Any]:
    return bundles.bundle(SETTINGS).active(SETTINGS)


PEERS: dict[str, Callable[[Progress], AbstractContextManager[Peer]]] = {
    FLOOR: floor,
    "opa": deployed("opa"),
    "cel": deployed("cel"),
    "python": deployed("python"),
    "gatekeeper": with_gatekeeper,
    "kyverno": with_kyverno,
}


def prepare(peer: Peer) -> None:
    """Create the namespace, and wait until the engine enforces the policies."""
    namespace = {"metadata": {"name": NAMESPACE, "labels": {"agentpool": "pool1"}}}
    peer.api.request("POST", "/api/v1/namespaces", namespace)
    account = {"metadata": {"name": "default"}}
    peer.api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    placed, refused, deployment = requests().values()
    few = {**deployment, "spec": {**deployment["spec"], "replicas": 1}}

    def enforced() -> bool:
        if not (peer.send(placed) and peer.send(deployment)):
            return False
        return peer.name == FLOOR or not (peer.send(refused) or peer.send(few))

    waiting.until(enforced, deadline=_DEADLINE, what=f"{peer.name} enforces the policies")


def measure(peers: Sequence[Peer], rounds: int, progress: Progress) -> None:
    """Send each request to each peer in turn."""
    for number in range(rounds):
        progress.update("requests", "sending", done=number, total=rounds)
        for what, manifest in requests().items():
            for peer in peers:
                began = time.perf_counter()
                admitted = peer.send(manifest)
                took = (time.perf_counter() - began) * 1000
                peer.milliseconds.setdefault(what, []).append(took)
                if admitted != (what != "pod, refused" or peer.name == FLOOR):
                    raise click.ClickException(f"{peer.name}: wrong answer for {what}")


def rows(peers: Sequence[Peer]) -> list[Row]:
    """A row for each engine: milliseconds for each request, its ratio to the floor, and memory."""
    (base,) = (peer for peer in peers if peer.name == FLOOR)
    own = base.memory()
    made = []
    for peer in peers:
        memory = peer.memory()
        further = [size for name, size in memory.items() if name not in own]
        row: Row = {"engine": peer.name, "requests": len(peer.milliseconds["deployment"])}
        for what, values in peer.milliseconds.items():
            median = statistics.median(values)
            row[what] = {
                "p50": round(median, 1),
                "p99": round(statistics.quantiles(values, n=100)[98], 1),
                "timesFloor": round(median / statistics.median(base.milliseconds[what]), 1),
            }
        row["memoryOfEngine"] = sum(further)
        row["memoryOfApiServer"] = memory["kube-apiserver"]
        made.append(row)
    return made


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=300, show_default=True)
@click.option("--engine", "names", multiple=True, type=click.Choice(list(PEERS)[1:]))
def main(rounds: int, names: tuple[str, ...]) -> None:
    """Measure what each engine costs a request and a cluster; write bench/engines.json."""
    chosen = [FLOOR, *(names or list(PEERS)[1:])]
    with output.progress() as progress, ExitStack() as running:
        peers = [running.enter_context(PEERS[name](progress)) for name in chosen]
        for peer in peers:
            prepare(peer)
        measure(peers, min(20, rounds), Progress())  # fills caches
        for peer in peers:
            peer.milliseconds.clear()
        measure(peers, rounds, progress)
        made = rows(peers)
    costs.file().write_text(json.dumps(made, indent=1) + "\n")
    output.console().print(costs.table(made), markup=False)


if __name__ == "__main__":
    main()
