"""The statistics of `make bench`, what it writes, and its picture."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from told_warnings import Warnings

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision
from fairlead.engines.cel import offline
from fairlead.kube import admission_reviews
from fairlead.opa import cli
from lab.bench import figures, picture, processes, runs
from lab.bench.ground import POOL, SETTINGS
from lab.bench.peers import HANDWRITTEN, NO_POLICY, PEERS, WITH_KUBE_MGMT


def test_a_ratio_is_to_the_floor_of_the_same_round() -> None:
    """In every second round the machine is ten times as slow, which concerns the floor as well."""
    slow = [1.0, 10.0] * 10
    ratio = figures.ratio([3 * each for each in slow], [2 * each for each in slow])
    assert (ratio.lower, ratio.median, ratio.upper) == pytest.approx((1.5, 1.5, 1.5))
    # Whereas the medians of all rounds would be anything.
    ratio = figures.ratio([1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 5)
    assert ratio.row() == {"ratio_to_floor": 3.0, "ratio_quartiles": [2.0, 4.0]}
    assert figures.ratio([3.0], [2.0]) == figures.Ratio(1.5, 1.5, 1.5)


def test_rounds_of_different_number_are_no_ratio() -> None:
    with pytest.raises(ValueError, match="shorter"):
        figures.ratio([1.0, 2.0], [1.0])


def test_percentiles_lie_between_the_least_and_the_greatest_value() -> None:
    values = [float(number) for number in range(101)]
    random.Random(1).shuffle(values)  # noqa: S311 - no secret
    assert [figures.percentile(values, each) for each in (50, 90, 99)] == [50.0, 90.0, 99.0]
    assert figures.percentile([7.0], 99) == 7.0
    assert figures.percentile([1.0, 2.0], 99) == pytest.approx(1.99)


def test_a_row_has_every_field_of_the_contract() -> None:
    row = figures.row("latency", "x", 10, "m", "ms", p50=1.5, clients=8)
    assert row == {
        "suite": "latency",
        "peer": "x",
        "n": 10,
        "metric": "m",
        "unit": "ms",
        "p50": 1.5,
        "p99": None,
        "ratio_to_floor": None,
        "clients": 8,
    }


def test_processes_are_measured_with_those_that_they_start() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn + 'input()'!r}])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE) as process:
        seconds = 0.0
        while seconds < 0.3:
            assert process.poll() is None
            seconds = processes.processor({"it": process.pid})["it"]
        assert processes.memory(process.pid) > 0
        process.communicate(b"\n")
    assert processes.processor({"it": process.pid, "own": os.getpid()})["it"] == 0.0


def test_every_peer_has_a_floor_and_a_label_of_its_own() -> None:
    names = [peer.name for peer in PEERS]
    shared = [peer for peer in PEERS if peer.label == SETTINGS.namespace_label]
    # One OPA serves both, and namespaces tell them apart.
    assert [peer.name for peer in shared] == ["Fairlead opa", WITH_KUBE_MGMT.name]
    assert len({peer.label for peer in PEERS}) == len(PEERS) - 1
    assert len(set(names)) == len({peer.namespace for peer in PEERS}) == len(names)
    assert [peer.name for peer in PEERS if names.index(peer.floor) > names.index(peer.name)] == []
    assert names[0] == NO_POLICY


def test_a_quick_run_builds_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    warnings = Warnings()
    left = {peer.name for peer in PEERS} - {peer.name for peer in runs.quick(warnings).peers}
    assert left == {"Gatekeeper", "Kyverno", WITH_KUBE_MGMT.name}
    assert warnings.texts == [
        "Gatekeeper is left out: `fairlead tools --build gatekeeper` builds it",
        "Kyverno is left out: `fairlead tools --build kyverno` builds it",
    ]


def test_a_full_run_has_kube_mgmt_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kube-mgmt"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("FAIRLEAD_KUBE_MGMT", str(program))
    assert [*runs.full(Progress()).peers] == [*PEERS]
    monkeypatch.setenv("FAIRLEAD_KUBE_MGMT", str(tmp_path / "none"))
    without = runs.full(Progress()).peers
    assert [peer for peer in PEERS if peer not in without] == [WITH_KUBE_MGMT]


def test_the_policies_of_peers_are_formatted() -> None:
    assert cli.fmt(paths.root() / "bench" / "peers", Progress()) == []


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({}, True),
        ({"nodeSelector": {"agentpool": "pool1"}}, True),
        ({"nodeSelector": {"agentpool": "pool2"}}, False),
        ({"nodeSelector": {"disk": "ssd"}}, False),
        ({"nodeName": "node-1"}, False),
    ],
)
def test_the_handwritten_policies_place_pods(spec: dict[str, Any], allowed: bool) -> None:
    (peer,) = (peer for peer in PEERS if peer.name == "handwritten CEL")
    objects = list(yaml.safe_load_all(HANDWRITTEN.read_text()))
    container = {"name": "c", "image": "nginx"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [container], **spec},
    }
    review = admission_reviews.build(pod, namespace=peer.namespace)
    labels = {peer.namespace: {peer.label: POOL}}
    (decided,) = offline.decide(objects, [review], labels, progress=Progress())
    assert isinstance(decided, Decision)
    assert decided.allowed == allowed
    if allowed:
        assert decided.object["spec"]["nodeSelector"] == {"agentpool": POOL}


def rows() -> list[dict[str, Any]]:
    """Two figures of three peers, without a policy first."""
    run = {"at": "2026-01-02T03:04:05+00:00", "machine": "2 processors", "load": 1.5, "seed": 1}
    measured = {"rounds": 3, "floor": NO_POLICY, "ratio_quartiles": [1.5, 2.5], "run": run}
    return [
        figures.row(
            suite, peer.name, 10, "m", "ms", ratio_to_floor=2.0, clients=clients, **measured
        )
        for suite, clients in (("latency", 1), ("latency", 8), ("throughput", 16))
        for peer in PEERS[:3]
    ]


def test_the_picture_shows_every_peer_but_the_floor(tmp_path: Path) -> None:
    svg, png = tmp_path / "x.svg", tmp_path / "x.png"
    further = figures.row("memory", "etcd", 10, "m", "MiB", p50=1)
    picture.draw([*rows(), further], svg, png)
    text = svg.read_text()
    picture.draw([further], tmp_path / "none.svg", tmp_path / "none.png")
    assert not (tmp_path / "none.svg").exists()
    assert text.count(f">{PEERS[1].name}<") == text.count(f">{PEERS[2].name}<") == 2
    assert ">2 processors; 2026-01-02; load average 1.5 to 1.5<" in text
    assert f">{NO_POLICY}<" not in text
    assert "etcd" not in text
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_figures_of_this_checkout_keep_the_contract() -> None:
    every = json.loads((paths.root() / "bench" / "results.json").read_text())
    fields = {"suite", "peer", "n", "metric", "unit", "p50", "p99", "ratio_to_floor", "run"}
    assert [row for row in every if not fields <= row.keys()] == []
    assert {row["suite"] for row in every} == {*runs.SUITES, "processor"}
    numbers = [row[key] for row in every for key in ("p50", "p99", "ratio_to_floor")]
    assert all(number is None or math.isfinite(number) for number in numbers)
