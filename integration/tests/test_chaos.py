"""A short run of chaos holds what it promises, and the checks of it are able to fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import kube
from fairlead.chaos import invariants, load, schedule
from fairlead.chaos.run import Options, run
from fairlead.clusters.base import Cluster
from fairlead.progress import Progress
from fairlead.settings import Settings

OWN_CLUSTER = "it breaks a cluster of its own; `fairlead chaos --cluster kind` does so to one of KIND"


@pytest.mark.embedded(OWN_CLUSTER)
def test_whatever_breaks_every_invariant_holds() -> None:
    found = run(Options(seconds=20, seed=1, clients=4, name=f"chaos-{os.getpid()}"), progress=Progress())
    assert found["could not"] == []
    assert {one["fault"] for one in found["faults"]} == set(schedule.KINDS)
    assert all(one["survived"] == one["times"] > 0 for one in found["faults"]), found["faults"]
    assert {one["change"] for one in found["changes"] if one["done"]} == {"push", "token", "certificate"}
    assert min(found["creates"][what] for what in ("placed", "left alone", "first pods", "refused")) > 0
    assert [one for one in found["invariants"] if not one["holds"]] == []
    assert all(one["checked"] for one in found["invariants"])


def test_a_pod_that_is_not_placed_would_be_found(
    cluster: Cluster, objects: kube.Objects, namespace: Callable[..., str], pod: Callable[..., Any]
) -> None:
    """The very pods of the API server, with the ledger led to believe that their namespace was another one's kind."""
    free, mapped = namespace(), namespace(agentpool="pool1")
    for at in (free, mapped):
        objects.create(pod(at))
    ledger = load.Ledger(Settings(), pools={free: None, mapped: "pool1"})
    for at in (free, mapped):
        ledger.ask(at, "web", {})
    client = load.Client(cluster.kubeconfig, ledger)

    def verdicts() -> list[bool]:
        ledger.wrong.clear()
        for found in client.pods() or []:
            ledger.check(found)
        return [verdict.holds for verdict in invariants.pods(ledger.wrong, len(ledger.pods))]

    assert verdicts() == [True, True]
    ledger.pools[free] = "pool1"
    assert verdicts() == [False, True]
    assert list(ledger.wrong) == [f"{free}/web"]
    ledger.pools.update({free: None, mapped: None})
    assert verdicts() == [True, False]
    assert list(ledger.wrong) == [f"{mapped}/web"]
