"""The API of a running OPA: what its authz policy lets through, and how OPA answers malformed
requests."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import memory
import pytest

from fairlead.clusters.base import Cluster
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.opa import containers
from fairlead.opa.api import OpaApi

PROFILES = ["processes"]

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "42",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Service"},
        "object": {},
    },
}


def send(api: OpaApi, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    """The status of OPA's answer. The path is sent exactly as it is spelt."""
    address = urlsplit(api.url)
    trusted = ssl.create_default_context(cafile=str(api.session.verify))
    connection = http.client.HTTPSConnection(
        address.hostname or "", address.port, timeout=10, context=trusted
    )
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/health", "/health/ready"])
def test_health_is_for_everyone(anonymous: OpaApi, path: str) -> None:
    assert send(anonymous, "GET", path) == 200


def test_the_decision_is_for_everyone(anonymous: OpaApi) -> None:
    answer = anonymous.decide(REVIEW)
    assert answer["response"] == {"uid": "42", "allowed": True}
    assert send(anonymous, "POST", "/?timeout=5s", json.dumps(REVIEW).encode()) == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("PUT", "/"),
        ("POST", "/?explain=full"),
        ("POST", "/?timeout=5s&pretty=true"),
        ("POST", "//"),
        ("POST", "/%2e"),
        ("GET", "/health?bundles"),
        ("GET", "/health/"),
        ("GET", "/health/live"),
        ("GET", "/metrics"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/x"),
        ("GET", "/v1/data"),
        ("PUT", "/v1/data/kubernetes/namespaces"),
        ("PATCH", "/v1/data"),
        ("POST", "/v0/data/system/main"),
        ("POST", "/v1/query"),
        ("POST", "/v1/compile"),
        ("GET", "/v1/config"),
        ("GET", "/v1/status"),
        ("GET", "/debug/pprof/"),
        ("GET", "/health/../v1/data"),
        ("GET", "/health/%2e%2e/v1/data"),
        ("GET", "/./v1/data"),
        ("GET", "//v1/data"),
        ("GET", "/V1/data"),
        ("POST", "/?timeout=5s&timeout=5s"),
        ("POST", "/?timeout=5m"),
    ],
)
def test_nothing_else_is(anonymous: OpaApi, opa: OpaApi, method: str, path: str) -> None:
    before = opa.policies()
    assert send(anonymous, method, path, b"{}") in (401, 301, 307), f"{method} {path}"
    assert opa.policies() == before


@pytest.mark.parametrize("wrong", ["x", "", "Bearer"])
def test_a_wrong_token_is_none(cluster: Cluster, token: str, wrong: str) -> None:
    server, *_ = cluster.opas()
    api = OpaApi(server.url, ca=server.ca)
    for value in (
        wrong,
        token[:-1],
        token + "x",
        token.swapcase(),
        hashlib.sha256(token.encode()).hexdigest(),
    ):
        assert send(api, "GET", "/v1/data", Authorization=f"Bearer {value}") == 401
    assert send(api, "GET", "/v1/data", Authorization=f"Bearer {token}") == 200


def test_the_token_is_in_its_secret_and_its_mount_and_nowhere_else(
    cluster: Cluster, objects: clients.Objects, opa: OpaApi, token: str
) -> None:
    everything = [
        *opa.policies().values(),
        json.dumps(opa.document([])),
        opa.send("GET", "/v1/config").text,
    ]
    everything += [json.dumps(o) for o in objects.list("v1", "ConfigMap", None)]
    everything += ["".join(cluster.logs(server, 1_000_000, False)) for server in cluster.servers()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            everything.append((process / "cmdline").read_text(errors="replace"))
        except OSError:
            continue
    assert not [text[:200] for text in everything if token in text]
    assert hashlib.sha256(token.encode()).hexdigest() in str(opa.policies())
    secret = objects.get("v1", "Secret", "opa-token", NAMESPACE) or {}
    assert set(secret["data"]) == {"token", "authz.rego"}


HUGE = {**REVIEW, "padding": "x" * (3 * 1024 * 1024)}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps(HUGE).encode(), "application/json"),
        (b"{", "application/json"),
        (b"", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[" * 200_000, "application/json"),
        (b'{"a":' * 200_000, "application/json"),
        (b"apiVersion: [", "application/yaml"),
        (b"\x1f\x8bgarbage", "application/json"),
    ],
    ids=[
        "over 3 MiB",
        "half",
        "empty",
        "no UTF-8",
        "deep list",
        "deep object",
        "half YAML",
        "garbage",
    ],
)
def test_garbage_is_answered_with_an_error_and_the_next_request_is_served(
    anonymous: OpaApi, cluster: Cluster, body: bytes, kind: str
) -> None:
    before = cluster.opas()
    answer = anonymous.session.post(
        anonymous.url + "/", data=body, headers={"Content-Type": kind}, timeout=30
    )
    refused = answer.status_code >= 400 or answer.json().get("response", {}).get("allowed") is False
    assert refused, (answer.status_code, answer.text[:300])
    assert anonymous.decide(REVIEW)["response"]["allowed"] is True
    assert cluster.opas() == before, "OPA was restarted"


def test_a_small_body_cannot_unpack_to_a_huge_one(anonymous: OpaApi, cluster: Cluster) -> None:
    """100 MB of zeros have 100 kB as gzip."""
    before = cluster.opas()
    bomb = gzip.compress(b"[" + b"0," * 50_000_000 + b"0]")
    assert send(anonymous, "POST", "/", bomb, **{"Content-Encoding": "gzip"}) == 400
    assert anonymous.decide(REVIEW)["response"]["allowed"] is True
    assert cluster.opas() == before, "OPA was restarted"


@pytest.mark.embedded("it measures OPA's process")
def test_no_gzip_is_read_however_small(anonymous: OpaApi, cluster: Cluster) -> None:
    """API servers send no gzip to webhooks. 16 bodies of 3 KB, each 3 MB when unpacked, cost OPA 2
    GB.
    """
    bomb = gzip.compress(json.dumps({**REVIEW, "padding": [[]] * 700_000}).encode())
    small = gzip.compress(json.dumps(REVIEW).encode())
    with ThreadPoolExecutor(16) as several:
        for body in (small, bomb):
            sent = [
                several.submit(send, anonymous, "POST", "/", body, **{"Content-Encoding": "gzip"})
                for _ in range(16)
            ]
            assert {future.result() for future in sent} == {400}
    assert anonymous.decide(REVIEW)["response"]["allowed"] is True
    for server in cluster.opas():
        assert memory.peak(server.pid) < containers.OPA_MEMORY


def test_a_wrong_content_type_is_read_as_json_or_refused(anonymous: OpaApi) -> None:
    answer = anonymous.session.post(
        anonymous.url + "/", data=b"<xml/>", headers={"Content-Type": "text/xml"}
    )
    assert answer.status_code >= 400
    assert anonymous.decide(REVIEW)["response"]["allowed"] is True
