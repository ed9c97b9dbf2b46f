"""Two OPAs, each with a sidecar, behind a balancer: either may fail at any time."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import suspension
from policy_copies import copied

from fairlead.clusters.base import OpaServer
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaUnavailable
from fairlead.operations import rotate
from fairlead.operations.deployed_state import credentials
from fairlead.operations.push import push
from fairlead.operations.status import status
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it kills and stops processes behind a balancer of its own")

QUIET = Progress()
AGAIN = 10.0
"""Seconds until pods are placed again after an OPA has failed."""
MAIN = f"{NAMESPACE}/{POLICIES}/main.rego"
_numbers = itertools.count()
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def two(cluster: EmbeddedCluster) -> EmbeddedCluster:
    """A cluster with two OPAs."""
    return cluster


@pytest.fixture(autouse=True)
def _both_ready(two: EmbeddedCluster) -> Iterator[None]:
    both_ready(two)
    yield
    both_ready(two)


@pytest.fixture
def place(two: EmbeddedCluster, pod: Make) -> Callable[[], str]:
    """Creates a pod in a mapped namespace. Returns "placed", "unplaced", or the status of a
    refusal.
    """
    objects = two.objects()
    at = f"two-{next(_numbers)}"
    labels = {"name": at, "labels": {"agentpool": "pool1"}}
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": labels})
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": at},
        }
    )

    def create() -> str:
        try:
            created = objects.create(pod(at, f"p{next(_numbers)}"))
        except Refused as error:
            return f"refused: {error}"
        return (
            "placed"
            if created["spec"].get("nodeSelector") == {"agentpool": "pool1"}
            else "unplaced"
        )

    return create


@contextmanager
def load(place: Callable[[], str]) -> Iterator[Counter[str]]:
    """Creates pods continuously, and counts the outcomes."""
    stop, outcomes = Event(), Counter[str]()

    def run() -> None:
        while not stop.is_set():
            outcomes[place()] += 1

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(run)
        try:
            waiting.until(lambda: outcomes["placed"] > 3, deadline=30, what="pods are placed")
            yield outcomes
        finally:
            stop.set()
        working.result()


def ready(opa: OpaServer) -> bool:
    api = OpaApi(opa.url, ca=opa.ca)
    try:
        return api.ready()
    finally:
        api.close()


def both_ready(two: EmbeddedCluster) -> None:
    waiting.until(lambda: all(map(ready, two.opas())), deadline=60, what="both OPAs are Ready")


def lost(two: EmbeddedCluster, opa: str) -> int:
    """How often the balancer has noticed that this OPA is no longer Ready."""
    return two.log("balancer").read_text().count(f" {opa} is not Ready")


def test_both_are_told(two: EmbeddedCluster) -> None:
    opas = status(two)["opa"]
    assert len({opa["url"] for opa in opas}) == len({opa["pid"] for opa in opas}) == 2
    assert [opa["ready"] for opa in opas] == [True, True]
    assert {opa["revision"] for opa in opas} == {
        staging.stage(PolicySet.load(Settings()).bundle, Progress()).revision
    }
    assert len({server.url for server in two.sidecars()}) == 2
    begins = {line.split()[0] for line in "".join(two.logs("sidecar", 1, False)).splitlines()}
    assert begins == {"[sync-0]", "[sync-1]"}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
@pytest.mark.parametrize("which", [0, 1])
def test_pods_are_placed_while_one_opa_is_gone(
    two: EmbeddedCluster, place: Callable[[], str], which: int, how: signal.Signals
) -> None:
    pid, losses = two.opas()[which].pid, lost(two, f"opa-{which}")
    assert pid
    with load(place) as outcomes:
        os.kill(pid, how)
        try:
            waiting.until(
                lambda: lost(two, f"opa-{which}") > losses, deadline=AGAIN, what="it is noticed"
            )
            before = outcomes["placed"]
            waiting.until(
                lambda: outcomes["placed"] > before + 3,
                deadline=AGAIN,
                what="pods are placed again",
            )
        finally:
            suspension.resume(pid)
    assert outcomes["unplaced"] == 0


def test_one_that_is_not_ready_is_asked_by_nobody(two: EmbeddedCluster) -> None:
    """main.rego is removed from an OPA whose sidecar cannot load it again; it says
    what to do.
    """
    deployed = credentials(two.objects())
    assert deployed
    sidecar, opa, losses = two.sidecars()[0].pid, two.opas()[0], lost(two, "opa-0")
    assert sidecar
    api = OpaApi(opa.url, ca=opa.ca, token=deployed.token)
    suspension.suspend(sidecar)
    try:
        api.remove_policy(MAIN)
        waiting.until(lambda: lost(two, "opa-0") > losses, deadline=AGAIN, what="it is noticed")
        with pytest.raises(OpaUnavailable, match="OPA is starting: retry in a second"):
            api.decide({})
        for _ in range(10):
            anyone = OpaApi(two.webhook_url(two.sidecar).rstrip("/"), ca=opa.ca)
            assert anyone.decide({})["response"]["allowed"] is False
            anyone.close()
    finally:
        suspension.resume(sidecar)
        api.close()


def test_a_push_reaches_both(two: EmbeddedCluster, tmp_path: Path) -> None:
    copy = copied(tmp_path / "policies")
    (copy / "extra.rego").write_text("package extra\n\nx := 1\n")
    pushed = push(two, PolicySet.load(Settings(), copy), progress=QUIET)
    assert (
        {opa["revision"] for opa in pushed["opa"]} == {pushed["revision"]} != {pushed["previous"]}
    )
    assert len(pushed["opa"]) == 2
    assert {opa["revision"] for opa in status(two)["opa"]} == {pushed["revision"]}
    push(two, PolicySet.load(Settings()), progress=QUIET)


def test_a_rotation_reaches_both_and_the_balancer(
    two: EmbeddedCluster, place: Callable[[], str]
) -> None:
    with load(place) as outcomes:
        rotate.token(two, progress=QUIET)
        rotate.certificate(two, progress=QUIET)
        before = outcomes["placed"]
        waiting.until(
            lambda: outcomes["placed"] > before + 3, deadline=AGAIN, what="pods are placed on"
        )
    assert outcomes.keys() == {"placed"}
    assert {opa.ca.read_bytes().count(b"BEGIN") for opa in two.opas()} == {1}


def test_restarting_one_pair_after_the_other_leaves_one_that_answers(
    two: EmbeddedCluster, place: Callable[[], str]
) -> None:
    """A request is lost if OPA closes its kept connection at the same moment. HTTP/1.1 cannot
    prevent that.
    """
    before = {opa.pid for opa in two.opas()}
    with load(place) as outcomes:
        two.restart(progress=QUIET)
    assert outcomes["unplaced"] == 0
    assert outcomes.total() - outcomes["placed"] <= len(before)
    assert before.isdisjoint({opa.pid for opa in two.opas()})


def test_a_balancer_that_was_killed_is_back_at_once(
    two: EmbeddedCluster, place: Callable[[], str]
) -> None:
    pid = two.servers()["balancer"]["pid"]
    assert pid
    os.kill(pid, signal.SIGKILL)
    waiting.until(lambda: place() == "placed", deadline=AGAIN, what="pods are placed again")
