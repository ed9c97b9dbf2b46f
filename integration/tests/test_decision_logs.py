"""Decision logs of a running cluster: each decision is found and counted, and no secret is
logged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests
from command_line import fairlead
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import decision_logs, deploy, rotate
from fairlead.operations.decision_logs import Selection
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import DecisionLogs, LogService, Settings

PROFILES = ["processes"]

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


def requests_of(cluster: EmbeddedCluster) -> dict[str, Any]:
    """The logged requests by their uid. Nothing is logged of inputs that are not reviews."""
    shown = [
        (entry.get("input") or {}).get("request")
        for entry in decision_logs.decisions(cluster, Selection())
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
    """The message of a refusal."""
    with pytest.raises(Refused) as caught:
        objects.create(manifest)
    return caught.value.message


def logged(cluster: EmbeddedCluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """The log entry of the refused object; waits for it."""
    metadata = manifest["metadata"]
    selection = Selection(namespace=metadata["namespace"], name=metadata["name"], denied=True)
    entries = until(lambda: decision_logs.decisions(cluster, selection), f"{metadata} is in a log")
    assert len(entries) == 1
    entry: dict[str, Any] = entries[0]
    return entry


def logs(cluster: EmbeddedCluster, *arguments: str) -> list[str]:
    """The arguments of `fairlead logs decisions` for this cluster."""
    return ["logs", "decisions", f"--name={cluster.name}", *arguments]


def test_equal_requests_are_refused_with_the_same_message(
    objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    manifest = pod(namespace(agentpool="pool1"), nodeSelector={"agentpool": "pool2"})
    messages = [refused(objects, manifest) for _ in range(5)]
    assert messages == messages[:1] * 5
    assert 'pod "web"' in messages[0]


def test_a_refusal_is_found_by_namespace_and_name(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    manifest = pod(at, nodeSelector={"agentpool": "pool2"})
    message = refused(objects, manifest)
    entry = logged(cluster, manifest)
    assert message.endswith(entry["result"]["response"]["status"]["message"])
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
    evading = pod(at, "evading", **{**manifest["spec"], "nodeName": "n"})
    evading["metadata"]["annotations"] = manifest["metadata"]["annotations"]
    refused(objects, evading)
    logged(cluster, evading)
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
    until(lambda: count(cluster, "node-pool", "placed") > placed, "the placed pod is counted")
    until(lambda: count(cluster, "node-pool", "denied") > denied, "the refused pod is counted")


def test_decisions_are_logged_after_a_new_ca_too(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    rotate.certificate(cluster, progress=Progress())
    manifest = pod(namespace(agentpool="pool1"), nodeSelector={"a": "b"})
    refused(objects, manifest)
    logged(cluster, manifest)


def test_fairlead_logs_finds_decisions_by_uid_namespace_and_object(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    objects.create(pod(at, "placed"))
    refused(objects, manifest := pod(at, "web", nodeSelector={"a": "b"}))
    uid = logged(cluster, manifest)["input"]["request"]["uid"]
    for arguments in (
        [f"--id={uid}"],
        [f"--namespace={at}", "--denied"],
        [f"--namespace={at}", "--object=web"],
        [f"--namespace={at}", "--object=w*", "--since=1h"],
    ):
        (entry,) = json.loads(fairlead(*logs(cluster, *arguments, "-o", "json")).stdout)
        assert entry["input"]["request"]["uid"] == uid
    head, *lines = fairlead(*logs(cluster, f"--namespace={at}")).stdout.splitlines()
    assert head.split() == ["TIME", "USER", "REQUEST", "VERDICT", "REASON"]
    rows = [re.split(r" {2,}", line) for line in lines]
    assert ["placed", "pool1; added"] in [row[3:] for row in rows]
    (refusal,) = (line for line in lines if "  refused  " in line)
    for part in ("Z  fairlead-admin  ", f"CREATE of Pod {at}/web  ", 'pool "pool1"'):
        assert part in refusal


def test_fairlead_logs_says_when_it_finds_no_decision(cluster: EmbeddedCluster) -> None:
    for argument, subject in (("--id=x", " x"), ("--namespace=none", " in namespace none")):
        done = fairlead(*logs(cluster, argument))
        assert (done.returncode, done.stdout) == (1, "")
        assert f"found no decision{subject} in the logs of " in done.stderr


def test_decisions_about_the_pods_of_a_deployment_are_found_by_its_name(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    spec = pod(at, nodeSelector={"a": "b"})["spec"]
    labels = {"app": "api"}
    objects.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "api", "namespace": at},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    selection = Selection(namespace=at, name="api", denied=True)
    (entry, *_) = until(
        lambda: decision_logs.decisions(cluster, selection), "a refused pod is logged"
    )
    assert entry["input"]["request"]["object"]["metadata"]["generateName"].startswith("api-")
    objects.delete("apps/v1", "Deployment", "api", at)


def test_decisions_can_be_followed(
    cluster: EmbeddedCluster, objects: clients.Objects, namespace: Make, pod: Make
) -> None:
    at = namespace(agentpool="pool1")
    refused(objects, earlier := pod(at, "earlier", nodeSelector={"a": "b"}))
    logged(cluster, earlier)
    command = [sys.executable, "-m", "fairlead"]
    command += logs(cluster, "--follow", "--denied", f"--namespace={at}", "-o", "json")
    followed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        reader = Thread(target=followed.extend, args=(following.stdout,))
        reader.start()
        try:
            until(lambda: len(followed) == 1, "the earlier decision is shown")
            refused(objects, pod(at, "later", nodeSelector={"a": "b"}))
            until(lambda: len(followed) == 2, "the later decision is shown")
        finally:
            following.terminate()
            reader.join()
    names = [
        json.loads(line)["input"]["request"]["object"]["metadata"]["name"] for line in followed
    ]
    assert names == ["earlier", "later"]
    refused_format = fairlead(*logs(cluster, "--follow", "-o", "yaml"))
    assert refused_format.returncode == 2
    assert "YAML cannot be followed: use -o json" in refused_format.stderr


def test_a_deployment_brings_the_secret_of_a_service_to_opa_and_asks_for_one_that_is_missing(
    cluster: EmbeddedCluster, objects: clients.Objects, settings: Settings
) -> None:
    service = LogService(url="https://127.0.0.1:1", secret="decision-logs", private_authority=True)
    chosen = settings.model_copy(update={"decision_logs": DecisionLogs(service=service)})
    with pytest.raises(
        UsageError, match="there is no Secret decision-logs in namespace fairlead: create it first"
    ):
        deploy.deploy(cluster, PolicySet.load(chosen), progress=Progress())
    metadata = {"name": "decision-logs", "namespace": NAMESPACE}
    data = {"token": "the-token", "ca.crt": cluster.opas()[0].ca.read_text()}
    objects.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})
    try:
        deploy.deploy(cluster, PolicySet.load(chosen), progress=Progress())
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
        deploy.deploy(cluster, PolicySet.load(settings), progress=Progress())
