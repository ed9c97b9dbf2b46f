"""`make scale`: what it creates, what it finds wrong with pods, and what it writes then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.common import paths
from lab.bench import pictures
from lab.chaos.invariants import Attempt
from lab.scale import picture, plan, pools, report
from lab.scale.plan import POOLS, Size
from lab.scale.run import Run

SIZE = Size(namespaces=30, nodes=12, pods=90, seed=1)
WHERE = {("shop", "web"): "gpu", ("bank", "api"): "cheap"}
NODES = {"gpu-0": "gpu", "cheap-0": "cheap"}


def pod(namespace: str, name: str, pool: str | None, node: str | None, phase: str) -> Any:
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeSelector": {"agentpool": pool} if pool else {}, "nodeName": node},
        "status": {"phase": phase},
    }


API = pod("bank", "api", "cheap", "cheap-0", "Running")


def test_every_namespace_has_pods_and_every_pool_has_nodes() -> None:
    planned = plan.drawn(SIZE)
    assert Counter(namespace for namespace, _ in planned.pods) == dict.fromkeys(planned.pools, 3)
    assert len(set(planned.pods)) == 90
    assert set(planned.pools.values()) == set(POOLS)
    assert list(planned.nodes.values()) == [3, 3, 2, 2, 2]


def test_the_seed_draws_pools_and_the_order_of_pods() -> None:
    assert plan.drawn(SIZE) == plan.drawn(SIZE)
    other = plan.drawn(Size(30, 12, 90, seed=2))
    assert other.pods != plan.drawn(SIZE).pods
    assert other.pools != plan.drawn(SIZE).pools


@pytest.mark.parametrize(
    ("web", "wrong", "words"),
    [
        ([pod("shop", "web", "gpu", "gpu-0", "Running")], [], None),
        (
            [pod("shop", "web", None, "gpu-0", "Running")],
            [pools.UNPLACED],
            "of 2 pods, 1 lack the assignment of their pool (such as shop/web)",
        ),
        (
            [pod("shop", "web", "cheap", "cheap-0", "Running")],
            [pools.UNPLACED, pools.WRONG_NODE],
            "of 2 pods, 1 lack the assignment of their pool (such as shop/web), 1 are on a node of "
            "another pool (such as shop/web)",
        ),
        (
            [pod("shop", "web", "gpu", "unknown", "Running")],
            [pools.WRONG_NODE],
            "of 2 pods, 1 are on a node of another pool (such as shop/web)",
        ),
        (
            [pod("shop", "web", "gpu", "gpu-0", "Pending")],
            [pools.NOT_RUNNING],
            "of 2 pods, 1 do not run (such as shop/web)",
        ),
        (
            [pod("shop", "web", "gpu", None, "Running")],
            [pools.NOT_RUNNING],
            "of 2 pods, 1 do not run (such as shop/web)",
        ),
        ([], [pools.MISSING], "of 2 pods, 1 were not created (such as shop/web)"),
    ],
)
def test_a_pod_that_is_not_where_its_pool_says_is_told(
    web: list[Any], wrong: list[str], words: str | None
) -> None:
    stranger = pod("kube-system", "dns", None, "cheap-0", "Pending")
    result = pools.misplaced([*web, API, stranger], WHERE, NODES)
    assert [what for what, names in result.items() if names == ["shop/web"]] == wrong
    assert sum(map(len, result.values())) == len(wrong)
    assert pools.complaint(result, 2) == words


def result(wrong: pools.Misplaced) -> Run:
    """Of two pods, the first was refused once; of the servers, only two are known."""
    planned = plan.drawn(Size(namespaces=1, nodes=5, pods=2, seed=1))
    (first, second), pool = planned.pods, planned.pools["team-0"]
    attempts = [
        Attempt("team-0", None, "(namespace)", "namespace", 0.0, 0.1, 201, ""),
        Attempt(*first[:1], pool, first[1], "plain", 1.0, 1.1, 500, "failed calling webhook"),
        Attempt(*first[:1], pool, first[1], "plain", 1.5, 1.6, 201, ""),
        Attempt(*second[:1], pool, second[1], "plain", 2.0, 2.2, 201, ""),
    ]
    series = {
        "seconds": [0.0, 1.0, 2.0],
        "created": [0, 1, 1],
        "failed": [0, 1, 0],
        "p50": [None, 100.0, 200.0],
        "p99": [None, 100.0, 200.0],
        "pending": [0, 1, 0],
        "memory": {"opa": [70, 0, 80], "sync": [60, 0, 60]},
    }
    marks = {"pods": 1.0, "resync": 1.2, "resynced": 1.4, "created": 2.2, "running": 2.6}
    return Run(planned, attempts, {first: 1.9, second: 2.6}, wrong, marks, {"opa": 0.5}, series)


def test_a_run_complains_of_pods_and_of_a_resync_that_did_not_end() -> None:
    good = result({what: [] for what in pools.WORDS})
    assert good.complaint() is None
    bad = replace(good, wrong={**good.wrong, pools.MISSING: ["team-0/pod-0"]})
    assert bad.complaint() == "of 2 pods, 1 were not created (such as team-0/pod-0)"
    unfinished = replace(good, marks={"pods": 1.0, "resync": 1.2})
    assert "did not get everything again" in str(unfinished.complaint())


def test_the_summary_counts_attempts_that_failed_and_what_they_delayed() -> None:
    summary = report.summary(result({pools.UNPLACED: ["team-0/pod-0"], pools.MISSING: []}))
    assert summary["asked"]["pods"] == 2
    assert summary["placement"] == {"unplaced": 1, "missing": 0}
    assert summary["failed"] == {"attempts": 1, "pods": 1, "why": {"failed calling webhook": 1}}
    assert summary["milliseconds"] == {"p50": 100.0, "p99": 200.0, "most": 200.0}
    assert summary["waited"] == {"p50": 0.6, "p99": 0.6, "most": 0.6}
    assert summary["started"] == {"p50": 0.3, "p99": 0.4, "most": 0.4}
    assert report.servers(summary) == [
        {"server": "opa", "peak": 80, "processor": 0.5},
        {"server": "sync", "peak": 60, "processor": None},
    ]


def test_the_document_is_json_with_a_line_for_each_list_and_has_a_picture() -> None:
    run = result({})
    document = {
        "run": {"at": "2026-11-24T09:00:00+00:00", "machine": "a machine", "load": 1.0},
        "summary": report.summary(run),
        "series": run.series,
    }
    text = report.text(document)
    assert json.loads(text) == json.loads(json.dumps(document))
    assert '  "created": [0, 1, 1],\n' in text
    drawn = pictures.svg(picture.picture(document))
    for words in ("1 namespaces, 5 nodes, 2 pods; a machine", ">opa<", ">resync<", "Memory of"):
        assert words in drawn


def test_fewer_nodes_than_pools_are_wrong_usage(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab", "scale", "--nodes", "4", "--output", tmp_path],
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 2
    assert "'--nodes': 4 is not in the range 5<=x<=2000" in done.stderr
    assert list(tmp_path.iterdir()) == []
