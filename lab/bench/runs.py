"""Runs the suites, and says on which machine."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.programs import toolchain
from lab.bench import (
    circumstances,
    decisions,
    first_pods,
    ground,
    load,
    memory,
    placements,
    pushes,
    requests,
    saturation,
    starts,
)
from lab.bench.figures import Row
from lab.bench.ground import POOL, Ground
from lab.bench.peers import OPA, PEERS, WITH_KUBE_MGMT, Peer, for_several_clients, settings_of

SUITES = ("decision", "placement", "latency", "throughput", "saturation", "memory", "changes")
_ONLY_OPA = {"decision", "placement"}
_NOT_SYNCED = ("OPA webhook", "OPA look-up", "OPA policy")
"""Parts of the names of peers that learn of no new namespace: nothing but `make bench` gives them
data."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured, and how often. `sizes` are the numbers of mapped namespaces in the cluster,
    `data_sizes` those of OPA alone. `seed` orders the peers.
    """

    suites: Sequence[str]
    peers: Sequence[Peer]
    sizes: Sequence[int]
    data_sizes: Sequence[int]
    many: int | None
    """How many namespaces the cluster has in which the memory of OPA and its sidecar is measured;
    None to leave that out."""
    rounds: int
    few_rounds: int
    """For what takes seconds."""
    fewest_rounds: int
    """For what takes a minute."""
    share: float
    """The share of a burst's requests that is sent."""
    every_decision: bool
    seed: int


FULL = Plan(
    suites=SUITES,
    peers=PEERS,
    sizes=(10, 1_000),
    data_sizes=(10, 1_000, 10_000, 100_000),
    many=10_000,
    rounds=30,
    few_rounds=10,
    fewest_rounds=3,
    share=1,
    every_decision=True,
    seed=1,
)


def full(progress: Progress) -> Plan:
    """A plan of everything, but for kube-mgmt where there is none."""
    try:
        sidecars.KUBE_MGMT.command()
    except UsageError as error:
        progress.warn(f"{WITH_KUBE_MGMT.name} is left out: {error}")
        peers = [peer for peer in PEERS if peer != WITH_KUBE_MGMT]
        return dataclasses.replace(FULL, peers=peers)
    return FULL


def quick(progress: Progress) -> Plan:
    """A plan that takes less than two minutes. It has no peer that would have to be built first, or
    that needs a cluster of its own.
    """
    peers = []
    for peer in PEERS:
        if peer.sidecar:
            continue
        if peer.program and toolchain.states([peer.program])[0].path is None:
            progress.warn(
                f"{peer.name} is left out: `fairlead tools --build {peer.program}` builds it"
            )
        else:
            peers.append(peer)
    return Plan(
        suites=("decision", "latency", "throughput", "memory"),
        peers=peers,
        sizes=(10,),
        data_sizes=(10,),
        many=None,
        rounds=3,
        few_rounds=2,
        fewest_rounds=1,
        share=0.2,
        every_decision=False,
        seed=1,
    )


def run(plan: Plan, progress: Progress) -> Iterator[Row]:
    """The rows of all suites of the plan. Raises FairleadError."""
    if "decision" in plan.suites:
        yield from _stamped(
            decisions.rows(plan.data_sizes, progress, every=plan.every_decision), plan
        )
    if "placement" in plan.suites:
        yield from _stamped(placements.rows(progress), plan)
    if set(plan.suites) - _ONLY_OPA:
        programs = [peer.program for peer in plan.peers if peer.program]
        toolchain.ensure([*programs, "opa", load.PROGRAM], progress)
        if any(peer.sidecar is None for peer in plan.peers):
            with ground.prepared(progress) as shared:
                yield from _stamped(_side_by_side(shared, plan), plan)
        yield from _stamped(_apart(plan, progress), plan)


def _side_by_side(shared: Ground, plan: Plan) -> Iterator[Row]:
    chosen = random.Random(plan.seed)  # noqa: S311 - no secret
    peers = [peer for peer in plan.peers if peer.sidecar is None]
    for peer in peers:
        peer.prepare(shared)
    for size in plan.sizes:
        yield from _of_size(shared, peers, size, plan, chosen)
        if "changes" in plan.suites and OPA in peers:
            yield from starts.first_syncs(shared, plan.few_rounds)
    if "memory" in plan.suites:
        yield from memory.of_data(shared, plan.data_sizes)
    if "changes" in plan.suites:
        yield from _changes(shared, peers, plan, chosen)


def _of_size(
    shared: Ground, peers: Sequence[Peer], size: int, plan: Plan, chosen: random.Random
) -> Iterator[Row]:
    """The suites about a cluster with so many namespaces."""
    shared.fill(size, sorted({peer.label for peer in peers}))
    for peer in peers:
        requests.until_placed(shared, peer)
    several = for_several_clients(peers, size)
    suites: dict[str, Callable[[], Iterator[Row]]] = {
        "latency": lambda: requests.latency(shared, peers, plan.rounds, chosen, share=plan.share),
        "throughput": lambda: requests.throughput(
            shared, several, plan.few_rounds, chosen, share=plan.share
        ),
        "saturation": lambda: saturation.most_pods(shared, several, plan.fewest_rounds, chosen),
        "memory": lambda: memory.of_servers(shared),
    }
    for name, suite in suites.items():
        if name in plan.suites:
            yield from suite()


def _changes(
    shared: Ground, peers: Sequence[Peer], plan: Plan, chosen: random.Random
) -> Iterator[Row]:
    synced = [peer for peer in peers if not any(part in peer.name for part in _NOT_SYNCED)]
    yield from first_pods.first_pods(shared, synced, plan.few_rounds, chosen)
    for peer in synced:
        if peer.name == OPA.name:
            yield from pushes.with_fairlead(shared, peer, plan.few_rounds)
            yield from starts.cold_starts(shared, plan.few_rounds)
        elif peer.name == "Gatekeeper":
            yield from pushes.with_gatekeeper(shared, peer, plan.few_rounds)


def _apart(plan: Plan, progress: Progress) -> Iterator[Row]:
    """What needs a cluster of its own, one after the other."""
    for peer in plan.peers:
        if peer.engine is None or not (peer.sidecar or "changes" in plan.suites):
            continue
        with ground.prepared(
            progress, settings=settings_of(peer.label), engine=peer.engine, sidecar=peer.sidecar
        ) as own:
            if peer.sidecar:
                yield from _beside_its_floor(own, peer, plan)
            if "changes" in plan.suites:
                if not peer.sidecar:
                    own.namespace(peer.namespace, {peer.label: POOL}, {})
                own.fill(max(plan.sizes), [peer.label])
                yield from pushes.with_fairlead(own, peer, plan.few_rounds)
    if plan.many and "memory" in plan.suites and OPA in plan.peers:
        with ground.prepared(progress) as own:
            yield from memory.of_deployment(own, OPA.label, plan.many, plan.fewest_rounds)


def _beside_its_floor(own: Ground, peer: Peer, plan: Plan) -> Iterator[Row]:
    """The rows of a peer in a cluster of its own, and those of its sidecar."""
    names = (peer.name, peer.sidecar)
    chosen = random.Random(plan.seed)  # noqa: S311 - no secret
    peers = [each for each in PEERS if each.name == peer.floor or each == peer]
    for each in peers:
        each.prepare(own)
    for size in plan.sizes:
        rows = _of_size(own, peers, size, plan, chosen)
        yield from (row for row in rows if row["peer"] in names)
    if "changes" in plan.suites:
        rows = first_pods.first_pods(own, peers, plan.few_rounds, chosen)
        yield from (row for row in rows if row["peer"] in names)


def _stamped(rows: Iterator[Row], plan: Plan) -> Iterator[Row]:
    """The rows, with when and on what they were measured. `load` is the machine's load average of
    one minute just then: a figure of a machine with other work has a load far above its processors.
    """
    for row in rows:
        yield {**row, "run": {**circumstances.now(), "seed": plan.seed}}
