"""Measures how fast Fairlead recovers from faults, and what is refused meanwhile; writes
bench/resilience.json and prints it.

These are figures, not tests: a busy machine has worse ones. Every count is a flag. `make figures`
uses the defaults, `make figures ARGS='--only kills --kills 10'` measures a part. Each figure has
its own cluster.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import click

from fairlead.cli import output
from fairlead.clusters.embedded import process_list
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths, waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.operations.up import started
from fairlead.settings.models import Pool, Settings
from lab import resync
from lab.chaos import invariants, load
from lab.chaos.changes import TAGS, Changes, variants
from lab.chaos.invariants import Attempt
from lab.chaos.report import percentile

SETTINGS = Settings(pools={"pool1": Pool(), "pool2": Pool()})
RESULTS = "bench/resilience.json"
COUNTS = {
    "clients": 8,
    "kills": 50,
    "races": 1_000,
    "pushes": 100,
    "tokens": 100,
    "certificates": 10,
    "mapped": 10_000,
    "thin": 100_000,
    "thin-mapped": 1_000,
}
"""The default counts of the flags."""
_PATIENCE = 600.0
Row = dict[str, Any]


def kills(count: int, clients: int, progress: Progress) -> list[Row]:
    """Kill the only OPA repeatedly, and measure the seconds until a pod is placed again."""
    times = []
    with _cluster("kills", 1, progress) as cluster:
        ledger, stop = load.Ledger(SETTINGS), Event()
        asking = load.Client(cluster.kubeconfig, ledger)
        asking.namespace("steady", "pool1", stop)
        with load.working(cluster.kubeconfig, ledger, clients):
            for number in range(count):
                progress.update("kills", "killing OPA", done=number, total=count)
                asking.pod(
                    "steady", f"before-{number}", "plain", {"schedulerName": load.IDLE}, stop
                )
                record = cluster.servers()["opa"]
                began = time.monotonic()
                process_list.send(record["pid"], record["started"], signal.SIGKILL)
                _again(asking, f"after-{number}")
                times.append(time.monotonic() - began)
                waiting.until(
                    resync.opa(cluster).ready, deadline=_PATIENCE, what="OPA is ready again"
                )
        unplaced = _unplaced(asking, ledger)
    return [
        row("OPA is killed: pods are placed again", count, "p50", "s", percentile(times, 50)),
        row("OPA is killed: pods are placed again", count, "p95", "s", percentile(times, 95), 3.0),
        row("OPA is killed: unplaced meanwhile", len(ledger.pods), "pods", "", unplaced, 0),
    ]


def races(count: int, clients: int, progress: Progress) -> list[Row]:
    """Create namespaces, each with a pod at the same moment."""
    with _cluster("races", 2, progress) as cluster:
        ledger, stop = load.Ledger(SETTINGS), Event()

        def work(number: int) -> None:
            client = load.Client(cluster.kubeconfig, ledger)
            for index in range(number, count, clients):
                name = f"race-{index}"
                if client.namespace(name, ("pool1", "pool2")[index % 2], stop):
                    client.pod(name, "first", "first", {"schedulerName": load.IDLE}, stop)

        progress.update("races", f"creating {count} namespaces with a pod each")
        with ThreadPoolExecutor(clients) as several:
            list(several.map(work, range(clients)))
        unplaced = _unplaced(load.Client(cluster.kubeconfig, ledger), ledger)
    what = "namespace with an immediate pod"
    return [
        row(f"{what}: unplaced", count, "pods", "", unplaced, 0),
        row(f"{what}: refused or failed", count, "pods", "", len(_lost(ledger.attempts)), 0),
    ]


def pushes(count: int, clients: int, progress: Progress) -> list[Row]:
    """Push under load, and measure the seconds from applying a push until both replicas serve
    it.
    """
    clock = _Clock()
    with _loaded("pushes", clients, progress) as (changes, ledger):
        for number in range(count):
            progress.update("pushes", "pushing", done=number, total=count)
            changes.push(TAGS[(number + 1) % 2], clock)
            ledger.more(clients, _PATIENCE)  # which no other push could have answered
    whole, current = invariants.answers(ledger.attempts, changes.pushes)
    failed = [change for change in changes.made if change.error]
    what = "push under load"
    return [
        row(f"{what}: not done", count, "pushes", "", len(failed), 0),
        row(
            f"{what}: refused or failed", whole.checked, "pods", "", len(_lost(ledger.attempts)), 0
        ),
        row(f"{what}: mixed answers", whole.checked, "answers", "", len(whole.violations), 0),
        row(
            f"{what}: old answers afterwards",
            current.checked,
            "answers",
            "",
            len(current.violations),
            0,
        ),
        row(f"{what}: effective on both replicas", count, "p50", "s", percentile(clock.times, 50)),
        row(
            f"{what}: effective on both replicas",
            count,
            "p95",
            "s",
            percentile(clock.times, 95),
            2.0,
        ),
    ]


def rotations(count: int, cas: int, clients: int, progress: Progress) -> list[Row]:
    """Rotate the token and the CA under load."""
    rows = []
    for what, times in (("token", count), ("certificate", cas)):
        with _loaded(f"{what}s", clients, progress) as (changes, ledger):
            for number in range(times):
                progress.update("rotations", f"rotating the {what}", done=number, total=times)
                changes.rotate(what)
            verdict = changes.verdict()
        done = [
            change.ended - change.began
            for change in changes.made
            if change.kind == what and not change.error
        ]
        pods = sum(attempt.is_pod and attempt.pool is not None for attempt in ledger.attempts)
        title = f"rotation of the {what} under load"
        rows += [
            row(f"{title}: not done", times, "rotations", "", times - len(done), 0),
            row(f"{title}: refused or failed", pods, "pods", "", len(_lost(ledger.attempts)), 0),
            row(
                f"{title}: old ones still valid",
                verdict.checked,
                "credentials",
                "",
                len(verdict.violations),
                0,
            ),
            row(title, times, "p95", "s", percentile(done, 95)),
        ]
    return rows


def first_sync(count: int, clients: int, progress: Progress) -> list[Row]:
    """Restart OPA and its sidecar in a cluster with many mapped namespaces."""
    with _cluster("sync", 1, progress) as cluster:
        _fill(cluster, count, count, clients, progress)
        restarted = resync.Resync(cluster)
        waiting.until(
            lambda: restarted.done(count),
            deadline=_PATIENCE,
            what="all namespaces are in OPA",
            pause=0.2,
        )
        seconds = time.monotonic() - restarted.began
        rows = [row("first sync of mapped namespaces", count, "time", "s", round(seconds, 2), 20.0)]
        for name, most in (("sync", 200), ("opa", 100)):
            size = memory(cluster.servers()[name]["pid"])
            rows.append(
                row(f"memory of {name}, mapped namespaces", count, "memory", "MB", size, most)
            )
    return rows


def thin(count: int, mapped: int, clients: int, progress: Progress) -> list[Row]:
    """Create many namespaces, a few of them mapped, and count those that OPA holds."""
    with _cluster("thin", 1, progress) as cluster:
        _fill(cluster, count, mapped, clients, progress)
        opa = resync.opa(cluster)
        waiting.until(
            lambda: resync.namespaces(opa) >= mapped,
            deadline=_PATIENCE,
            what="the mapped ones are in OPA",
        )
        held = resync.namespaces(opa)
        sizes = [(name, memory(cluster.servers()[name]["pid"])) for name in ("sync", "opa")]
    title = f"of {count} namespaces, {mapped} mapped"
    return [
        row(f"{title}: held by OPA", count, "namespaces", "", held, mapped),
        *(row(f"{title}: memory of {name}", count, "memory", "MB", size) for name, size in sizes),
    ]


class _Clock(Progress):
    """Measures the time from applying a push until it reports that it is in force."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._applied = 0.0

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        if name == "policies" and state.startswith("applying"):
            self._applied = time.monotonic()
        elif name == "policies" and state.endswith("in force"):
            self.times.append(time.monotonic() - self._applied)


def _cluster(
    name: str, replicas: int, progress: Progress
) -> AbstractContextManager[EmbeddedCluster]:
    return started(f"figures-{name}", SETTINGS, {"pool1": 1}, replicas=replicas, progress=progress)


@contextmanager
def _loaded(name: str, clients: int, progress: Progress) -> Iterator[tuple[Changes, load.Ledger]]:
    """A cluster with two OPAs under load, with the variant A in force."""
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-") as folder,
        _cluster(name, 2, progress) as cluster,
    ):
        changes, ledger = Changes(cluster, SETTINGS, variants(Path(folder))), load.Ledger(SETTINGS)
        if not changes.push("A"):
            raise FairleadError(f"the policies cannot be pushed: {changes.made[-1].error}")
        with load.working(cluster.kubeconfig, ledger, clients):
            yield changes, ledger


def _again(client: load.Client, name: str) -> None:
    """Create a pod, with retries without a pause."""
    once, spec = Event(), {"schedulerName": load.IDLE}
    once.set()
    create = partial(client.pod, "steady", name, "plain", spec, once)
    waiting.until(create, deadline=_PATIENCE, what="a pod is placed again", pause=0.01)


def _fill(
    cluster: EmbeddedCluster, count: int, mapped: int, clients: int, progress: Progress
) -> None:
    """Create the namespaces, `mapped` of them with a pool. They stay empty, because the controller
    manager is stopped.
    """
    cluster.stop_server("kube-controller-manager")
    ledger, stop = load.Ledger(SETTINGS), Event()

    def work(number: int) -> None:
        client = load.Client(cluster.kubeconfig, ledger)
        for index in range(number, count, clients):
            client.bare_namespace(f"many-{index}", "pool1" if index < mapped else None, stop)
            if number == 0:
                progress.update("namespaces", "creating", done=index, total=count)

    with ThreadPoolExecutor(clients) as several:
        list(several.map(work, range(clients)))


def memory(pid: int | None) -> int:
    """Resident memory in MB (10^6 bytes). Source: proc(5)."""
    return round(
        int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    )


def _unplaced(client: load.Client, ledger: load.Ledger) -> int:
    for pod in waiting.until(client.pods, deadline=_PATIENCE, what="all pods can be listed"):
        ledger.check(pod)
    return len(ledger.wrong)


def _lost(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The failed attempts to create valid pods in mapped namespaces."""
    return [
        attempt
        for attempt in attempts
        if attempt.is_pod and attempt.pool and attempt.good and attempt.outcome != "created"
    ]


def row(
    figure: str, n: int, metric: str, unit: str, value: float | None, target: float | None = None
) -> Row:
    met = None if target is None else value is not None and value <= target
    return {
        "figure": figure,
        "n": n,
        "metric": metric,
        "value": value,
        "unit": unit,
        "target": target,
        "met": met,
    }


def _counts(command: Callable[..., None]) -> Callable[..., None]:
    for name, default in reversed(COUNTS.items()):
        command = click.option(
            f"--{name}", type=click.IntRange(1), default=default, show_default=True
        )(command)
    return command


def measured(
    figures: Mapping[str, Callable[[], list[Row]]], only: Collection[str], results: str
) -> list[Row]:
    """Measure the figures, or `only` some of them, and write each into the file `results` at once.
    Returns all rows of the file.
    """
    target = paths.root() / results
    known: dict[str, list[Row]] = json.loads(target.read_text()) if only and target.exists() else {}
    for name, measure in figures.items():
        if not only or name in only:
            known[name] = measure()
            target.write_text(json.dumps(known, indent=1) + "\n")
    return [each for name in figures for each in known.get(name, ())]


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(["kills", "races", "pushes", "rotations", "sync", "thin"]),
)
@_counts
def main(only: tuple[str, ...], clients: int, **count: int) -> None:
    """Measure how fast Fairlead recovers, and what is refused meanwhile; write
    bench/resilience.json.
    """
    with output.progress() as progress:
        figures: dict[str, Callable[[], list[Row]]] = {
            "kills": lambda: kills(count["kills"], clients, progress),
            "races": lambda: races(count["races"], clients, progress),
            "pushes": lambda: pushes(count["pushes"], clients, progress),
            "rotations": lambda: rotations(
                count["tokens"], count["certificates"], clients, progress
            ),
            "sync": lambda: first_sync(count["mapped"], clients, progress),
            "thin": lambda: thin(count["thin"], count["thin_mapped"], clients, progress),
        }
        rows = measured(figures, only, RESULTS)
    output.rows("To reach", tuple(row("", 0, "", "", 0)), rows)(output.console())


if __name__ == "__main__":
    main()
