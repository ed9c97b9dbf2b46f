"""Follows how many pods of a Deployment are ready in all members together, by each event of their
API servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError

_SECONDS = 600


class Watched:
    """The ready and the wanted pods of all members together, after each event."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.wanted: list[int] = []
        self._counts: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def take(self, cluster: str, ready: int, wanted: int) -> None:
        """Take one event of a cluster."""
        with self._lock:
            self._counts[cluster] = (ready, wanted)
            self.ready.append(sum(ready for ready, _ in self._counts.values()))
            self.wanted.append(sum(wanted for _, wanted in self._counts.values()))


@contextmanager
def watched(clusters: Mapping[str, EmbeddedCluster], namespace: str) -> Iterator[Watched]:
    """Follow the Deployments of the namespace while the block runs."""
    counts = Watched()
    with ExitStack() as stack:
        for name, cluster in clusters.items():
            stack.enter_context(_following(counts, name, cluster.kubeconfig, namespace))
        yield counts


@contextmanager
def _following(counts: Watched, cluster: str, kubeconfig: Path, namespace: str) -> Iterator[None]:
    api = Objects(kubeconfig)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    opened, ended = threading.Event(), threading.Event()
    since = ""

    def read(version: str) -> None:
        nonlocal since
        since = version

    for live in api.collection(path, {}, metadata_only=False, version=read):
        _take(counts, cluster, "ADDED", live)

    def follow() -> None:
        try:
            for kind, live in api.events(
                path, {}, since, metadata_only=False, seconds=_SECONDS, on_open=opened.set
            ):
                if ended.is_set():
                    return
                if kind != "BOOKMARK":
                    _take(counts, cluster, kind, live)
        except ApiServerError:
            return  # the member is gone, which is what some tests are about

    threading.Thread(target=follow, daemon=True).start()
    until(opened.is_set, what=f"{cluster} is watched")
    try:
        yield
    finally:
        ended.set()


def _take(counts: Watched, cluster: str, kind: str, live: Mapping[str, dict[str, int]]) -> None:
    gone = kind == "DELETED"
    counts.take(
        cluster,
        0 if gone else (live.get("status") or {}).get("availableReplicas", 0),
        0 if gone else live["spec"]["replicas"],
    )
