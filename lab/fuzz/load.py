"""Tries to exhaust OPA, its sidecar or a cluster by costly requests, and measures whether others
notice.

The target withstands an attack if no process exceeds the memory limit of its container, no process
ends, and no ordinary request is refused. With `strict`, ordinary requests to OPA itself must also
wait at most _LONGEST, or, on a machine that is slower than that without an attack, at most _TIMES
the longest wait without one. Other waits are only reported: API servers themselves take long for
huge pods, also for requests that do not reach OPA.

If this machine allows it, a cgroup enforces the limit of each process, so that the kernel kills a
process that exceeds it. Otherwise the peak resident memory is compared with the limit after each
attack.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.operations.deploy import deploy
from fairlead.operations.up import started
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.fuzz import limits
from lab.fuzz.bystanders import Bystander
from lab.fuzz.load_requests import Attack, attacks
from lab.fuzz.review_bodies import NAMESPACES
from lab.fuzz.search import Search, Violation, search
from lab.fuzz.server import CONSOLE, Opa, running
from lab.fuzz.sites import Alone, OnCluster, Site

EXAMPLES = 200
FOLDER = "testdata/fuzz/load"
"""Attacks that once succeeded, or might. Each run makes them first."""

_LONGEST = 1.0
"""The most seconds that a pod of another namespace may wait for OPA."""
_TIMES = 4
_QUIET = 20
"""Requests of each bystander before the first attack, for comparison."""
_MEANWHILE = 10
"""The least requests of each bystander during a slow attack."""
_SLOWER = 8
"""Connections of each slow client."""
_TIMEOUT = "context deadline exceeded"
"""The API server's message if OPA took too long. It counts as a long wait, not as a refusal."""
_TRIES = 40
"""The most attacks to find a smaller one that succeeds; each may take seconds."""


def run(
    *,
    examples: int = EXAMPLES,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    strict: bool = True,
) -> dict[str, Any]:
    """Attack a new embedded cluster with the policies of a folder. Returns the result of `attack`.

    Raises FairleadError if the cluster does not start.
    """
    settings = Settings()
    with started(f"fuzz-load-{os.getpid()}", settings, {"pool1": 1}, progress=progress) as cluster:
        if policies:
            deploy(cluster, PolicySet.load(settings, policies), progress=progress)
        return on_cluster(
            cluster, settings, examples=examples, seed=seed, progress=progress, strict=strict
        )


def on_cluster(
    cluster: EmbeddedCluster,
    settings: Settings,
    *,
    examples: int,
    seed: int,
    progress: Progress,
    strict: bool,
) -> dict[str, Any]:
    """Attack a running cluster. Two namespaces are created in it."""
    site = OnCluster(cluster, settings)
    return attack(
        site,
        limits.deployed(settings),
        examples=examples,
        seed=seed,
        progress=progress,
        strict=strict,
    )


def on_opa(
    *,
    examples: int,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    flags: Sequence[str] = (),
    limited: bool = True,
    memory: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Attack a single OPA with these further flags, and with the limits `memory` instead of the
    deployed ones; never `strict`.

    If `limited`, it is asked at the port of its plugin.
    """
    settings = Settings()
    bundle = staging.stage(PolicySet.load(settings, policies).bundle, progress)
    known = {name: {"metadata": {"name": name, **part}} for name, part in NAMESPACES.items()}
    with tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder:
        opa = Opa(
            Path(folder),
            bundle=bundle,
            data={"kubernetes/namespaces": known},
            flags=[*CONSOLE, *flags],
            limited=limited,
            environment=limits.go_environment(settings),
        )
        with running(opa):
            sizes = memory or limits.deployed(settings)
            return attack(
                Alone(opa), sizes, examples=examples, seed=seed, progress=progress, strict=False
            )


def attack(
    site: Site,
    memory: Mapping[str, int],
    *,
    examples: int,
    seed: int,
    progress: Progress,
    strict: bool,
) -> dict[str, Any]:
    """Attack `site`: {fuzz, seed, tried, seconds, outcomes, memory, limits, bystanders, log, why,
    example}.

    `memory` has the limits by container. Of the result, `memory` is what each process had resident
    at most and `limits` what it may have, in bytes, with whether the kernel enforced them;
    `bystanders` are as Bystander.figures has them; `log` is by how many bytes the logs grew. `why`
    and `example` are as everywhere.
    """
    began = time.monotonic()
    totals: Search[Attack] = Search()
    with _target(site, memory, strict=strict) as target:
        try:
            target.check_quiet()
            totals.try_known(
                map(Attack.load, sorted((paths.root() / FOLDER).glob("*.json"))), target.check_known
            )
            if not totals.why:
                strategy = attacks(site.ways)
                totals.add(
                    search(
                        strategy,
                        target.check,
                        examples=examples,
                        seed=seed,
                        name="load",
                        progress=progress,
                    )
                )
        except Violation as violation:
            totals.why = totals.why or str(violation)
        return totals.result("load", seed, began, Attack.document, **target.figures())


class _Target:
    """The attacked site, its limits, and its ordinary users."""

    def __init__(self, site: Site, held: Mapping[str, limits.MemoryLimit], *, strict: bool) -> None:
        self._site = site
        self._held = held
        self._strict = strict
        self._bystanders = [Bystander(name, ask) for name, ask in site.bystanders().items()]
        self._peaks: Counter[str] = Counter()
        self._log = self._written()
        self._failed: dict[Attack, str] = {}
        self._tries = 0
        self._hold()

    def check_quiet(self) -> None:
        """Send the ordinary requests without an attack. Raises Violation if they fail."""
        for bystander in self._bystanders:
            for _ in range(_QUIET):
                bystander.once()
            bystander.quiet = list(bystander.waits)
        self._check_bystanders()

    def check_known(self, attack: Attack) -> str:
        """As `check`, for an attack that may be by a way that this site does not have."""
        return self.check(attack) if attack.way in self._site.ways else "not for this site"

    def check(self, attack: Attack) -> str:
        """What became of one attack. Raises Violation.

        Once an attack succeeded, no more than _TRIES others are made.
        """
        if self._failed and attack not in self._failed:
            self._tries += 1
            if self._tries > _TRIES:
                return "not made"
        why, outcome = self._failed.get(attack, ""), ""
        if not why:
            try:
                outcome = self._check(attack)
            except Violation as violation:
                why = self._failed[attack] = str(violation)
                self._recover()
        if why:
            # Raised only here: hypothesis takes an exception from another line for another failure.
            raise Violation(why)
        return outcome

    def figures(self) -> dict[str, Any]:
        """What was measured."""
        self._peak()
        return {
            "memory": dict(self._peaks),
            "limits": {
                name: {"bytes": held.size, "enforced": held.enforced}
                for name, held in self._held.items()
            },
            "bystanders": [bystander.figures() for bystander in self._bystanders],
            "log": self._written() - self._log,
        }

    def _check(self, attack: Attack) -> str:
        pids, kills = self._site.pids(), self._kills()
        outcomes = self._attack_once(attack)
        self._peak()
        for name, killed in self._kills().items():
            if killed > kills[name]:
                self._peaks[name] = max(self._peaks[name], self._held[name].size)
                raise Violation(
                    f"{name} exceeds its limit of {_mib(self._held[name].size)}: the kernel ended "
                    "it"
                )
        for name, held in self._held.items():
            if self._site.pids()[name] != pids[name]:
                raise Violation(f"{name} ended")
            if limits.peak(pids[name]) > held.size:
                taken = _mib(limits.peak(pids[name]))
                raise Violation(
                    f"{name} takes {taken} of memory, and has a limit of {_mib(held.size)}"
                )
        self._check_bystanders()
        return f"{attack.way}: {outcomes.most_common(1)[0][0]}"

    def _attack_once(self, attack: Attack) -> Counter[str]:
        """Make the attack while bystanders ask; how its clients' requests ended."""
        stop = Event()
        beside = [bystander.beside(stop) for bystander in self._bystanders]
        try:
            if attack.slow:
                return self._attack_slowly(attack, self._asked_enough)
            return self._attack_at_once(attack)
        finally:
            stop.set()
            for thread in beside:
                thread.join()

    def _attack_at_once(self, attack: Attack) -> Counter[str]:
        outcomes: Counter[str] = Counter()
        lock, body = Lock(), attack.body()

        def work() -> None:
            try:
                outcome = self._site.door(attack).send(body)
            except OSError as error:
                outcome = type(error).__name__
            with lock:
                outcomes[outcome] += 1

        clients = [Thread(target=work, daemon=True) for _ in range(attack.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return outcomes

    def _attack_slowly(self, attack: Attack, enough: Callable[[], bool]) -> Counter[str]:
        """Keep as many connections as can be open, with a byte now and then, until the
        bystanders have asked enough.
        """
        door = self._site.door(attack)
        with ExitStack() as connections:
            open_ = []
            for _ in range(_SLOWER * attack.clients):
                with suppress(OSError):  # it admits no more connections
                    open_.append(connections.enter_context(closing(door.open())))
            while not enough():
                for connection in open_:
                    with suppress(OSError):  # the server closed it
                        connection.sendall(b"x")
                time.sleep(0.1)
        return Counter({"held open": len(open_)})

    def _asked_enough(self) -> bool:
        return all(len(bystander.waits) >= _MEANWHILE for bystander in self._bystanders)

    def _check_bystanders(self) -> None:
        """Judge what was asked since the last time. Raises Violation."""
        for bystander in self._bystanders:
            longest = max(bystander.waits, default=0.0)
            refused = [why for why in bystander.refused if self._strict or _TIMEOUT not in why]
            bystander.settle()
            if refused:
                raise Violation(f"{bystander.name}: {len(refused)} refused: {refused[0]}")
            bound = max(_LONGEST, _TIMES * max(bystander.quiet, default=0.0))
            if self._strict and longest > bound and bystander.name in self._site.timed:
                raise Violation(f"{bystander.name}: one waits for {longest:.1f} s")

    def _recover(self) -> None:
        """Have everything as it was before an attack that succeeded."""
        for bystander in self._bystanders:
            bystander.settle()
        self._site.restart()
        self._hold()

    def _hold(self) -> None:
        pids = self._site.pids()
        for name, held in self._held.items():
            held.hold(pids[name])
            limits.forget_peak(pids[name])

    def _kills(self) -> dict[str, int]:
        return {name: held.kills for name, held in self._held.items()}

    def _peak(self) -> None:
        for name, pid in self._site.pids().items():
            self._peaks[name] = max(self._peaks[name], limits.peak(pid))

    def _written(self) -> int:
        return sum(path.stat().st_size for path in self._site.logs() if path.exists())


@contextmanager
def _target(site: Site, memory: Mapping[str, int], *, strict: bool) -> Iterator[_Target]:
    with ExitStack() as stack:
        held = {
            name: stack.enter_context(closing(limits.MemoryLimit(name, memory[name])))
            for name in site.pids()
        }
        yield _Target(site, held, strict=strict)


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
