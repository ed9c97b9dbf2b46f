"""The requests of `make bench`, on the cluster that tests share: without a policy, and with OPA."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.pki.certificates import CA
from lab.bench import load, requests, saturation
from lab.bench.ground import Ground
from lab.bench.peers import NO_POLICY, PEERS

pytestmark = [pytest.mark.lab, pytest.mark.embedded("it measures processes of this machine")]


def test_requests_are_measured_beside_those_without_a_policy(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LATENCY", {2: 6})
    monkeypatch.setattr(requests, "THROUGHPUT", (2, 40))
    monkeypatch.setattr(saturation, "CLIENTS", (1, 2))
    peers = [peer for peer in PEERS if peer.name in (NO_POLICY, "Fairlead opa")]
    chosen = random.Random(1)  # noqa: S311 - no secret
    authority = CA.create("unused", timedelta(days=1))
    with load.running(cluster.path / "pki", Progress()) as sender:
        ground = Ground(cluster, sender, Progress(), authority, tmp_path)
        for peer in peers:
            peer.prepare(ground)
            requests.until_placed(ground, peer)
        latency = list(requests.latency(ground, peers, 2, chosen))
        further = list(requests.throughput(ground, peers, 2, chosen))
        monkeypatch.setattr(saturation, "LIMIT", 60_000.0)
        within = list(saturation.most_pods(ground, peers, 2, chosen))
        monkeypatch.setattr(saturation, "LIMIT", 0.0)
        beyond = list(saturation.most_pods(ground, peers, 2, chosen))
        refused = {**requests.POD, "spec": {**requests.POD["spec"], "nodeName": "pool1-0"}}
        with pytest.raises(FairleadError, match=r"3 of 3 requests .* failed: 403 Forbidden"):
            sender.burst(peers[1].pods(ground), refused, clients=1, requests=3)
    assert [(row["peer"], row["requests"], row["failed"]) for row in latency] == [
        (NO_POLICY, 12, 0),
        ("Fairlead opa", 12, 0),
    ]
    assert latency[0]["ratio_to_floor"] == 1.0
    assert [row["peer"] for row in within] == [NO_POLICY, "Fairlead opa"]
    assert all(row["clients"] in (1, 2) and row["p50"] > 0 for row in within)
    assert all(0 < row["p99_ms"] <= 60_000 for row in within)
    assert within[0]["ratio_to_floor"] == 1.0
    assert within[1]["ratio_to_floor"] > 0
    assert [(row["clients"], row["p50"], row["ratio_to_floor"]) for row in beyond] == [
        (0, 0, None),
        (0, 0, None),
    ]
    assert [row["suite"] for row in further] == ["throughput", "processor"] * 2
    without, by_opa = (row["by_process"] for row in further if row["suite"] == "processor")
    assert without["kube-apiserver"] > 0
    assert by_opa["opa"] > without.get("opa", 0)
