"""Measures how long it takes until pushed policies decide, by engine."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from fairlead import engines
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.operations.push import push as push_policies
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.bench import figures
from lab.bench.figures import Row
from lab.bench.ground import DEADLINE, POOL, Ground
from lab.bench.peers import Peer, settings_of
from lab.bench.requests import POD

_PAUSE = 0.02
"""Seconds between two questions, which take processor time from what they are to show."""
_OWN = {**POD["spec"], "nodeSelector": {"agentpool": POOL, "disk": "ssd"}}


def with_fairlead(ground: Ground, peer: Peer, rounds: int) -> Iterator[Row]:
    """The seconds from applying a push to the first decision by it, with `fairlead push`."""

    def push(settings: Settings, clock: Progress) -> None:
        push_policies(ground.cluster, PolicySet.load(settings), progress=clock)

    yield _measured(ground, peer, rounds, push)


def with_gatekeeper(ground: Ground, peer: Peer, rounds: int) -> Iterator[Row]:
    """The same, with changed mutators and constraints of Gatekeeper. Raises FairleadError if that
    was not started.
    """
    objects = ground.gatekeeper
    if objects is None:
        raise FairleadError(f"{peer.name} was not started")

    def push(settings: Settings, clock: Progress) -> None:
        manifests = engines.render("gatekeeper", PolicySet.load(settings))
        clock.update("policies", "applying")
        objects.put(manifests)

    yield _measured(ground, peer, rounds, push)


def _measured(
    ground: Ground, peer: Peer, rounds: int, push: Callable[[Settings, Progress], None]
) -> Row:
    """A pushed change makes pods admitted that were refused, and the next one has them refused."""
    taken = []
    for number in range(rounds):
        ground.progress.update("pushes", f"to {peer.name}", done=number, total=rounds)
        merge = number % 2 == 0
        changed = {"pod_selector": "merge" if merge else "reject"}
        settings = settings_of(peer.label).model_copy(update=changed)
        clock = _Clock()
        with ThreadPoolExecutor(1) as pool:
            pushed = pool.submit(push, settings, clock)
            waiting.until(
                functools.partial(_admits, ground, peer, expected=merge),
                deadline=DEADLINE,
                what=f"the policies that are pushed to {peer.name} decide",
                pause=_PAUSE,
            )
            effective = time.monotonic()
            pushed.result()
        taken.append(effective - clock.applied)
    ground.progress.finish("pushes", f"measured for {peer.name}")
    metric = "from a push to its first decision"
    return figures.times("changes", peer.name, ground.namespaces, metric, "s", taken)


class _Clock(Progress):
    """Knows when the first object of a push is applied."""

    def __init__(self) -> None:
        self.applied = 0.0

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        if not self.applied and state.startswith("applying"):
            self.applied = time.monotonic()


def _admits(ground: Ground, peer: Peer, *, expected: bool) -> bool:
    """Whether the answer is as expected to whether a pod may have a nodeSelector beside that of its
    pool.
    """
    path = f"/api/v1/namespaces/{peer.namespace}/pods"
    answer = ground.api.request("POST", path, {**POD, "spec": _OWN}, query={"dryRun": "All"})
    return answer.ok == expected
