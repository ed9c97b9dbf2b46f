"""A short run of chaos holds all invariants, and its checks are able to fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.settings.models import Settings
from lab.chaos import invariants, load, schedule
from lab.chaos.run import Options, run

pytestmark = pytest.mark.lab

LATE = 180.0
"""Seconds after which access that still holds is late, on a busy machine."""

OWN_CLUSTER = (
    "it breaks a cluster of its own; `python -m lab chaos --cluster kind` does so to one of KIND"
)


@pytest.mark.embedded(OWN_CLUSTER)
def test_whatever_breaks_every_invariant_holds() -> None:
    result = run(
        Options(seconds=60, seed=1, clients=4, name=f"chaos-{os.getpid()}", late=LATE),
        progress=Progress(),
    )
    assert result["could not"] == []
    assert {fault["fault"] for fault in result["faults"]} == set(schedule.KINDS)
    assert all(fault["survived"] == fault["times"] > 0 for fault in result["faults"]), result[
        "faults"
    ]
    assert {change["change"] for change in result["changes"] if change["done"]} == {
        "push",
        "token",
        "certificate",
    }
    assert (
        min(result["creates"][what] for what in ("placed", "left alone", "first pods", "refused"))
        > 0
    )
    assert min(result["access"][what] for what in ("used", "revoked")) > 0, result["access"]
    assert [invariant for invariant in result["invariants"] if not invariant["holds"]] == []
    assert all(invariant["checked"] for invariant in result["invariants"])


def test_a_pod_that_is_not_placed_would_be_found(
    cluster: Cluster,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., Any],
) -> None:
    """The real pods of the API server, with a ledger that records a wrong pool for their
    namespace.
    """
    free, mapped = namespace(), namespace(agentpool="pool1")
    for at in (free, mapped):
        objects.create(pod(at))
    ledger = load.Ledger(Settings(), pools={free: None, mapped: "pool1"})
    for at in (free, mapped):
        ledger.ask(at, "web", {})
    client = load.Client(cluster.kubeconfig, ledger)

    def verdicts() -> list[bool]:
        ledger.wrong.clear()
        for pod in client.pods() or []:
            ledger.check(pod)
        return [verdict.holds for verdict in invariants.pods(ledger.wrong, len(ledger.pods))]

    assert verdicts() == [True, True]
    ledger.pools[free] = "pool1"
    assert verdicts() == [False, True]
    assert list(ledger.wrong) == [f"{free}/web"]
    ledger.pools.update({free: None, mapped: None})
    assert verdicts() == [True, False]
    assert list(ledger.wrong) == [f"{mapped}/web"]
