"""A cluster that Fairlead did not create, through the command line: pods, a Service, ports and logs
work as in any other."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from foreign import Foreign
from kubernetes import client
from waits import until

from fairlead.clusters import pod_deployment, remote, webhook_connections
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.deployment.credentials import LOOPBACK, SERVICE_NAMES
from fairlead.deployment.names import (
    CERTIFICATE_LEASE,
    CREDENTIALS_ANNOTATION,
    NAMESPACE,
    OPA_PODS,
)
from fairlead.kube import clients
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaRefused
from fairlead.operations import deployed_state, rotate, transient_access
from fairlead.pki import certificates
from fairlead.policy import policy_files

PROFILES = ["foreign"]
pytestmark = pytest.mark.embedded("its nodes are simulated")

FAIRLEAD = [sys.executable, "-m", "fairlead"]


@pytest.fixture(scope="module")
def bare(undeployed: Foreign) -> Foreign:
    """The cluster, at first without Fairlead."""
    return undeployed


@pytest.fixture(scope="module")
def foreign(bare: Foreign) -> Foreign:
    """The cluster with Fairlead deployed into it."""
    fairlead(bare, "deploy", "--sidecar", "sync", "--yes")
    return bare


@pytest.fixture
def deployed(foreign: Foreign) -> Iterator[remote.RemoteCluster]:
    """The same cluster as an object of the library."""
    cluster = remote.of_context(foreign.context, foreign.kubeconfig)
    yield cluster
    cluster.stop()


def fairlead(
    cluster: Foreign, *arguments: str, code: int = 0, stdin: int = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    chosen = ("--context", cluster.context, "--kubeconfig", str(cluster.kubeconfig))
    done = subprocess.run(
        [*FAIRLEAD, *arguments, *chosen],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        stdin=stdin,
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def result(cluster: Foreign, *arguments: str, code: int = 0) -> Any:
    return json.loads(fairlead(cluster, *arguments, "-o", "json", code=code).stdout)


def created(cluster: Foreign, namespace: str) -> dict[str, Any]:
    """A pod after admission in a namespace that is mapped to pool1."""
    objects = cluster.objects()
    objects.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": POOL}}
    )
    metadata = {"name": "web", "namespace": namespace}
    spec = {
        "containers": [{"name": "main", "image": "nginx:1.29"}],
        "serviceAccountName": "default",
    }
    objects.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "name": "default"}}
    )
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return dict(objects.apply(pod, dry_run=True)["spec"].get("nodeSelector") or {})


POOL = {"agentpool": "pool1"}


def test_who_cannot_be_asked_is_told_to_say_yes_and_nothing_changes(bare: Foreign) -> None:
    for command, doing in {"deploy": "deploy into", "uninstall": "uninstall from"}.items():
        stderr = fairlead(bare, command, code=2).stderr
        assert f"this would {doing} a cluster that Fairlead did not create" in stderr
        assert f"context {bare.context}, server https://127.0.0.1:" in stderr
        assert "2 nodes" in stderr
        assert "--yes" in stderr
    assert bare.objects().get("v1", "Namespace", NAMESPACE) is None


def test_who_says_no_changes_nothing(bare: Foreign) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        stderr = fairlead(bare, "deploy", code=1, stdin=theirs).stderr
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"Fairlead did not create this cluster: context {bare.context}" in stderr
    assert "nothing was changed" in stderr
    assert bare.objects().get("v1", "Namespace", NAMESPACE) is None


def test_a_deployed_cluster_places_pods_and_is_asked_about_no_more(foreign: Foreign) -> None:
    assert created(foreign, "remote-a") == POOL
    assert {row["action"] for row in result(foreign, "deploy")} == {"unchanged"}
    status = result(foreign, "status")
    assert (status["name"], status["cluster"], status["sidecar"]) == (
        foreign.context,
        "context",
        "sync",
    )
    assert [policy["status"] for policy in status["policies"]] == ["ok"]
    assert [(opa["ready"], opa["pid"]) for opa in status["opa"]] == [(True, None)] * 2
    assert {server["name"].partition("/")[2] for server in status["servers"]} == {
        *("opa", "sync", "controller")
    }
    assert Path(status["kubeconfig"]).stat().st_mode & 0o777 == 0o600
    webhook = foreign.objects().get(
        "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "fairlead"
    )
    assert webhook is not None
    assert webhook["webhooks"][0]["clientConfig"]["service"]["name"] == "opa"
    names = [w["metadata"]["name"] for w in webhooks(foreign)]
    assert names == ["fairlead"]


def test_a_push_reaches_the_pods_and_is_taken_back(foreign: Foreign, tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), policies)
    before = result(foreign, "status")["opa"][0]["revision"]
    with (policies / "node_pool" / "node_pool.rego").open("a") as module:
        module.write("\n# another revision\n")
    pushed = result(foreign, "push", "--policies", str(policies))
    assert pushed["previous"] == before
    assert {opa["revision"] for opa in pushed["opa"]} == {pushed["revision"]}
    assert pushed["revision"] != before
    entries = result(foreign, "history")
    assert [entry["action"] for entry in entries[:2]] == ["push", "deploy"]
    assert [entry["current"] for entry in entries[:2]] == [True, False]
    assert result(foreign, "rollback")["revision"] == before


def test_rotations_reach_the_pods_without_waiting_for_a_kubelet(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    old = deployed_state.credentials(foreign.objects())
    assert old is not None
    rotate.token(deployed, progress=Progress())
    result(foreign, "rotate", "cert")
    new = deployed_state.credentials(foreign.objects())
    assert new is not None
    assert (old.token != new.token, old.ca != new.ca) == (True, True)
    for opa in deployed.opas():
        assert deployed_state.served(opa, new.token).ready
        with pytest.raises(OpaRefused):
            OpaApi(opa.url, ca=opa.ca, token=old.token).policies()
    assert created(foreign, "remote-b") == POOL


def test_a_deployment_brings_another_certificate_to_the_pods_without_waiting_for_a_kubelet(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    ended = -timedelta(seconds=1)
    ca = certificates.CA.create("ended", ended)
    pair = ca.issue("opa", dns=SERVICE_NAMES, ips=LOOPBACK, server=True, valid=ended)
    parts = {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem, "ca.crt": ca.cert_pem}
    # Without the Lease no controller renews it: one that came first would keep the deployment
    # waiting.
    foreign.objects().delete("coordination.k8s.io/v1", "Lease", CERTIFICATE_LEASE, NAMESPACE)
    rotate._apply_secret(foreign.objects(), "opa-tls", parts)
    deployed.refresh({"opa-tls": parts})
    result(foreign, "status", code=1)
    pods_before = {p.metadata.name for p in pods(foreign)}
    configured = [row for row in result(foreign, "deploy") if row["action"] == "configured"]
    assert {(row["kind"], row["name"]) for row in configured} >= {("Secret", "opa-tls")}
    until(
        lambda: all(row["healthy"] for row in transient_access.controllers(deployed)),
        what="the controllers, which missed the Lease, have looked again",
        pause=1,
    )
    status = result(foreign, "status")
    assert [opa["ready"] for opa in status["opa"]] == [True, True]
    assert status["certificates"][0]["warning"] is None
    assert {p.metadata.name for p in pods(foreign)} == pods_before
    assert created(foreign, "remote-b") == POOL


def test_logs_are_those_of_the_pods(foreign: Foreign) -> None:
    servers = [server["name"] for server in result(foreign, "status")["servers"]]
    opas, syncs = (
        [name for name in servers if name.endswith(f"/{container}")]
        for container in ("opa", "sync")
    )
    assert (len(opas), len(syncs)) == (2, 2)
    text = "".join(f"[{name}] line {number} of opa\n" for name in opas for number in range(3))
    assert fairlead(foreign, "logs").stdout == text
    for name in ("sidecar", "sync"):
        assert fairlead(foreign, "logs", name, "-n", "1").stdout == "".join(
            f"[{n}] line 2 of sync\n" for n in syncs
        )
    server = syncs[0]
    assert fairlead(foreign, "logs", server, "-n", "1").stdout == "line 2 of sync\n"
    assert f"one of {server.partition('/')[0]}/opa" in fairlead(foreign, "logs", "x", code=2).stderr


def test_the_controller_is_waited_for_and_asked(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    controllers = deployed.controllers()
    assert {f"{server.pod}/controller" for server in controllers} <= deployed.servers().keys()
    rows = result(foreign, "status")["controllers"]
    # Without the setting `access`, none of them gives any.
    assert [(row["healthy"], row["leading"]) for row in rows] == [(True, None)] * 2


def test_a_log_is_followed(foreign: Foreign, deployed: remote.RemoteCluster) -> None:
    first, second = (name for name in deployed.servers() if name.endswith("/opa"))
    pieces = deployed.logs("opa", 1, follow=True)
    lines = {next(pieces), next(pieces)}
    assert lines == {f"[{first}] line 2 of opa\n", f"[{second}] line 2 of opa\n"}
    alone = deployed.logs(first, 1, follow=True)
    text = next(alone)
    with foreign.log_of("opa").open("a") as log:
        log.write("2026-01-01T00:00:09Z stdout F later\n")
    while "later\n" not in text:
        text += next(alone)
    assert text == "line 2 of opa\nlater\n"
    assert {next(pieces), next(pieces)} == {f"[{first}] later\n", f"[{second}] later\n"}


def test_much_goes_through_a_forward_both_ways_and_by_several_at_once(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    opa, *_ = deployed.opas()
    value, token = "x" * 2_000_000, current(foreign).token

    def there_and_back(number: int) -> bool:
        api = OpaApi(opa.url, ca=opa.ca, token=token)
        path = [f"much-{number}"]
        try:
            api.put_document(path, value)
            same = api.document(path) == value
            api.remove_document(path)
        finally:
            api.close()
        return same

    with ThreadPoolExecutor(4) as several:
        assert all(several.map(there_and_back, range(8)))


def test_a_pod_that_is_gone_is_asked_no_more(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    opa, *others = deployed.opas()
    foreign.core.delete_namespaced_pod(pods(foreign)[0].metadata.name, NAMESPACE)
    until(lambda: opa.url not in [o.url for o in deployed.opas()], what="it is gone")
    with pytest.raises(FairleadError, match="cannot be reached"):
        OpaApi(opa.url, ca=opa.ca, token=current(foreign).token).policies()
    until(lambda: len(deployed.opas()) == 2, what="another one is there")
    assert [o in deployed.opas() for o in others] == [True]


def test_a_restart_replaces_the_pods(foreign: Foreign, deployed: remote.RemoteCluster) -> None:
    before = of_opa(deployed)
    deployed.restart(progress=Progress())
    assert before.isdisjoint(of_opa(deployed))
    token = current(foreign).token
    until(
        lambda: (
            [deployed_state.served(opa, token).ready for opa in deployed.opas()] == [True, True]
        ),
        what="the new pods serve",
    )


def test_api_servers_reconnect_once_for_the_same_pods_that_end(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    # kwok ends pods at once, a real kubelet after their grace period
    finalizer = "fairlead.dev/test"
    names = [p.metadata.name for p in pods(foreign)]
    for name in names:
        foreign.core.patch_namespaced_pod(
            name, NAMESPACE, {"metadata": {"finalizers": [finalizer]}}
        )

    def have_ended() -> bool:
        """Whether kwok says so, by a second deletion, whose time the API server then notes."""
        graces = [
            foreign.core.read_namespaced_pod(name, NAMESPACE).metadata.deletion_grace_period_seconds
            for name in names
        ]
        return graces == [0] * len(names)

    try:
        started = webhook_connections.since(foreign.objects())
        deployed.restart(progress=Progress())
        assert webhook_connections.since(foreign.objects()) > started
        until(have_ended, what="the pods have ended, and their finalizers keep them")
        fairlead(foreign, "deploy")
        last = webhook_connections.since(foreign.objects())
        stderr = fairlead(foreign, "deploy").stderr
        assert "opa: all pods ready (" in stderr, "API servers reconnect again for the same pods"
        assert webhook_connections.since(foreign.objects()) == last
    finally:
        for name in names:
            foreign.core.patch_namespaced_pod(name, NAMESPACE, {"metadata": {"finalizers": None}})


def test_a_sidecar_that_reads_its_files_once_gets_new_pods_for_other_ones_alone(
    foreign: Foreign, deployed: remote.RemoteCluster
) -> None:
    deployed.choose(sidecars.KUBE_MGMT)
    digest = current(foreign).digest
    deployed.refresh({"opa-token": {}})
    before = of_opa(deployed)
    apps = client.AppsV1Api(clients.connect(foreign.kubeconfig))
    template: Any = apps.read_namespaced_deployment("opa", NAMESPACE)
    assert template.spec.template.metadata.annotations[CREDENTIALS_ANNOTATION] == digest
    deployed.refresh({"opa-token": {}})
    assert of_opa(deployed) == before
    changed = b64encode(current(foreign).token[::-1].encode()).decode()
    foreign.core.patch_namespaced_secret("opa-token", NAMESPACE, {"data": {"token": changed}})
    deployed.refresh({"opa-token": {}})
    assert before.isdisjoint(of_opa(deployed))


def test_pods_that_do_not_come_up_tell_why(
    foreign: Foreign, deployed: remote.RemoteCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node.metadata.name for node in foreign.core.list_node().items]
    for node in nodes:
        foreign.core.patch_node(node, {"spec": {"unschedulable": True}})
    try:
        monkeypatch.setattr(pod_deployment, "ROLLOUT", 2.0)
        with pytest.raises(
            FairleadError,
            match=r"2 s: .* is Ready:\n  opa-.* cannot be scheduled: 0/2 nodes are available",
        ):
            deployed.restart(progress=Progress())
        monkeypatch.setattr(pod_deployment, "ROLLOUT", 60.0)
        (waits,) = [p for p in pods(foreign) if p.status.phase == "Pending"]
        state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
        status = {
            "name": "opa",
            "image": "example/opa:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        patch = {"status": {"containerStatuses": [status]}}
        foreign.core.patch_namespaced_pod_status(waits.metadata.name, NAMESPACE, patch)
        with pytest.raises(FairleadError) as caught:
            deployed.serve(*[None] * 2, progress=Progress())  # type: ignore[arg-type]
        assert "do not come up" in str(caught.value)
        assert "can pull example/opa:1, or name another by OPA_IMAGE" in str(caught.value)
    finally:
        for node in nodes:
            foreign.core.patch_node(node, {"spec": {"unschedulable": None}})
    deployed.restart(progress=Progress())


def current(cluster: Foreign) -> Any:
    credentials = deployed_state.credentials(cluster.objects())
    assert credentials is not None
    return credentials


def pods(cluster: Foreign) -> list[Any]:
    """The pods of OPA that do not end."""
    return [
        p
        for p in cluster.core.list_namespaced_pod(NAMESPACE, label_selector=OPA_PODS).items
        if not p.metadata.deletion_timestamp
    ]


def of_opa(cluster: remote.RemoteCluster) -> set[str]:
    """The servers in the pods of OPA."""
    return {name for name in cluster.servers() if not name.endswith("/controller")}


def webhooks(cluster: Foreign) -> list[dict[str, Any]]:
    return cluster.objects().list(
        "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", None
    )
