"""The load of chaos: clients that create pods and namespaces, and record the outcome of each
attempt."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.parse import quote

from fairlead.common import waiting
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Unreachable
from fairlead.settings.models import Settings
from lab.chaos import invariants
from lab.chaos.invariants import Attempt, Spec

IDLE = "nobody"
"""The scheduler name of most pods. There is no such scheduler: the pods are checked after
admission, and running them would cost the most."""
# Never pull: on a real node it does not matter whether the image is available.
_CONTAINERS = [{"name": "main", "image": "nginx:1.29", "imagePullPolicy": "Never"}]
_TIMEOUT = (3.0, 20.0)
PAUSE = 0.1
"""Seconds between two creates of one client. Two cores sustain eight clients at this pace, besides
everything else."""
_RETRY = 0.2
"""Seconds before a failed create is tried again."""
_KEEP = 40
"""The number of pods in a namespace at which all of them are checked and removed."""


@dataclass
class Ledger:
    """The record of all clients. Safe for threads."""

    settings: Settings
    attempts: list[Attempt] = field(default_factory=list)
    pools: dict[str, str | None] = field(default_factory=dict)
    """Every namespace that was created, with its pool."""
    wrong: dict[str, str] = field(default_factory=dict)
    """Pods that violate an invariant, `namespace/name` -> reason."""
    pods: set[str] = field(default_factory=set)
    """The uids of all pods that were checked."""
    _asked: dict[tuple[str, str], Spec] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def more(self, count: int, deadline: float) -> None:
        """Wait until `count` more creates have ended. Raises FairleadError after `deadline`
        seconds.
        """
        enough = len(self.attempts) + count
        waiting.until(
            lambda: len(self.attempts) >= enough, deadline=deadline, what="the clients continue"
        )

    def ask(self, namespace: str, pod: str, spec: Spec) -> None:
        """Record the spec of a pod before it is created."""
        self._asked[namespace, pod] = spec

    def check(self, pod: Mapping[str, Any]) -> None:
        """Check a pod as the API server returned it."""
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        if namespace not in self.pools:
            return  # not created by this run
        why = invariants.wrong(
            pod, self.pools[namespace], self._asked.get((namespace, name)), self.settings
        )
        with self._lock:
            self.pods.add(metadata["uid"])
            if why:
                self.wrong[f"{namespace}/{name}"] = why


class Client:
    """One client, for one thread, with the administrator's rights."""

    def __init__(self, kubeconfig: Path, ledger: Ledger) -> None:
        self._api = Objects(kubeconfig, timeout=_TIMEOUT)
        self.ledger = ledger

    def namespace(self, name: str, pool: str | None, stop: Event) -> bool:
        """Create a namespace and the service account that pods need, with retries; False if stopped
        before.
        """
        account = {"metadata": {"name": "default", "namespace": name}}
        where = f"namespaces/{name}/serviceaccounts"
        return self.bare_namespace(name, pool, stop) and (
            self._insist(where, account, name, "(service account)", "namespace", stop)
        )

    def bare_namespace(self, name: str, pool: str | None, stop: Event) -> bool:
        """Create only a namespace, with retries; False if stopped before."""
        label = self.ledger.settings.namespace_label
        self.ledger.pools[name] = pool
        metadata = {"name": name, "labels": {label: pool} if pool else {}}
        return self._insist(
            "namespaces", {"metadata": metadata}, name, "(namespace)", "namespace", stop
        )

    def pod(self, namespace: str, name: str, wish: str, spec: Spec, stop: Event) -> bool:
        """Create a pod, with retries until it is created or rightly refused; False if stopped
        before.
        """
        self.ledger.ask(namespace, name, spec)
        body = {"metadata": {"name": name}, "spec": {"containers": _CONTAINERS, **spec}}
        return self._insist(f"namespaces/{namespace}/pods", body, namespace, name, wish, stop)

    def clear(self, namespace: str, *, remove: bool = False) -> bool:
        """Check and remove all pods of a namespace (with `remove` the namespace, too); False if
        that fails.
        """
        path = f"namespaces/{namespace}/pods"
        now = "?gracePeriodSeconds=0"
        for method, where in (("GET", path), ("DELETE", path + now)):
            status, answer, _ = self._send(method, where)
            if status != 200:
                return False
            # Check the deleted ones, too: a pod may have been created between the two requests.
            for pod in answer.get("items", ()):
                self.ledger.check(pod)
        return not remove or self._send("DELETE", f"namespaces/{namespace}")[0] in (
            200,
            202,
            404,
            409,
        )

    def pods(self) -> list[dict[str, Any]] | None:
        """Every pod in the cluster; None if the API server does not answer."""
        pods: list[dict[str, Any]] = []
        more = ""
        while True:
            status, answer, _ = self._send("GET", f"pods?limit=500{more}")
            if status != 200:
                return None
            pods += answer["items"]
            if not answer["metadata"].get("continue"):
                return pods
            more = f"&continue={quote(answer['metadata']['continue'])}"

    def _insist(
        self, path: str, body: Mapping[str, Any], namespace: str, name: str, wish: str, stop: Event
    ) -> bool:
        while True:
            began = time.monotonic()
            status, answer, warnings = self._send("POST", path, body)
            reason = "" if status == 201 else str(answer.get("message") or "")
            attempt = Attempt(
                namespace,
                self.ledger.pools[namespace],
                name,
                wish,
                began,
                time.monotonic(),
                status,
                reason,
                warnings,
            )
            self.ledger.attempts.append(attempt)
            if status == 201 and path.endswith("/pods"):
                self.ledger.check(answer)
            if attempt.outcome in ("created", "there already"):
                return True
            if attempt.outcome == "refused" and wish == "evading":
                return True
            if stop.wait(_RETRY):
                return False

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, dict[str, Any], tuple[str, ...]]:
        """(HTTP status, the object, warnings). Without an answer, the status is 0, and the object
        has the reason as its message.
        """
        try:
            response = self._api.request(method, f"/api/v1/{path}", body)
            return response.status, response.body, response.warnings
        except Unreachable as error:
            return 0, {"message": _root(error)}, ()


@contextmanager
def working(
    kubeconfig: Path, ledger: Ledger, count: int, *, seed: int = 0, pause: float = PAUSE
) -> Iterator[None]:
    """Run `count` clients during the block. Raises the exception that ended one of them, if any."""
    stop = Event()
    clients = [Client(kubeconfig, ledger) for _ in range(count)]
    with ThreadPoolExecutor(count) as several:
        futures = [
            several.submit(work, client, n, seed, pause, stop) for n, client in enumerate(clients)
        ]
        try:
            yield
        finally:
            stop.set()
        for future in futures:
            future.result()


def work(client: Client, number: int, seed: int, pause: float, stop: Event) -> None:
    """Run the client `number` until `stop` is set: one create every `pause` seconds, or less often
    if creates take longer.
    """
    chance = random.Random(f"client {seed} {number}")  # noqa: S311 - to be repeatable is the point
    pools = [*client.ledger.settings.pools, None]
    steady = [(f"chaos-{number}-{pool or 'free'}", pool) for pool in pools]
    fresh: list[str] = []
    counts = dict.fromkeys((name for name, _ in steady), 0)
    for name, pool in steady:
        if not client.namespace(name, pool, stop):
            return
    count = 0
    while not stop.is_set():
        began = time.monotonic()
        count += 1
        if chance.random() < 0.05:
            pool = chance.choice(pools)
            fresh.append(f"fresh-{number}-{count}")
            if client.namespace(fresh[-1], pool, stop):
                client.pod(fresh[-1], "first", "first", {}, stop)
            if len(fresh) > _KEEP and client.clear(fresh[0], remove=True):
                fresh.pop(0)
        else:
            name, pool = chance.choice(steady)
            wish, spec = _wish(chance, pool, client.ledger.settings)
            client.pod(name, f"pod-{count}", wish, {**spec, "schedulerName": IDLE}, stop)
            counts[name] += 1
            if counts[name] >= _KEEP and client.clear(name):
                counts[name] = 0
        stop.wait(max(0.0, began + pause - time.monotonic()))


def _wish(chance: random.Random, pool: str | None, settings: Settings) -> tuple[str, Spec]:
    """A random pod spec: mostly without a nodeSelector, sometimes with the pool's own, sometimes
    with another one.
    """
    draw = chance.random()
    elsewhere: Spec = {"nodeSelector": {"disk": "ssd"}}
    if pool is None:
        return ("own", elsewhere) if draw < 0.2 else ("plain", {})
    if draw < 0.1:
        return "evading", elsewhere
    if draw < 0.2:
        return "own", {"nodeSelector": dict(settings.assignment(pool).node_selector)}
    return "plain", {}


def _root(error: BaseException) -> str:
    """The first error of a chain of errors, so that failures with the same cause are grouped."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {error}"
