"""`fairlead place --watch --apply` on two member clusters: replicas that run there follow a price
and a lost certification, and the share holds on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import placed
import pytest
import yaml
from federations import BOTH, CLUSTERS, TEMPLATE, Federation
from waits import until
from watched_replicas import watched

from fairlead.clusters import registry

pytestmark = pytest.mark.skipif(
    registry.of_environment().kind != "embedded", reason="the members are embedded clusters"
)
ASKED = 6
AT_ONCE = 2


class Scenario:
    """A folder with an application and data, in which clusters differ by prices and
    certifications.
    """

    def __init__(self, folder: Path, federation: Federation) -> None:
        self.manifests = folder / "app.yaml"
        self.data = folder / "data.yaml"
        self.log = folder / "log"
        self.federation = federation
        workload = federation.web(BOTH).document.value
        workload["metadata"]["annotations"] = {"customer": "northwind"}
        container = workload["spec"]["template"]["spec"]["containers"][0]
        requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
        workload["spec"]["template"]["spec"]["containers"] = [{**container, "resources": requests}]
        self.manifests.write_text(
            yaml.safe_dump_all([federation.object("Namespace"), workload], sort_keys=False)
        )

    def write(self, prices: Sequence[float], certifications: Sequence[Sequence[str]]) -> None:
        """The prices and the certifications of CLUSTERS, in that order."""
        clusters: dict[str, Any] = {
            name: {
                "jurisdiction": "eu",
                "location": "on-prem",
                "certifications": list(held),
                "price": {"cpu": price, "memory": 0},
            }
            for name, price, held in zip(CLUSTERS, prices, certifications, strict=True)
        }
        customers = {"northwind": {"jurisdictions": ["eu"], "certifications": ["soc2"]}}
        placement = {"clusters": clusters, "customers": customers}
        new = self.data.with_suffix(".new")
        new.write_text(json.dumps({"placement": placement}))
        new.replace(self.data)

    @contextmanager
    def watching(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The command, as users have it; it ends with the block."""
        members = self.federation.clusters.items()
        named = [f"--member={name}=fairlead-{cluster.name}" for name, cluster in members]
        kubeconfigs = ":".join(str(cluster.kubeconfig) for _, cluster in members)
        files = [f"--filename={self.manifests}", f"--data={self.data}"]
        arguments = ["place", "--watch", "--share=0.34", *files, *named, *options]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "KUBECONFIG": kubeconfigs},
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def until_logged(self, text: str, times: int = 1) -> None:
        until(
            lambda: self.log.read_text().count(text) >= times,
            what=f"the log has {text!r}: {self.log.read_text()}",
        )


@pytest.fixture
def scenario(federation: Federation, tmp_path: Path) -> Scenario:
    return Scenario(tmp_path, federation)


def test_replicas_follow_prices_and_certifications(scenario: Scenario) -> None:
    scenario.write((1, 2), (["soc2"], ["soc2"]))
    federation = scenario.federation
    with scenario.watching("--apply") as process:
        federation.until_running(ASKED, 0)
        with watched(federation.clusters, federation.namespace) as counts:
            scenario.write((3, 2), (["soc2"], ["soc2"]))
            federation.until_running(0, ASKED)
            scenario.data.write_text("placement: {")  # as an editor leaves it half-way
            scenario.until_logged("is not valid YAML")
            scenario.write((3, 2), (["soc2"], []))
            federation.until_running(ASKED, 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    log = scenario.log.read_text()
    assert min(counts.ready) >= ASKED - AT_ONCE
    assert max(counts.wanted) <= ASKED + AT_ONCE
    title = f"Deployment {federation.namespace}/web"
    moves = [line.split()[2:] for line in log.splitlines() if line.startswith(f"{title} ")]
    eu, us = CLUSTERS
    assert moves == [
        ["-", eu, "6", "-", "6.0"],
        [eu, us, "6", "18.0", "12.0"],
        [us, eu, "6", "12.0", "18.0"],
    ], log
    assert "stopped watching" in log
    assert "Traceback" not in log


def test_a_job_that_runs_is_not_shown_as_moved(scenario: Scenario) -> None:
    federation = scenario.federation
    # Nobody schedules its pods, so that it does not end.
    spec = {**TEMPLATE["spec"], "restartPolicy": "Never", "schedulerName": "nobody"}
    once = placed.placement(
        {CLUSTERS[1]: 1}, kind="Job", namespace=federation.namespace, template={"spec": spec}
    )
    assert federation.carry_out(once).problems == []
    job = once.document.value
    job["metadata"]["annotations"] = {"customer": "northwind"}
    scenario.manifests.write_text(yaml.safe_dump(job))
    scenario.write((1, 1), (["soc2"], []))
    with scenario.watching() as process:
        scenario.until_logged("stays in")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    title = f"Job {federation.namespace}/web"
    stays = (
        f"{title} stays in {CLUSTERS[1]}, as a Job is not moved ({CLUSTERS[1]}: it lacks what "
        'customer "northwind" requires: soc2)'
    )
    lines = scenario.log.read_text().splitlines()
    assert [line for line in lines if title in line] == [stays]


def test_without_apply_moves_are_only_shown(scenario: Scenario) -> None:
    scenario.write((1, 2), (["soc2"], ["soc2"]))
    with scenario.watching() as process:
        scenario.until_logged(CLUSTERS[0])
        scenario.write((3, 2), (["soc2"], ["soc2"]))
        scenario.until_logged(CLUSTERS[1])
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert scenario.federation.running() == dict.fromkeys(CLUSTERS, 0)
