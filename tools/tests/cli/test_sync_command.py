"""`fairlead sync` as a process, between a real OPA and a fake API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fake_apiserver
import opa_server
import pytest
import requests
from click.testing import CliRunner
from fake_apiserver import FakeApiServer
from opa_server import DEADLINE, OpaServer

from fairlead.cli.processes.sync import command
from fairlead.clusters.embedded import ports
from fairlead.common import waiting
from fairlead.common.digests import digest
from fairlead.common.errors import UsageError
from fairlead.deployment.names import REPLICA_STATUS, RETRIES, STATUS
from fairlead.pki.certificates import CA
from fairlead.sync import selector_syntax

POLICY = {"openpolicyagent.org/policy": "rego"}
DATA = {"openpolicyagent.org/data": "opa"}


class Pod:
    """An OPA, its sidecar, and the fake API server of both."""

    def __init__(self, folder: Path, cluster: FakeApiServer, opa: OpaServer) -> None:
        self.cluster = cluster
        self.opa = opa
        self.port = ports.free_ports(1)[0]
        self.log = folder / "sync.log"
        self.token = folder / "opa-token"
        self.token.write_text(opa.token)
        arguments: list[str | Path] = [
            "--kubeconfig",
            cluster.kubeconfig(folder),
            "--opa-url",
            opa.url + "/v1",
            "--opa-ca-file",
            opa.ca,
        ]
        arguments += [
            "--opa-auth-token-file",
            self.token,
            "--namespace-selector",
            "agentpool",
        ]
        arguments += [
            "--health-endpoint",
            f"127.0.0.1:{self.port}",
            "--log-level",
            "debug",
            "--replica",
            "test",
        ]
        arguments += ["--replicate", "v1/pods", "--replicate-fields", "v1/pods=spec.nodeName"]
        tls = Path(opa.files.tls)
        arguments += ["--tls-cert-file", tls / "tls.crt"]
        arguments += ["--tls-private-key-file", tls / "tls.key"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", "sync", *arguments], stderr=log
            )

    def get(self, path: str) -> requests.Response:
        return requests.get(
            f"https://127.0.0.1:{self.port}{path}", verify=str(self.opa.ca), timeout=DEADLINE
        )

    def healthy(self) -> bool:
        try:
            return self.get("/health").status_code == 200
        except requests.RequestException:
            return False

    def until(self, check: Any, what: str) -> None:
        try:
            waiting.until(check, deadline=DEADLINE, what=what)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-3000:]}") from error

    def status(self, name: str) -> Any:
        return json.loads(self.cluster.annotations(name).get(STATUS, "null"))


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with fake_apiserver.running() as cluster, opa_server.running(OpaServer(tmp_path)) as opa:
        pod = Pod(tmp_path, cluster, opa)
        try:
            yield pod
        finally:
            pod.process.kill()
            pod.process.wait()


def test_it_brings_policies_data_and_namespaces_to_opa_and_word_back(pod: Pod) -> None:
    pod.cluster.put("namespaces", "payments", labels={"agentpool": "pool1", "other": "x"})
    pod.cluster.put(
        "configmaps",
        "rules",
        namespace="fairlead",
        labels=POLICY,
        data={"a.rego": "package a\nx := 1"},
    )
    pod.cluster.put("configmaps", "facts", namespace="fairlead", labels=DATA, data={"v": "[1]"})
    pod.cluster.put(
        "configmaps", "elsewhere", namespace="other", labels=POLICY, data={"a.rego": "package b"}
    )
    pod.cluster.put("configmaps", "unlabelled", namespace="fairlead", data={"a.rego": "package c"})
    pod.until(pod.healthy, "healthy")
    assert pod.opa.own_policies() == {"fairlead/rules/a.rego": "package a\nx := 1"}
    assert pod.opa.api().document(["fairlead", "facts", "v"]) == [1]
    thin = {"metadata": {"name": "payments", "labels": {"agentpool": "pool1"}}}
    assert pod.opa.api().document(["kubernetes", "namespaces"]) == {"payments": thin}
    for name in ("rules", "facts"):
        pod.until(lambda name=name: pod.status(name) == {"status": "ok"}, f"status of {name}")
    pod.cluster.put(
        "configmaps",
        "rules",
        namespace="fairlead",
        labels=POLICY,
        data={"a.rego": "package a\nx := y"},
    )
    pod.until(lambda: (pod.status("rules") or {}).get("status") == "error", "error")
    assert pod.status("rules")["error"]["errors"][0]["location"] == {
        "file": "fairlead/rules/a.rego",
        "row": 2,
        "col": 6,
    }
    assert pod.opa.own_policies() == {"fairlead/rules/a.rego": "package a\nx := 1"}
    health = pod.get("/health").json()
    confirmed: Any = pod.opa.api().document(["fairlead_confirmed"])
    at = datetime.fromtimestamp(confirmed["at"] // 10**9, UTC)
    assert health.pop("confirmed") == f"{at:%Y-%m-%dT%H:%M:%SZ}"
    assert health == {
        "healthy": True,
        "reasons": [],
        "leftOut": [],
        "rejected": ["fairlead/rules/a.rego"],
        "replica": "test",
        "token": digest(pod.opa.token.encode()),
        "ca": digest(pod.opa.ca.read_bytes()),
        "certificate": digest((Path(pod.opa.files.tls) / "tls.crt").read_bytes()),
    }
    pod.cluster.put("configmaps", "rules", namespace="fairlead", labels={}, data={})
    pod.until(lambda: pod.opa.own_policies() == {}, "removal")
    writes = pod.cluster.count("PATCH", "")
    assert writes == 3, "one annotation for each thing told"


def test_it_is_live_while_those_that_it_asks_are_away(pod: Pod) -> None:
    """The liveness probe uses /live, because a restart would not help here."""
    pod.until(pod.healthy, "healthy")
    pod.cluster.token = "another"
    pod.opa.stop()
    pod.until(lambda: not pod.healthy(), "it tells that OPA is away")
    answer = pod.get("/live")
    assert (answer.status_code, answer.json()) == (200, {"live": True, "hung": []})


def test_a_namespace_is_looked_up_whole_and_as_it_is_now(pod: Pod) -> None:
    pod.until(pod.healthy, "healthy")
    pod.cluster.put("namespaces", "plain", labels={"other": "x"})
    assert pod.get("/v1/namespaces/plain").json() == {
        "metadata": {"name": "plain", "labels": {"other": "x"}, "annotations": {}}
    }
    assert pod.get("/v1/namespaces/none").status_code == 404
    pod.cluster.token = "another"
    assert pod.get("/v1/namespaces/none").status_code == 503


def test_a_restarted_opa_is_loaded_again_and_health_is_live(pod: Pod) -> None:
    pod.cluster.put(
        "configmaps", "rules", namespace="fairlead", labels=POLICY, data={"a.rego": "package a"}
    )
    pod.until(pod.healthy, "healthy")
    pod.opa.stop()
    pod.until(lambda: not pod.healthy(), "unhealthy while OPA is away")
    assert "cannot be reached" in str(pod.get("/health").json()["reasons"])
    pod.opa.start()
    pod.until(lambda: "fairlead/rules/a.rego" in pod.opa.own_policies(), "loaded again")
    pod.until(pod.healthy, "healthy again")


def test_a_token_file_that_is_wrong_empty_or_gone_is_told_and_a_good_one_is_taken(pod: Pod) -> None:
    pod.until(pod.healthy, "healthy")
    pod.token.write_text("wrong-token")
    pod.until(lambda: "refuses" in str(pod.get("/health").json()["reasons"]), "refused")
    pod.token.write_text("")
    pod.until(
        lambda: "is empty" in str(pod.get("/health").json()["reasons"]), "told that it is empty"
    )
    pod.token.unlink()
    pod.until(
        lambda: "cannot be read" in str(pod.get("/health").json()["reasons"]),
        "told that it is gone",
    )
    pod.token.write_text(pod.opa.token + "\n")
    pod.until(pod.healthy, "healthy again")
    assert pod.opa.token not in pod.log.read_text()
    assert "wrong-token" not in pod.log.read_text()


def test_a_new_token_and_a_new_ca_are_in_use_without_a_failed_request(pod: Pod) -> None:
    pod.until(pod.healthy, "healthy")
    both = pod.opa.ca.read_bytes() + CA.create("next", timedelta(hours=1)).cert_pem
    pod.opa.ca.write_bytes(both)
    pod.until(lambda: pod.get("/health").json()["ca"] == digest(both), "the new CA is in use")
    assert pod.healthy()
    assert b'fairlead_sync_errors_total{peer="opa"} 0.0' in pod.get("/metrics").content
    pod.opa.ca.write_text("-----BEGIN CERTIFICATE-----\nhalf")
    pod.until(
        lambda: "not a certificate" in str(health(pod, both)["reasons"]), "told that the CA is none"
    )
    assert health(pod, both)["ca"] == digest(both), "the last good one stays in use"
    pod.opa.ca.unlink()
    pod.until(
        lambda: "cannot be read" in str(health(pod, both)["reasons"]), "told that the CA is gone"
    )
    pod.opa.ca.write_bytes(both)
    pod.until(pod.healthy, "healthy again")
    assert b'fairlead_sync_errors_total{peer="opa"} 0.0' in pod.get("/metrics").content


def health(pod: Pod, ca: bytes) -> dict[str, Any]:
    """The answer of /health, verified by a CA that need not be in the sidecar's CA file."""
    ca_copy = pod.log.with_name("kept.crt")
    ca_copy.write_bytes(ca)
    answer = requests.get(
        f"https://127.0.0.1:{pod.port}/health", verify=str(ca_copy), timeout=DEADLINE
    )
    return dict(answer.json())


def test_further_resources_are_replicated_as_far_as_asked_for(pod: Pod) -> None:
    pod.cluster.put("pods", "web", namespace="shop", spec={"nodeName": "n1", "containers": []})
    pod.until(pod.healthy, "healthy")
    thin = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"nodeName": "n1"}}
    assert pod.opa.api().document(["kubernetes", "pods"]) == {"shop": {"web": thin}}
    pod.cluster.put("pods", "web", namespace="shop", spec={"nodeName": "n2"})
    pod.until(
        lambda: (
            pod.opa.api().document(["kubernetes", "pods", "shop", "web", "spec", "nodeName"])
            == "n2"
        ),
        "change",
    )
    pod.cluster.delete("pods", "web", namespace="shop")
    pod.until(lambda: pod.opa.api().document(["kubernetes", "pods"]) == {}, "removal")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_when_told_to(pod: Pod, number: signal.Signals) -> None:
    pod.cluster.put(
        "configmaps", "rules", namespace="fairlead", labels=POLICY, data={"a.rego": "package a"}
    )
    pod.until(
        lambda: REPLICA_STATUS + "test" in pod.cluster.annotations("rules"),
        "status of this replica",
    )
    os.kill(pod.process.pid, number)
    assert pod.process.wait(DEADLINE) == 0
    assert pod.cluster.annotations("rules") == {STATUS: '{"status":"ok"}', RETRIES: "0"}
    assert "Traceback" not in pod.log.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--health-endpoint", "127.0.0.1:0"], "belong together"),
        (["--tls-cert-file", "x", "--tls-private-key-file", "y"], "belong together"),
        (["--namespace-labels", "a,b c"], "--namespace-labels: 'b c'"),
        (["--namespace-selector", "a=b=c"], "--namespace-selector"),
        (["--kubeconfig", "none"], "none: is not a usable kubeconfig"),
        (["--replicate", "pods"], "--replicate: 'pods' is not group/version/resource"),
        (
            ["--replicate-cluster", "v1/namespaces"],
            "--replicate-cluster: namespaces are always replicated",
        ),
        (["--replicate", "v1/events,events.k8s.io/v1/events"], "keep one"),
        (["--replicate-fields", "v1/pods=spec"], "v1/pods is not replicated"),
        (
            ["--replicate", "v1/pods", "--replicate-fields", "v1/pods"],
            "is not like v1/pods=spec.nodeName",
        ),
        (
            ["--replicate", "v1/pods", "--replicate-fields", "v1/pods=a..b"],
            "'a..b' is not a dotted path",
        ),
        (["--system-policies", "x"], "--system-policies: 'x' is neither namespace/name"),
        (["--replica", "a b"], "--replica: 'a b'"),
    ],
)
def test_wrong_flags_are_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, UsageError), result.output
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "legal",
    [
        "",
        "a",
        "!a",
        "a=b",
        "a==b",
        "a!=b",
        "a=",
        "example.com/a in (b, c)",
        "a notin (b),!c",
        " a , b = c ",
        "a>1",
    ],
)
def test_a_legal_selector_is_taken(legal: str) -> None:
    assert selector_syntax.check(legal) == legal


@pytest.mark.parametrize(
    "illegal", ["a=b=c", "=", "a b", "a in b", "a in (b", "!", "a,,b", "-a", "a=-", "(a)"]
)
def test_an_illegal_selector_is_refused(illegal: str) -> None:
    with pytest.raises(ValueError, match="is not a label"):
        selector_syntax.check(illegal)
