"""The figures of `make bench` about changes and many namespaces, in clusters of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import left_out
import pytest

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from lab.bench import ground, memory, pushes, requests, runs, starts
from lab.bench.ground import POOL, Ground
from lab.bench.peers import (
    EMPTIEST,
    OPA,
    PEERS,
    WITH_KUBE_MGMT,
    Peer,
    settings_of,
)
from lab.engines.gatekeeper import controller as gatekeeper

pytestmark = [pytest.mark.lab, pytest.mark.embedded("it measures processes of this machine")]
_PUSH = "from a push to its first decision"


@pytest.fixture(scope="module")
def with_opa() -> Iterator[Ground]:
    """A ground whose OPA decides in ten namespaces, and which has the emptiest OPA."""
    with ground.prepared(Progress()) as prepared:
        for peer in (named(EMPTIEST), OPA):
            peer.prepare(prepared)
        prepared.fill(10, [OPA.label])
        requests.until_placed(prepared, OPA)
        yield prepared


def named(name: str) -> Peer:
    (peer,) = (peer for peer in PEERS if peer.name == name)
    return peer


def identities(rows: list[dict[str, Any]]) -> list[tuple[str, str, int, str, str]]:
    fields = ("suite", "peer", "n", "metric", "unit")
    return [tuple(row[field] for field in fields) for row in rows]


def test_a_push_is_measured_in_both_directions(with_opa: Ground) -> None:
    rows = list(pushes.with_fairlead(with_opa, OPA, 2))
    assert identities(rows) == [("changes", "Fairlead opa", 10, _PUSH, "s")]
    assert rows[0]["rounds"] == 2
    assert 0 < rows[0]["p50"] <= rows[0]["p99"]


@pytest.mark.parametrize("name", ["Fairlead cel", "Fairlead python"])
def test_a_push_to_an_engine_is_measured_in_a_cluster_of_its_own(name: str) -> None:
    peer = named(name)
    assert peer.engine
    settings = settings_of(peer.label)
    with ground.prepared(Progress(), settings=settings, engine=peer.engine) as own:
        own.namespace(peer.namespace, {peer.label: POOL}, {})
        own.fill(10, [peer.label])
        requests.until_placed(own, peer)
        rows = list(pushes.with_fairlead(own, peer, 2))
    assert identities(rows) == [("changes", name, 10, _PUSH, "s")]
    assert 0 < rows[0]["p50"] <= rows[0]["p99"]


def test_opa_with_kube_mgmt_is_measured_beside_its_floor_in_a_cluster_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        sidecars.KUBE_MGMT.command()
    except UsageError as error:
        left_out.skip("kube-mgmt", str(error))
    monkeypatch.setattr(requests, "LATENCY", {2: 6})
    suites = ("latency", "memory", "changes")
    plan = dataclasses.replace(
        runs.FULL,
        suites=suites,
        peers=[WITH_KUBE_MGMT],
        sizes=(10,),
        many=None,
        rounds=2,
        few_rounds=2,
    )
    rows = list(runs.run(plan, Progress()))
    own, sidecar = WITH_KUBE_MGMT.name, WITH_KUBE_MGMT.sidecar
    assert sidecar
    assert identities(rows) == [
        ("latency", own, 10, "creation of a pod", "ms"),
        ("memory", sidecar, 10, "memory of a server", "MiB"),
        ("changes", own, 10, "from a new namespace to its first pod", "ms"),
        ("changes", own, 10, _PUSH, "s"),
    ]
    assert all(row["p50"] > 0 for row in rows)


@left_out.unless_built(gatekeeper.PROGRAM)
def test_a_change_of_gatekeepers_objects_is_measured(with_opa: Ground) -> None:
    peer = named("Gatekeeper")
    peer.prepare(with_opa)
    rows = list(pushes.with_gatekeeper(with_opa, peer, 2))
    assert identities(rows) == [("changes", "Gatekeeper", 10, _PUSH, "s")]
    assert 0 < rows[0]["p50"] <= rows[0]["p99"]


def test_a_new_sidecar_gives_an_empty_opa_everything(with_opa: Ground) -> None:
    before = with_opa.pids()
    rows = list(starts.first_syncs(with_opa, 2))
    after = with_opa.pids()
    assert identities(rows) == [("changes", "Fairlead opa", 10, "first sync", "s")]
    assert rows[0]["rounds"] == 2
    assert all(before[name] != after[name] for name in (starts.OPA, starts.SIDECAR))
    requests.until_placed(with_opa, OPA)


def test_cold_starts_are_compared_with_those_of_the_emptiest_opa(with_opa: Ground) -> None:
    rows = list(starts.cold_starts(with_opa, 2))
    metric = "cold start until Ready"
    assert identities(rows) == [
        ("changes", "Fairlead opa", 10, metric, "s"),
        ("changes", EMPTIEST, 10, metric, "s"),
    ]
    assert rows[1]["ratio_to_floor"] == 1.0


def test_the_memory_of_opa_and_its_sidecar_is_measured_with_unmapped_and_mapped_namespaces() -> (
    None
):
    with ground.prepared(Progress()) as own:
        rows = list(memory.of_deployment(own, OPA.label, 20, 2))
        labels = own.api.request("GET", "/api/v1/namespaces/team-19").body["metadata"]["labels"]
    metric = "memory of OPA and its sidecar"
    assert identities(rows) == [("memory", "Fairlead opa", n, metric, "MiB") for n in (0, 20, 20)]
    assert [row["mapped"] for row in rows] == [False, False, True]
    assert labels[OPA.label] == POOL
    assert all(row["by_process"].keys() == {starts.OPA, starts.SIDECAR} for row in rows)
    assert all(value > 0 for row in rows for value in row["by_process"].values())
