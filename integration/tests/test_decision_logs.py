"""Decision logs of a running cluster: each decision is found by its uid and counted, and no secret
is logged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import decision_logs, deploy, rotate
from fairlead.settings.models import DecisionLogs, LogService, Settings

pytestmark = pytest.mark.embedded(
    "it counts the decisions of a single OPA, which sends them to a server of this process"
)

SECRET = "hunter2-hunter2"
CONTAINER = {
    "name": "c",
    "image": "nginx",
    "command": ["run", SECRET],
    "args": [f"--password={SECRET}"],
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "livenessProbe": {
        "httpGet": {
            "path": "/",
            "port": 80,
            "httpHeaders": [{"name": "Authorization", "value": SECRET}],
        }
    },
}
Make = Callable[..., Any]


def eventually(check: Callable[[], Any], what: str) -> Any:
    return waiting.until(check, deadline=30, what=what)


def requests_of(cluster: EmbeddedCluster) -> dict[str, Any]:
    """The logged requests by their uid. Nothing is logged of inputs that are not reviews."""
    shown = [
        (entry.get("input") or {}).get("request") for entry in decision_logs.decisions(cluster)
    ]
    return {request["uid"]: request for request in shown if request}


def count(cluster: EmbeddedCluster, intent: str, outcome: str) -> float:
    server, *_ = cluster.sidecars()
    with requests.Session() as session:
        session.trust_env = False
        page = session.get(f"{server.url}/metrics", verify=str(server.ca), timeout=10).text
    match = re.search(
        rf'^fairlead_decisions_total{{intent="{intent}",outcome="{outcome}"}} (\S+)$',
        page,
        re.MULTILINE,
    )
    return float(match[1]) if match else 0.0


def refused(objects: clients.Objects, manifest: dict[str, Any]) -> str:
    """The uid in the message of a refusal."""
    with pytest.raises(Refused) as caught:
        objects.create(manifest)
    match = re.search(r"\[decision ([-0-9a-f]+)\]", str(caught.value))
    assert match
    return match[1]


def test_a_refusal_names_the_uid_by_which_its_decision_is_found(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    uid = refused(objects, pod(at, nodeSelector={"agentpool": "pool2"}))
    eventually(lambda: uid in requests_of(cluster), f"decision {uid} is logged")
    (entry,) = decision_logs.decisions(cluster, uid)
    request = entry["input"]["request"]
    assert (request["namespace"], request["operation"], request["kind"]["kind"]) == (
        at,
        "CREATE",
        "Pod",
    )
    assert request["object"]["spec"]["nodeSelector"] == {"agentpool": "pool2"}
    assert request["userInfo"]["username"]
    assert entry["result"]["response"]["allowed"] is False


def test_nothing_that_may_be_secret_is_logged(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make, token: str
) -> None:
    at = namespace(agentpool="pool1")
    manifest = pod(
        at,
        containers=[CONTAINER],
        initContainers=[{**CONTAINER, "name": "i", "livenessProbe": None}],
    )
    manifest["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": SECRET
    }
    objects.create(manifest)
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {**manifest["spec"], "nodeName": "n"}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    objects.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": at},
            "spec": spec,
        }
    )
    uid = refused(objects, {**manifest, "spec": {**manifest["spec"], "nodeName": "n"}})
    eventually(lambda: uid in requests_of(cluster), f"decision {uid} is logged")
    ours = [request for request in requests_of(cluster).values() if request.get("namespace") == at]
    assert {request["kind"]["kind"] for request in ours} >= {"Pod", "Deployment"}
    for server in cluster.servers():
        text = "".join(cluster.logs(server, 1_000_000, False))
        assert SECRET not in text, server
        assert token not in text, server


def test_decisions_are_counted(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    placed, denied = (count(cluster, "node-pool", outcome) for outcome in ("placed", "denied"))
    objects.create(pod(at))
    refused(objects, pod(at, "other", nodeSelector={"a": "b"}))
    eventually(lambda: count(cluster, "node-pool", "placed") > placed, "the placed pod is counted")
    eventually(lambda: count(cluster, "node-pool", "denied") > denied, "the refused pod is counted")


def test_decisions_are_logged_after_a_new_ca_too(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    rotate.certificate(cluster, progress=Progress())
    uid = refused(objects, pod(namespace(agentpool="pool1"), nodeSelector={"a": "b"}))
    eventually(lambda: uid in requests_of(cluster), f"decision {uid} is logged")


def test_fairlead_logs_finds_a_decision_by_its_uid(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    uid = refused(objects, pod(namespace(agentpool="pool1"), nodeSelector={"a": "b"}))
    asked = [
        sys.executable,
        "-m",
        "fairlead",
        "logs",
        "decisions",
        f"--name={cluster.name}",
        f"--id={uid}",
    ]

    def logged_decision() -> str | None:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout or None

    decision = json.loads(eventually(logged_decision, f"decision {uid} is found"))
    assert decision["input"]["request"]["uid"] == uid
    unknown = subprocess.run(
        [*asked[:-1], "--id=unknown"], capture_output=True, text=True, check=False
    )
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no decision unknown in the logs of " in unknown.stderr


def test_a_deployment_brings_the_secret_of_a_service_to_opa_and_asks_for_one_that_is_missing(
    cluster: EmbeddedCluster, objects: clients.Objects, settings: Settings
) -> None:
    service = LogService(url="https://127.0.0.1:1", secret="decision-logs", private_authority=True)
    chosen = settings.model_copy(update={"decision_logs": DecisionLogs(service=service)})
    with pytest.raises(
        UsageError, match="there is no Secret decision-logs in namespace fairlead: create it first"
    ):
        deploy.deploy(cluster, chosen, progress=Progress())
    metadata = {"name": "decision-logs", "namespace": NAMESPACE}
    data = {"token": "the-token", "ca.crt": cluster.opas()[0].ca.read_text()}
    objects.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})
    try:
        deploy.deploy(cluster, chosen, progress=Progress())
        pid = cluster.opas()[0].pid
        arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        paths = dict(
            argument.split("=", 2)[1:]
            for argument in arguments
            if argument.startswith("--set=services.logs.")
        )
        token = Path(paths["services.logs.credentials.bearer.token_path"])
        assert (token.read_text(), token.stat().st_mode & 0o077) == ("the-token", 0)
        assert Path(paths["services.logs.tls.ca_cert"]).read_text() == data["ca.crt"]
    finally:
        objects.delete("v1", "Secret", "decision-logs", NAMESPACE)
        deploy.deploy(cluster, settings, progress=Progress())
