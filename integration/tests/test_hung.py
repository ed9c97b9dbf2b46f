"""A hung server is detected by its liveness probe and restarted, as a kubelet does it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import suspension
from command_line import fairlead
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaUnavailable
from fairlead.operations.deploy import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import STALENESS, Settings

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded("it stops processes of this machine")

MAIN = f"{NAMESPACE}/{POLICIES}/main.rego"


@pytest.fixture
def hang() -> Iterator[Callable[[int | None], None]]:
    """Stops a process. It is continued after the test if it still exists."""
    stopped = []

    def stop(pid: int | None) -> None:
        suspension.suspend(pid)
        stopped.append(pid)

    yield stop
    for pid in stopped:
        suspension.resume(pid)


def told(cluster: EmbeddedCluster) -> tuple[int, list[str], str]:
    """The exit code of `fairlead status`, its problems, and its table."""
    command = ("status", "--name", cluster.name)
    asked, shown = fairlead(*command, "-o", "json"), fairlead(*command)
    return asked.returncode, json.loads(asked.stdout)["problems"], shown.stdout


def is_well(cluster: EmbeddedCluster) -> bool:
    code, problems, shown = told(cluster)
    assert (code == 0) == (problems == [])
    return code == 0 and shown.splitlines()[-1] == "no problems"


def test_a_sidecar_that_hangs_is_told_and_started_again(
    cluster: EmbeddedCluster, hang: Callable[[int | None], None]
) -> None:
    """A stopped process still accepts connections, so its open port shows nothing."""
    until(lambda: is_well(cluster), what="all is well")
    (sidecar,) = cluster.sidecars()
    with suspension.unprobed(f"{sidecar.url}/live"):
        hang(sidecar.pid)
        code, problems, shown = told(cluster)
    assert (code, len(problems)) == (1, 1)
    assert "the sidecar beside opa is not ready: it does not answer" in problems[0]
    assert re.search(
        r"its data were last confirmed at \d{4}-\d\d-\d\dT\S+Z, \d+ s ago", problems[0]
    )
    assert "does not answer" in shown
    runs_again(cluster, "sync", sidecar.pid)


def test_an_opa_that_hangs_is_told_and_started_again(
    cluster: EmbeddedCluster, hang: Callable[[int | None], None]
) -> None:
    until(lambda: is_well(cluster), what="all is well")
    (opa,) = cluster.opas()
    with suspension.unprobed(f"{opa.url}/health"):
        hang(opa.pid)
        code, problems, _ = told(cluster)
    assert code == 1
    assert problems[0].startswith("opa cannot be asked: ")
    runs_again(cluster, "opa", opa.pid)


def runs_again(cluster: EmbeddedCluster, server: str, before: int | None) -> None:
    """Wait until a hung server was restarted and everything works."""
    began = time.monotonic()
    until(lambda: cluster.servers()[server]["pid"] not in (before, None), what="it runs again")
    print(f"{server} was started again after {time.monotonic() - began:.1f} s")  # noqa: T201
    until(lambda: is_well(cluster), what="all is well again")


def test_a_sidecar_that_is_gone_is_told(cluster: EmbeddedCluster, settings: Settings) -> None:
    cluster.stop_server("sync")
    try:
        code, problems, _ = told(cluster)
        assert code == 1
        assert problems[0].startswith(
            "no sidecar runs beside opa; its data were last confirmed at "
        )
    finally:
        deploy(cluster, PolicySet.load(settings), progress=Progress())
    until(lambda: is_well(cluster), what="all is well again")


def test_an_opa_without_policies_refuses_in_the_words_that_the_docs_explain(
    cluster: EmbeddedCluster,
    opa: OpaApi,
    objects: clients.Objects,
    namespace: Callable[..., str],
    pod: Callable[..., dict[str, Any]],
    hang: Callable[[int | None], None],
) -> None:
    at = namespace(agentpool="pool1")
    (sidecar,) = cluster.sidecars()
    with suspension.unprobed(f"{sidecar.url}/live"):
        hang(sidecar.pid)
        opa.remove_policy(MAIN)
        with pytest.raises(Refused) as refused:
            objects.create(pod(at))
        code, problems, _ = told(cluster)
    message = "failed to call webhook: OPA is starting: retry in a second"
    assert message in str(refused.value)
    page = (paths.root() / "docs" / "operations.md").read_text()
    assert "OPA is starting: retry in a second" in page
    assert code == 1
    assert problems[0].startswith("opa is not Ready; its data were last confirmed at ")
    runs_again(cluster, "sync", sidecar.pid)


@pytest.fixture
def bounded(cluster: EmbeddedCluster, settings: Settings) -> Iterator[int]:
    """Deploys the smallest maxStaleness; returns it in seconds."""
    least = STALENESS[0]
    deploy(
        cluster,
        PolicySet.load(settings.model_copy(update={"max_staleness": least})),
        progress=Progress(),
    )
    yield least
    deploy(cluster, PolicySet.load(settings), progress=Progress())


def ready(opa: OpaApi) -> bool:
    try:
        return opa.ready()
    except OpaUnavailable:
        return False


def test_an_opa_whose_data_nobody_confirms_is_not_ready(
    cluster: EmbeddedCluster, opa: OpaApi, bounded: int, hang: Callable[[int | None], None]
) -> None:
    """The sidecar sees open watches, so its own liveness probe must go on to succeed."""
    servers = cluster.servers()
    until(lambda: ready(opa), what="it is Ready")
    assert (opa.document(["fairlead_confirmed"]) or {})["within"] == bounded
    api_server = servers["kube-apiserver"]["pid"]
    hang(api_server)
    until(lambda: not ready(opa), what="it is not Ready while the API server hangs")
    suspension.resume(api_server)
    until(lambda: ready(opa), what="it is Ready again")
    assert cluster.servers()["sync"]["pid"] == servers["sync"]["pid"]
    hang(servers["sync"]["pid"])
    until(lambda: not ready(opa), what="it is not Ready while the sidecar hangs")
    until(lambda: ready(opa), what="it is Ready again, as the sidecar was restarted")
