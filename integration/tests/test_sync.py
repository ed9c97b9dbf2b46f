"""Properties of `fairlead sync` beyond the contract of sidecars, with a second sidecar and OPA
beside the cluster's."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import suspension

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import atomic_files, waiting
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import NAMESPACE, STATUS
from fairlead.kube import clients
from fairlead.opa import containers
from fairlead.opa.api import OpaApi
from fairlead.policy import bundles
from fairlead.programs import toolchain

PROFILES = ["processes"]
pytestmark = pytest.mark.embedded("it starts and kills sidecars as processes of this machine")

POLICY = {"openpolicyagent.org/policy": "rego"}
REPLICAS = "status.fairlead.dev/"
ROLE = "second-sync"
RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch"]},
    {
        "apiGroups": [""],
        "resources": ["namespaces", "pods", "nodes"],
        "verbs": ["get", "list", "watch"],
    },
]
Put = Callable[..., dict[str, Any]]


def eventually(check: Callable[[], Any], what: str) -> Any:
    return waiting.until(check, deadline=60, what=what)


class Second:
    """A second OPA and its sidecar, which are stopped after the test."""

    def __init__(self, folder: Path, kubeconfig: Path, opa_port: int, port: int) -> None:
        self.credentials = Credentials.fresh()
        self.files = containers.Files(folder / "tls", folder / "authz", folder / "token")
        contents = {
            "tls/tls.crt": self.credentials.certificate,
            "tls/tls.key": self.credentials.key,
            "tls/ca.crt": self.credentials.ca,
            "token/token": self.credentials.token.encode(),
        }
        file_modules = bundles.file_modules([self.credentials.token])
        contents |= {f"authz/{name}": text.encode() for name, text in file_modules.items()}
        for name, data in contents.items():
            (folder / name).parent.mkdir(exist_ok=True)
            atomic_files.write_private(folder / name, data)
        self.token = folder / "token" / "token"
        self.ca = folder / "tls" / "ca.crt"
        self.log = folder / "sync.log"
        self.url = f"https://127.0.0.1:{port}"
        self.opa = OpaApi(f"https://127.0.0.1:{opa_port}", ca=self.ca, token=self.credentials.token)
        self._kubeconfig = kubeconfig
        self._processes: list[subprocess.Popen[bytes]] = []
        program = toolchain.ensure([toolchain.FAIRLEAD_OPA])[toolchain.FAIRLEAD_OPA]
        addresses = (f"127.0.0.1:{port}" for port in (ports.free_ports(1)[0], opa_port))
        self._start([program, *containers.opa_arguments(self.files, *addresses)])
        eventually(lambda: self.opa.policies() is not None, "OPA answers")

    def sync(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the sidecar, as replica `second`."""
        given = [
            f"--opa-url={self.opa.url}",
            f"--opa-ca-file={self.ca}",
            f"--opa-auth-token-file={self.token}",
        ]
        given += [
            f"--kubeconfig={self._kubeconfig}",
            f"--health-endpoint={self.url.removeprefix('https://')}",
        ]
        given += [f"--tls-cert-file={self.files.tls / 'tls.crt'}"]
        given += [f"--tls-private-key-file={self.files.tls / 'tls.key'}"]
        given += ["--replica=second", "--namespace-selector=agentpool"]
        return self._start([sys.executable, "-m", "fairlead", "sync", *given, *arguments])

    def get(self, path: str) -> requests.Response:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(self.url + path, verify=str(self.ca), timeout=10)

    def healthy(self) -> bool:
        try:
            return self.get("/health").status_code == 200
        except requests.RequestException:
            return False

    def reasons(self) -> str:
        try:
            return str(self.get("/health").json()["reasons"])
        except requests.RequestException:
            return ""

    def relists(self) -> float:
        """The number of lists that it has read."""
        lines = self.get("/metrics").text.splitlines()
        return float(
            next(line for line in lines if line.startswith("fairlead_sync_relists_total")).split()[
                1
            ]
        )

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self.opa.close()

    def _start(self, argv: list[str | Path]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log)
        self._processes.append(process)
        return process


@pytest.fixture
def account(cluster: EmbeddedCluster, objects: clients.Objects, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of the sidecars' service account, which may read what these tests
    replicate.
    """
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    subject = {"kind": "ServiceAccount", "name": "opa", "namespace": NAMESPACE}
    api = "rbac.authorization.k8s.io/v1"
    objects.apply(
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": RULES}
    )
    binding = {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}}
    objects.apply({**binding, "roleRef": role, "subjects": [subject]})
    path = tmp_path / "kubeconfig"
    cluster.service_account_kubeconfig(NAMESPACE, "opa", path)
    yield path
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        objects.delete(api, kind, ROLE)


@pytest.fixture
def second(cluster: EmbeddedCluster, account: Path, tmp_path: Path) -> Iterator[Second]:
    """A second OPA; its sidecar is started by the test."""
    made = Second(tmp_path, account, *cluster.free_ports(2))
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def put(objects: clients.Objects) -> Iterator[Put]:
    """Creates or changes a ConfigMap of policies; all of them are deleted afterwards."""
    made: set[tuple[str, str]] = set()

    def apply(
        name: str, text: str, *, namespace: str = NAMESPACE, labels: dict[str, str] = POLICY
    ) -> dict[str, Any]:
        made.add((name, namespace))
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        return objects.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"a.rego": text},
            }
        )

    yield apply
    for name, namespace in made:
        objects.delete("v1", "ConfigMap", name, namespace)


def annotations_of(objects: clients.Objects, name: str) -> dict[str, str]:
    config_map = objects.get("v1", "ConfigMap", name, NAMESPACE) or {}
    return dict(config_map.get("metadata", {}).get("annotations") or {})


def told(objects: clients.Objects, name: str) -> tuple[str | None, dict[str, str]]:
    """The overall status of a ConfigMap, and each replica's: that of the cluster's own sidecar
    is `first`.
    """
    annotations = annotations_of(objects, name)
    own = {
        key.removeprefix(REPLICAS): json.loads(value)
        for key, value in annotations.items()
        if key.startswith(REPLICAS)
    }
    overall = json.loads(annotations[STATUS])["status"] if STATUS in annotations else None
    return overall, {
        name if name == "second" else "first": entry["status"] for name, entry in own.items()
    }


def version(objects: clients.Objects, name: str) -> str:
    config_map = objects.get("v1", "ConfigMap", name, NAMESPACE) or {}
    return str(config_map["metadata"]["resourceVersion"])


def test_two_replicas_tell_what_each_holds_and_never_write_for_writings_sake(
    objects: clients.Objects, second: Second, put: Put
) -> None:
    put("pair", "package pair\n\nx := 1")
    sidecar = second.sync()
    both_ok = ("ok", {"first": "ok", "second": "ok"})
    eventually(lambda: told(objects, "pair") == both_ok, "both tell that they hold it")
    second.opa.put_policy("by/hand", "package pair\n\ny(z) := z")
    put("pair", "package pair\n\ny := 2")
    eventually(
        lambda: told(objects, "pair") == ("error", {"first": "ok", "second": "error"}),
        "each tells its own",
    )
    settled = version(objects, "pair")
    for number in range(3):
        put("beside", f"package beside\n\nx := {number}")
        fresh = bundles.revision({"a.rego": f"package beside\n\nx := {number}"})
        both = functools.partial(
            lambda fresh: str(annotations_of(objects, "beside")).count(fresh) == 2, fresh
        )
        eventually(both, "both have reported another revision")
    assert version(objects, "pair") == settled
    second.opa.remove_policy("by/hand")
    eventually(lambda: told(objects, "pair") == both_ok, "both hold it at last")
    sidecar.send_signal(signal.SIGTERM)
    assert sidecar.wait(30) == 0
    assert told(objects, "pair") == ("ok", {"first": "ok"})


def test_a_watch_that_expired_misses_nothing(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    second: Second,
    namespace: Callable[..., str],
) -> None:
    stays, goes = namespace(agentpool="pool1"), namespace(agentpool="pool1")
    sidecar = second.sync()
    eventually(second.healthy, "it is healthy")
    assert second.opa.document(["kubernetes", "namespaces", goes])
    before = second.relists()
    suspension.suspend(sidecar.pid)
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": goes}})
    comes = namespace(agentpool="pool2")
    compact(cluster)
    pid = cluster.servers()["kube-apiserver"]["pid"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(
        lambda: objects.get("v1", "Namespace", stays),
        "the API server is back, and knows no history",
    )
    suspension.resume(sidecar.pid)
    expected = {comes, stays}
    eventually(
        lambda: (
            expected <= (held := (second.opa.document(["kubernetes", "namespaces"]) or {}).keys())
            and goes not in held
        ),
        "what happened meanwhile is in OPA",
    )
    eventually(lambda: second.relists() > before, "it has listed again")
    eventually(second.healthy, "it is healthy")


def compact(cluster: EmbeddedCluster) -> None:
    """Delete etcd's history, through its gRPC gateway."""
    argv = (
        Path(f"/proc/{cluster.servers()['etcd']['pid']}/cmdline").read_bytes().decode().split("\0")
    )
    url = next(flag.partition("=")[2] for flag in argv if flag.startswith("--listen-client-urls="))
    pki = cluster.path / "pki"
    with requests.Session() as session:
        session.trust_env, session.verify = False, str(pki / "ca.crt")
        session.cert = (str(pki / "etcd-client.crt"), str(pki / "etcd-client.key"))
        key = {"key": b64encode(b"x").decode()}
        now = session.post(f"{url}/v3/kv/range", json=key, timeout=10).json()["header"]["revision"]
        body = {"revision": now, "physical": True}
        session.post(f"{url}/v3/kv/compaction", json=body, timeout=10).raise_for_status()


def test_further_resources_are_replicated_whole_or_in_part(
    objects: clients.Objects, second: Second, namespace: Callable[..., str], pod: Callable[..., Any]
) -> None:
    at = namespace()
    objects.create(pod(at))
    second.sync(
        "--replicate=v1/pods",
        "--replicate-fields=v1/pods=spec.containers.image",
        "--replicate-cluster=v1/nodes",
    )
    eventually(second.healthy, "it is healthy")
    image = pod(at)["spec"]["containers"][0]["image"]
    thin = {
        "metadata": {"name": "web", "namespace": at},
        "spec": {"containers": [{"image": image}]},
    }
    assert second.opa.document(["kubernetes", "pods", at]) == {"web": thin}
    node = second.opa.document(["kubernetes", "nodes", "pool1-0"]) or {}
    assert (node["kind"], node["metadata"]["labels"]["agentpool"]) == ("Node", "pool1")
    assert "managedFields" not in node["metadata"]
    objects.delete("v1", "Pod", "web", at)
    eventually(
        lambda: second.opa.document(["kubernetes", "pods", at]) is None, "the deleted pod is gone"
    )


def test_a_resource_that_may_not_be_read_is_told(second: Second) -> None:
    second.sync("--replicate=apps/v1/deployments")
    eventually(
        lambda: "deployments" in second.reasons() and "403" in second.reasons(), "it is told"
    )


def test_without_the_right_token_nothing_is_loaded_and_with_it_all(
    second: Second, put: Put
) -> None:
    put("guarded", "package guarded\n\nx := 1")
    second.token.write_text("another")
    second.sync()
    eventually(lambda: "refuses" in second.reasons(), "it is told")
    assert "fairlead/guarded/a.rego" not in second.opa.policies()
    second.token.write_text(second.credentials.token)
    eventually(second.healthy, "it is healthy")
    assert "fairlead/guarded/a.rego" in second.opa.policies()
