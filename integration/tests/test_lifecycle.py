"""Clusters start, describe themselves, and leave nothing behind however they end; through the
command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_processes import processes
from waits import until

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.remote import of_context
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.programs import toolchain

pytestmark = pytest.mark.embedded("it is about the processes of embedded clusters")

FAIRLEAD = [sys.executable, "-m", "fairlead"]


def fairlead(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*FAIRLEAD, *arguments], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a cluster that is stopped afterwards."""
    chosen = f"life-{os.getpid()}-{abs(hash(request.node.name)) % 10_000}"
    yield chosen
    fairlead("down", "--name", chosen)
    assert processes(chosen) == []
    assert not paths.state(chosen).exists()


def test_up_status_logs_and_down(name: str) -> None:
    started = fairlead("up", "--name", name, "--nodes", "pool1=1")
    assert started.stdout.startswith("export KUBECONFIG=")
    assert started.stderr.endswith(
        f"cluster {name} is running: `fairlead down --name {name}` removes it\n"
    )
    state: dict[str, Any] = json.loads(fairlead("status", "--name", name, "-o", "json").stdout)
    expected = {
        "name",
        "cluster",
        "kubeconfig",
        "engine",
        "sidecar",
        "opa",
        "policies",
        "certificates",
    }
    assert expected <= state.keys()
    assert (state["name"], state["cluster"], state["engine"], state["sidecar"]) == (
        name,
        "embedded",
        "opa",
        "sync",
    )
    again = fairlead("up", "--name", name)
    assert "running already; nothing was changed" in again.stderr
    later = json.loads(fairlead("status", "--name", name, "-o", "json").stdout)
    (opa,) = state["opa"]
    (opa_later,) = later["opa"]
    assert opa.pop("confirmed") <= opa_later.pop("confirmed")
    assert later == state
    assert state["problems"] == []
    assert "loaded policy" in fairlead("logs", "sidecar", "--name", name).stdout
    assert "no server 'x'" in fairlead("logs", "x", "--name", name, code=2).stderr
    pods = Path(__file__).parents[2] / "testdata" / "demo.yaml"
    kubectl = toolchain.ensure(["kubectl"])["kubectl"]
    applied = subprocess.run(
        [kubectl, "--kubeconfig", state["kubeconfig"], "apply", "-f", pods],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pod/train created" in applied.stdout
    assert 'pod "sneaky" sets spec.nodeSelector' in applied.stderr
    context = ("--context", f"fairlead-{name}", "--kubeconfig", state["kubeconfig"])
    by_context = fairlead("status", *context, "-o", "json")
    assert json.loads(by_context.stdout)["cluster"] == "embedded"
    said = f"context fairlead-{name} leads to the embedded cluster {name}, which Fairlead made"
    assert by_context.stderr == f"{said}\n"
    deployed = fairlead("deploy", *context, "-o", "json")
    assert deployed.stderr.startswith(said)
    assert {row["action"] for row in json.loads(deployed.stdout)} == {"unchanged"}
    assert f"deploy: applied {len(json.loads(deployed.stdout))} objects (" in deployed.stderr
    assert fairlead("down", "--name", name).stderr == f"{name} was removed\n"
    assert processes(name) == []
    message = fairlead("down", "--name", name).stderr
    assert f"there is no cluster {name!r} in " in message
    assert "nothing to do. Another installation of Fairlead ends its clusters itself" in message
    assert f"up --name {name}" in fairlead("status", "--name", name, code=2).stderr


def test_no_copy_of_its_credentials_outlives_it(name: str) -> None:
    """`--context` copies a kubeconfig into .fairlead, beside the clusters."""
    state = paths.state(name)
    with BareCluster(name) as cluster:
        cluster.start_control_plane(progress=Progress())
        copy = of_context(None, cluster.kubeconfig).kubeconfig
        assert copy.is_relative_to(state.parent)
        key = yaml.safe_load(copy.read_text())["users"][0]["user"]["client-key-data"]
        cluster.detach()
        fairlead("down", "--name", name)
    left = [path for path in state.parent.glob("context-*/*") if key in path.read_text()]
    assert left == []


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name
)
def test_an_interrupted_up_leaves_no_process(name: str, how: signal.Signals) -> None:
    up = subprocess.Popen([*FAIRLEAD, "up", "--name", name], stderr=subprocess.PIPE, text=True)
    assert up.stderr is not None
    for line in up.stderr:
        if line.startswith("kube-apiserver: ready"):
            break
    assert processes(name)
    up.send_signal(how)
    rest = up.stderr.read()
    assert up.wait(timeout=240) != 0
    if how != signal.SIGKILL:
        assert rest.splitlines()[-2:] == ["error: interrupted", f"{name} was removed"]
    up.stderr.close()
    until(lambda: not processes(name), what="all of it has ended")


def test_the_demo_tells_what_landed_where_and_leaves_nothing() -> None:
    rows = json.loads(fairlead("demo", "--name", f"demo-{os.getpid()}", "-o", "json").stdout)
    assert all(
        row.keys() == {"namespace", "pod", "pool", "node", "phase", "allowed", "message"}
        for row in rows
    )
    placed = [row for row in rows if row["allowed"] and row["pool"]]
    assert len(placed) == 5
    assert all(
        row["phase"] == "Running" and row["node"].startswith(f"{row['pool']}-") for row in placed
    )
    assert {row["namespace"] for row in rows} == {"training", "analytics", "sandbox", "batch"}
    assert [row["pod"] for row in rows if not row["allowed"]] == ["sneaky", "direct"]
    assert processes(f"demo-{os.getpid()}") == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_of_placement_leaves_nothing(
    how: signal.Signals, tmp_path: Path
) -> None:
    demo = subprocess.Popen(
        [*FAIRLEAD, "demo", "--federation"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert demo.stderr is not None
    for line in demo.stderr:
        if line.startswith("kube-apiserver: ready"):
            break
    assert processes("federation")
    demo.send_signal(how)
    _, rest = demo.communicate(timeout=240)
    assert demo.returncode == 130
    assert "error: interrupted" in rest
    until(lambda: not processes("federation"), what="all of it has ended")
    assert list(tmp_path.glob("fairlead-demo-*")) == []


def test_a_place_that_is_taken_and_an_illegal_name_are_told(name: str) -> None:
    paths.state(name).parent.mkdir(exist_ok=True)
    paths.state(name).write_text("a file where the cluster's folder would be")
    try:
        assert str(paths.state(name)) in fairlead("up", "--name", name, code=1).stderr
    finally:
        paths.state(name).unlink()
    assert "cannot name a cluster" in fairlead("up", "--name", "No_Name", code=2).stderr


def test_two_clusters_run_side_by_side(name: str) -> None:
    other = f"{name}-b"
    try:
        fairlead("up", "--name", name, "--nodes", "pool1=1")
        fairlead("up", "--name", other, "--nodes", "pool1=1")
        fairlead("down", "--name", other)
        assert processes(other) == []
        state = json.loads(fairlead("status", "--name", name, "-o", "json").stdout)
        assert [opa["ready"] for opa in state["opa"]] == [True]
    finally:
        fairlead("down", "--name", other)
        shutil.rmtree(paths.state(other), ignore_errors=True)
