"""`make scale` with few namespaces, nodes and pods, on a cluster of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_processes import processes
from waits import until

from fairlead.common import paths

pytestmark = [
    pytest.mark.lab,
    pytest.mark.embedded("its nodes are kwok's, and it kills OPA"),
]
SCALE = [sys.executable, "-m", "lab", "scale"]
SERVERS = {
    *("opa", "sync"),
    *("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok"),
}


def test_all_pods_run_on_nodes_of_their_pools_while_opa_gets_everything_anew(
    tmp_path: Path,
) -> None:
    size = ["--namespaces", "50", "--nodes", "10", "--pods", "200"]
    done = subprocess.run(
        [*SCALE, *size, "--output", str(tmp_path)],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"all 200 pods run on nodes of their pools: {tmp_path / 'scale.json'}" in done.stdout
    assert "resync: OPA has everything again" in done.stderr
    document = json.loads((tmp_path / "scale.json").read_text())
    summary, series = document["summary"], document["series"]
    assert document["run"]["seed"] == 1
    assert (summary["asked"]["namespaces"], summary["asked"]["nodes"]) == (50, 10)
    assert summary["placement"] == dict.fromkeys(
        ("unplaced", "wrongNode", "notRunning", "missing"), 0
    )
    assert sum(series["created"]) == 200
    assert sum(series["failed"]) == summary["failed"]["attempts"]
    assert series["pending"][-1] == 0
    marks = summary["marks"]
    assert marks["pods"] < marks["resync"] < marks["resynced"]
    assert marks["resync"] < marks["created"] < series["seconds"][-1]
    assert marks["resync"] < marks["running"] < series["seconds"][-1]
    # Pods were to be created while OPA was away.
    assert summary["failed"]["attempts"] > 0
    assert series["memory"].keys() >= SERVERS
    assert all(len(values) == len(series["seconds"]) for values in series["memory"].values())
    assert all(summary["peak"][server] > 0 for server in SERVERS)
    assert "50 namespaces, 10 nodes, 200 pods" in (tmp_path / "scale.svg").read_text()
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_stops_everything_and_writes_nothing(tmp_path: Path) -> None:
    size = ["--namespaces", "10", "--nodes", "5", "--pods", "1000000"]
    running = subprocess.Popen(
        [*SCALE, *size, "--output", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("namespaces: 10 are mapped"):
            break
    running.send_signal(signal.SIGINT)
    rest = running.stderr.read().splitlines()
    assert running.wait(timeout=240) == 130
    running.stderr.close()
    assert rest[-2] == "error: interrupted"
    name, _, fate = rest[-1].partition(" ")
    assert name.startswith("scale-")
    assert fate == "was removed"
    until(lambda: not processes(name), what="all of it has ended")
    assert list(tmp_path.iterdir()) == []
