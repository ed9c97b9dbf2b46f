"""The targets of an attack: an OPA alone, or an embedded cluster in which a tenant may edit one
namespace."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import paths, yaml_files
from fairlead.kube import clients
from fairlead.settings.models import Settings
from lab.fuzz import load_requests
from lab.fuzz.bystanders import Ask
from lab.fuzz.client import Headers, Http1
from lab.fuzz.load_requests import Attack
from lab.fuzz.server import Opa

ATTACKER = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
"""The source address of attacks. It differs from the API server's, as a pod's does. Loopback has
more than one address only on Linux."""
_SERVERS = ("opa", "sync")
_JSON = (b"Content-Type", b"application/json")
_REVIEWS, _ALIVE = "reviews of OPA", "the sidecar's /live"
_TENANT, _BYSTANDER, _UNMAPPED = "load-tenant", "load-bystander", "load-unmapped"
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


class Door(Protocol):
    """A client of the target of an attack."""

    def send(self, body: bytes) -> str:
        """Send one request; returns the status of its answer, or that there was none. Raises
        OSError if the connection fails.
        """

    def open(self) -> socket.socket:
        """Open a connection for a slow attack. Raises OSError if it is refused."""


class Site(Protocol):
    """The target of attacks, with its ordinary users."""

    ways: Sequence[str]
    """The keys of load_requests.WAYS that it supports."""

    timed: Sequence[str]
    """The bystanders that wait only for OPA, as an API server does."""

    def pids(self) -> Mapping[str, int | None]:
        """The process ids by the names of their containers; None for a process that has ended."""

    def logs(self) -> list[Path]:
        """The files with the output of the processes."""

    def restart(self) -> None:
        """Restart all processes."""

    def door(self, attack: Attack) -> Door:
        """A new client for an attack."""

    def bystanders(self) -> Mapping[str, Ask]:
        """The requests of ordinary users during attacks, by name; each is for one thread."""


class Alone:
    """A single OPA without a cluster."""

    ways: Sequence[str] = load_requests.OPA_ALONE
    timed: Sequence[str] = (_REVIEWS,)

    def __init__(self, opa: Opa) -> None:
        self._opa = opa

    def pids(self) -> Mapping[str, int | None]:
        return {"opa": self._opa.pid}

    def logs(self) -> list[Path]:
        return [self._opa.log]

    def restart(self) -> None:
        self._opa.stop()
        self._opa.start()

    def door(self, attack: Attack) -> Door:
        return _review_door(self._opa.address, self._opa.ca, attack)

    def bystanders(self) -> Mapping[str, Ask]:
        return {_REVIEWS: _Reviews(self._opa.address, self._opa.ca, "payments")}


class OnCluster:
    """An embedded cluster. Its first OPA and sidecar are attacked."""

    ways: Sequence[str] = tuple(load_requests.WAYS)
    timed: Sequence[str] = (_REVIEWS,)

    def __init__(self, cluster: EmbeddedCluster, settings: Settings) -> None:
        """Create a namespace for the attacker and one for others, each with a service account that
        may edit it. Raises FairleadError if that fails.
        """
        self._cluster = cluster
        self._opa, self._sidecar = cluster.opas()[0], cluster.sidecars()[0]
        self._pool = "pool1"
        objects = cluster.objects()
        mapped = {settings.namespace_label: self._pool}
        for name in (_TENANT, _BYSTANDER, _UNMAPPED):
            for manifest in _namespace(name, {} if name == _UNMAPPED else mapped):
                objects.apply(manifest)
        api = clients.connect(cluster.kubeconfig).configuration
        self._api, self._ca = _address(api.host), Path(api.ssl_ca_cert)
        self._tokens = {name: self._token(name) for name in (_TENANT, _BYSTANDER, _UNMAPPED)}
        self._wanted = dict(settings.assignment(self._pool).node_selector)

    def pids(self) -> Mapping[str, int | None]:
        running = self._cluster.servers()
        return {
            kind: next(
                (record["pid"] for name, record in running.items() if name in (kind, f"{kind}-0")),
                None,
            )
            for kind in _SERVERS
        }

    def logs(self) -> list[Path]:
        return [self._cluster.log(name) for name in ("opa", "sidecar")]

    def restart(self) -> None:
        for name in self._cluster.servers():
            if name.removesuffix("-0") in _SERVERS:
                self._cluster.restart_server(name)
        self._cluster.wait_for("opa", f"{self._opa.url}/health/ready", self._opa.ca)

    def door(self, attack: Attack) -> Door:
        if attack.way == "pod":
            return _Door(self._api, self._ca, _pods(_TENANT), [_JSON, self._authorization(_TENANT)])
        if "sidecar" in attack.way:
            address = _address(self._sidecar.url)
            return _Door(
                address, self._sidecar.ca, b"/logs", [_JSON, (b"Content-Encoding", b"gzip")]
            )
        return _review_door(_address(self._opa.url), self._opa.ca, attack)

    def bystanders(self) -> Mapping[str, Ask]:
        pods = {
            name: _Pods(self._api, self._ca, name, self._authorization(name), selector)
            for name, selector in ((_BYSTANDER, self._wanted), (_UNMAPPED, None))
        }
        return {
            _REVIEWS: _Reviews(_address(self._opa.url), self._opa.ca, _BYSTANDER),
            _ALIVE: _Live(self._sidecar.url, self._sidecar.ca),
            "pods of another namespace": pods[_BYSTANDER],
            "pods of a namespace without a pool": pods[_UNMAPPED],
        }

    def _authorization(self, name: str) -> tuple[bytes, bytes]:
        return b"Authorization", b"Bearer " + self._tokens[name]

    def _token(self, name: str) -> bytes:
        kubeconfig = self._cluster.path / f"{name}.kubeconfig"
        self._cluster.service_account_kubeconfig(name, "default", kubeconfig)
        return kubeconfig.with_name(f"{kubeconfig.name}.token").read_bytes()


class _Door:
    """Posts to one path."""

    def __init__(self, address: tuple[str, int], ca: Path, path: bytes, headers: Headers) -> None:
        self._address, self._ca, self._path, self._headers = address, ca, path, headers

    def send(self, body: bytes) -> str:
        client = Http1(self._address, self._ca, source=ATTACKER)
        with closing(client):
            answer = client.send(b"POST", self._path, self._headers, body)
        return "no answer" if answer is None else str(answer.status)

    def open(self) -> socket.socket:
        context = ssl.create_default_context(cafile=str(self._ca))
        plain = socket.create_connection(self._address, timeout=10, source_address=(ATTACKER, 0))
        try:
            connection = context.wrap_socket(plain, server_hostname=self._address[0])
            connection.sendall(
                b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" % self._path
            )
        except OSError:
            plain.close()
            raise
        return connection


class _Reviews:
    """Sends the sample review as an API server does, and checks that its pod is placed."""

    def __init__(self, address: tuple[str, int], ca: Path, namespace: str) -> None:
        self._client = Http1(address, ca)
        review = yaml_files.read_json(paths.root() / "testdata" / "review.json")
        review["request"]["namespace"] = namespace
        self._body = json.dumps(review).encode()

    def __call__(self) -> str:
        answer = self._client.send(b"POST", b"/?timeout=5s", [_JSON], self._body)
        if answer is None or answer.status != 200:
            return f"the sample review is answered with {answer.status if answer else 'nothing'}"
        response = json.loads(answer.body)["response"]
        patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
        return (
            "" if response["allowed"] and patch else f"the sample review is not placed: {response}"
        )


class _Pods:
    """Creates a plain pod by dry run, and checks that it gets the nodeSelector `wanted`."""

    def __init__(
        self,
        address: tuple[str, int],
        ca: Path,
        namespace: str,
        authorization: tuple[bytes, bytes],
        selector: Mapping[str, str] | None,
    ) -> None:
        self._client = Http1(address, ca)
        self._path = _pods(namespace)
        self._headers = [_JSON, authorization]
        self._wanted = selector

    def __call__(self) -> str:
        answer = self._client.send(b"POST", self._path, self._headers, json.dumps(_POD).encode())
        if answer is None or answer.status != 201:
            return (
                "a plain pod is refused: "
                f"{answer.body[:300].decode(errors='replace') if answer else 'no answer'}"
            )
        placed: Any = json.loads(answer.body)["spec"].get("nodeSelector")
        return "" if placed == self._wanted else f"a plain pod is not placed: {placed}"


class _Live:
    """Asks the sidecar whether it is alive, as a kubelet does."""

    def __init__(self, url: str, ca: Path) -> None:
        self._client = Http1(_address(url), ca)

    def __call__(self) -> str:
        answer = self._client.send(b"GET", b"/live", [], b"")
        return (
            ""
            if answer and answer.status == 200
            else f"/live is answered with {answer.status if answer else ''}"
        )


def _review_door(address: tuple[str, int], ca: Path, attack: Attack) -> _Door:
    packed = [(b"Content-Encoding", b"gzip")] if attack.way.startswith("packed") else []
    return _Door(address, ca, b"/", [_JSON, *packed])


def _namespace(name: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """A namespace with the service account `default` that may edit it."""
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    metadata = {"name": "default", "namespace": name}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": dict(labels)},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": role,
        },
    ]


def _pods(namespace: str) -> bytes:
    return f"/api/v1/namespaces/{namespace}/pods?dryRun=All".encode()


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 443)
