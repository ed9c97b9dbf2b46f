"""Creates namespaces and pods by several clients, which try again what fails, as controllers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import TypeVar

from lab.chaos.load import Client, Ledger
from lab.scale.plan import Name, Plan
from lab.scale.running import Running

CLIENTS = 8
AHEAD = 500
"""How many pods may wait for a node or for their start. With more of them, clients wait, so that
pods are created at the rate at which the slowest part of the cluster goes on."""
_LOOK = 0.05
"""Seconds between two looks whether a client may go on."""

T = TypeVar("T")


class Creation:
    """The clients at work. `created` is the number of things that exist by now. Pods of the second
    half wait until `second_half` is set.
    """

    def __init__(self, kubeconfig: Path, ledger: Ledger, stop: Event) -> None:
        self.created = 0
        self.second_half = Event()
        self._clients = [Client(kubeconfig, ledger) for _ in range(CLIENTS)]
        self._stop = stop
        self._lock = Lock()
        self._futures: list[Future[None]] = []

    @property
    def ended(self) -> bool:
        """Whether everything is created. Raises the exception that ended a client."""
        done = [future for future in self._futures if future.done()]
        for future in done:
            future.result()
        return len(done) == len(self._futures)

    def start(
        self, pool: ThreadPoolExecutor, things: Sequence[T], create: Callable[[Client, T], bool]
    ) -> None:
        """Have the clients create the things, in this order. `create` returns whether it did."""
        numbers = count()

        def work(client: Client) -> None:
            while not self._stop.is_set() and (number := next(numbers)) < len(things):
                if create(client, things[number]):
                    with self._lock:
                        self.created += 1

        self._futures = [pool.submit(work, client) for client in self._clients]


@contextmanager
def namespaces(kubeconfig: Path, ledger: Ledger, plan: Plan) -> Iterator[Creation]:
    """The clients that create the namespaces; they end with the block."""
    stop = Event()
    with _ending(stop) as pool:
        creation = Creation(kubeconfig, ledger, stop)
        names = list(plan.pools.items())
        creation.start(pool, names, lambda client, each: client.namespace(*each, stop))
        yield creation


@contextmanager
def pods(kubeconfig: Path, ledger: Ledger, plan: Plan, running: Running) -> Iterator[Creation]:
    """The clients that create the pods; they end with the block."""
    stop = Event()
    half = len(plan.pods) // 2

    def has_to_wait() -> bool:
        if creation.created >= half and not creation.second_half.is_set():
            return True
        return creation.created - len(running.since) >= AHEAD

    def create(client: Client, pod: Name) -> bool:
        while has_to_wait():
            if stop.wait(_LOOK):
                return False
        return client.pod(*pod, "plain", {}, stop)

    with _ending(stop) as pool:
        creation = Creation(kubeconfig, ledger, stop)
        creation.start(pool, plan.pods, create)
        yield creation


@contextmanager
def _ending(stop: Event) -> Iterator[ThreadPoolExecutor]:
    """Threads for the clients, which are told to stop when the block ends."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        try:
            yield pool
        finally:
            stop.set()
