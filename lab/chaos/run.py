"""One run of chaos: a cluster, load, faults, pushes and rotations, and the verdicts at the end."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.clusters.kind import KindCluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.kube.own_kinds import FAIRLEADS, NAME, POLICIES, VERSION
from fairlead.operations import up
from fairlead.policy import policy_objects
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.images import overridden
from fairlead.settings.models import Images, Pool, Settings, Toleration
from lab.chaos import access, invariants, load, report, schedule
from lab.chaos.changes import POLICY, Changes, variants
from lab.chaos.embedded_faults import EmbeddedFaults
from lab.chaos.faults import Faults
from lab.chaos.invariants import Verdict
from lab.chaos.kind_faults import KindFaults

SETTINGS = Settings(
    access=Access(roles=[access.ROLE]),
    pools={
        "pool1": Pool(),
        "pool2": Pool(
            tolerations=[Toleration(key="dedicated", value="pool2", effect="NoSchedule")]
        ),
    },
)
"""Declared pools, so that an assignment has more than one part."""

PUSHES, ROTATIONS = (2.0, 8.0), (4.0, 12.0)
"""Seconds between two pushes, and between two rotations."""
_HEALS = 60.0
"""Seconds within which everything must work again after the last fault."""


@dataclass(frozen=True)
class Options:
    """The options of a run: seconds of faults, the seed of the random schedule, the number of
    clients and OPAs, the cluster, and the most seconds for which access may outlast its window.
    """

    seconds: float = 600.0
    seed: int = 0
    clients: int = 8
    replicas: int = 2
    name: str = "chaos"
    cluster: str = "embedded"
    late: float = access.BOUND


def run(options: Options, *, progress: Progress) -> dict[str, Any]:
    """Run chaos in a cluster. Returns {seed, seconds, interrupted, ...} and the keys of
    report.summary.

    Ctrl-C ends the run early, with the results so far. Raises FairleadError if the cluster does not
    start.
    """
    episodes = schedule.plan(options.seed, options.seconds)
    progress.update(
        "chaos", f"seed {options.seed}: {sum(len(e.faults) for e in episodes)} faults to come"
    )
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-") as folder,
        _clusters(options, progress) as (cluster, faults, settings),
        _followed(cluster, settings),
    ):
        changes = Changes(cluster, variants(settings, Path(folder)))
        if not changes.push("A"):
            raise FairleadError(f"the policies cannot be pushed: {changes.made[-1].error}")
        ledger, grants = load.Ledger(SETTINGS), access.Grants()
        began = time.monotonic()
        with access.working(cluster.kubeconfig, grants, seed=options.seed):
            interrupted = _inject(options, episodes, cluster, ledger, changes, faults, progress)
        seconds = time.monotonic() - began
        verdicts = [
            *_verdicts(cluster, ledger, grants, changes, progress),
            *access.verdicts(grants, options.late),
        ]
        return {
            "seed": options.seed,
            "seconds": round(seconds, 1),
            "clients": options.clients,
            "replicas": options.replicas,
            "interrupted": interrupted,
            "could not": faults.failed,
            "access": access.summary(grants),
            **report.summary(ledger.attempts, faults.broke, changes.made, verdicts),
        }


@contextmanager
def _clusters(options: Options, progress: Progress) -> Iterator[tuple[Cluster, Faults, Settings]]:
    """The cluster with its faults and settings. A cluster that did not exist before is removed at
    the end.
    """
    if options.cluster == "embedded":
        with up.started(
            options.name, SETTINGS, {"pool1": 1}, replicas=options.replicas, progress=progress
        ) as embedded:
            yield embedded, EmbeddedFaults(embedded, progress), SETTINGS
        return
    images = overridden(Images(), os.environ)
    settings = SETTINGS.model_copy(update={"images": images, "replicas": options.replicas})
    kind = KindCluster(options.name)
    existed = kind.running()
    try:
        kind, _ = up.kind(options.name, settings, sidecar=sidecars.SYNC.name, progress=progress)
        yield kind, KindFaults(kind, progress), settings
    finally:
        kind.stop()
        if not existed:
            kind.delete()


@contextmanager
def _followed(cluster: Cluster, settings: Settings) -> Iterator[None]:
    """Have the controller bring into force what is pushed, and put back what is deleted, during the
    block.
    """
    objects = cluster.objects()
    fairlead, *_ = policy_objects.of_policy_set(PolicySet.load(settings))
    objects.apply(fairlead)
    try:
        yield
    finally:
        with suppress(FairleadError):
            for kind, name in ((FAIRLEADS[1], NAME), (POLICIES[1], POLICY)):
                objects.delete(VERSION, kind, name)


def _inject(
    options: Options,
    episodes: list[schedule.Episode],
    cluster: Cluster,
    ledger: load.Ledger,
    changes: Changes,
    faults: Faults,
    progress: Progress,
) -> bool:
    """Run the load, the faults and the changes until the time is over. Returns whether the run was
    interrupted.
    """
    calm, interrupted = Event(), False
    with (
        ThreadPoolExecutor(3) as several,
        load.working(cluster.kubeconfig, ledger, options.clients, seed=options.seed),
    ):
        running = [
            several.submit(faults.run, episodes, calm),
            several.submit(changes.push_until, calm, options.seed, PUSHES),
            several.submit(changes.rotate_until, calm, options.seed, ROTATIONS),
        ]
        end = time.monotonic() + options.seconds
        try:
            while time.monotonic() < end and not any(
                future.done() and future.exception() for future in running
            ):
                calm.wait(0.2)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            calm.set()
        progress.update("chaos", "ending the last faults")
        for future in running:
            future.result()
        with suppress(FairleadError):  # a failure shows up in the verdicts
            ledger.more(10 * options.clients, _HEALS)
    return interrupted


def _verdicts(
    cluster: Cluster,
    ledger: load.Ledger,
    grants: access.Grants,
    changes: Changes,
    progress: Progress,
) -> list[Verdict]:
    """Check that everything works without faults, and check all recorded attempts and pods."""
    progress.update("chaos", "pushing and rotating once more without faults")
    problems = []
    for what in ("push", "token", "certificate"):
        if not (changes.push("B") if what == "push" else changes.rotate(what)):
            problems.append(f"{what}: {changes.made[-1].error}")
    progress.update("chaos", "granting access once more, and checking that all of it has ended")
    problems += access.afterwards(cluster.kubeconfig, grants, _HEALS)
    progress.update("chaos", "checking every pod")
    client = load.Client(cluster.kubeconfig, ledger)
    before = len(ledger.attempts)
    late = Event()
    timer = Timer(_HEALS, late.set)
    timer.start()
    for pool in SETTINGS.pools:
        if client.namespace(f"after-{pool}", pool, late):
            client.pod(f"after-{pool}", "healed", "first", {}, late)
    timer.cancel()
    after = [attempt for attempt in ledger.attempts[before:] if attempt.is_pod]
    if len(after) != len(SETTINGS.pools) or any(attempt.outcome != "created" for attempt in after):
        problems.append(
            f"pods are not placed at once: {'; '.join(attempt.reason for attempt in after)}"
        )
    try:
        for pod in waiting.until(client.pods, deadline=_HEALS, what="all pods can be listed"):
            ledger.check(pod)
        rotated = changes.verdict()
    except FairleadError as error:
        problems.append(str(error))
        rotated = invariants.credentials({"unknown": ["the servers cannot be asked"]}, 0)
    return [
        *invariants.pods(ledger.wrong, len(ledger.pods)),
        invariants.unmapped(ledger.attempts),
        invariants.justified(ledger.attempts),
        invariants.reasons(ledger.attempts),
        *invariants.answers(ledger.attempts, changes.pushes),
        rotated,
        Verdict(
            "everything recovers by itself: push, rotations, placement and access work afterwards",
            6,
            tuple(problems),
        ),
    ]
