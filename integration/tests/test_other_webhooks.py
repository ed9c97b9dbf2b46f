"""If another mutating webhook removes a pod's placement, the pod is refused, on a real API
server."""

from __future__ import annotations

import base64
import functools
import json
import os
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy
from fairlead.operations.up import started
from fairlead.pki.certificates import CA
from fairlead.pki.key_files import write_pair
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("the API server has to reach webhooks of this process")

SETTINGS = Settings.model_validate(
    {
        "pools": {
            "pool1": {
                "nodeSelector": {"agentpool": "pool1"},
                "tolerations": [{"key": "reserved", "operator": "Exists"}],
            },
            "pool2": {},
        }
    }
)
VERSION = "admissionregistration.k8s.io/v1"

Rounds = list[list[dict[str, Any]]]
"""The JSON Patches of its answers to the first call for a pod, the second, and so on; the last
one is repeated."""

STRIP: list[dict[str, Any]] = [{"op": "remove", "path": "/spec/nodeSelector"}]
ELSEWHERE: list[dict[str, Any]] = [
    {"op": "replace", "path": "/spec/nodeSelector", "value": {"agentpool": "pool2"}}
]
PAST_THE_SCHEDULER: list[dict[str, Any]] = [
    {"op": "add", "path": "/spec/nodeName", "value": "pool2-0"}
]
NO_TOLERATIONS: list[dict[str, Any]] = [{"op": "replace", "path": "/spec/tolerations", "value": []}]

LOST = (
    'failed calling webhook "final-state.node-pool.fairlead.dev".*'
    "validating webhook may not return response.patch"
)
# The first change has ours called once more, so that the second is one that no mutating webhook of
# ours sees.
CHANGES: dict[str, tuple[Rounds, int, str]] = {
    "removes the nodeSelector": ([STRIP], 500, LOST),
    "removes the tolerations": ([NO_TOLERATIONS], 500, LOST),
    "changes the nodeSelector": (
        [STRIP, ELSEWHERE],
        403,
        r'final-state.*places its pods in pool "pool1"',
    ),
    "sets a nodeName": (
        [STRIP, PAST_THE_SCHEDULER],
        403,
        r"final-state.*sets spec.nodeName=pool2-0",
    ),
}


class Other:
    """A mutating webhook that changes each pod by the `rounds` of its label `change`."""

    def __init__(self, folder: Path) -> None:
        self.rounds: dict[str, Rounds] = {
            name.replace(" ", "-"): rounds for name, (rounds, _, _) in CHANGES.items()
        }
        self.calls: Counter[str] = Counter()
        ca = CA.create("other", timedelta(hours=1))
        self.ca = ca.cert_pem
        pair = ca.issue("other", ips=["127.0.0.1"], server=True, valid=timedelta(hours=1))
        certificate, key = write_pair(pair, folder, "other")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}/"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        metadata = request["object"]["metadata"]
        rounds = self.rounds[metadata["labels"]["change"]]
        patch = rounds[min(self.calls[metadata["name"]], len(rounds) - 1)]
        self.calls[metadata["name"]] += 1
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}

    def manifest(self) -> dict[str, Any]:
        """Its webhook configuration. API servers call webhooks in the order of these names, so ours
        comes first.
        """
        webhook = {
            "name": "other.example.com",
            "clientConfig": {"url": self.url, "caBundle": base64.b64encode(self.ca).decode()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "objectSelector": {"matchExpressions": [{"key": "change", "operator": "Exists"}]},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
        }
        kind, name = "MutatingWebhookConfiguration", "other"
        return {
            "apiVersion": VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [webhook],
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        other = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(
                    {**review, "request": None, "response": other.answer(review["request"])}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        return Handler


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A cluster with declared pools, which ends with this process in any case."""
    with started(
        f"others-{os.getpid()}", SETTINGS, {"pool1": 1, "pool2": 1}, progress=Progress()
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def objects(shared: Cluster) -> clients.Objects:
    return shared.objects()


@pytest.fixture(scope="module")
def create(
    shared: Cluster, objects: clients.Objects, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., dict[str, Any]]]:
    """Creates a pod that the other webhook changes in this way."""
    other = Other(tmp_path_factory.mktemp("other"))
    thread = threading.Thread(target=other.server.serve_forever, daemon=True)
    thread.start()
    metadata = {"name": "others", "labels": {"agentpool": "pool1"}}
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "others"},
        }
    )
    numbers = iter(range(10**6))

    def make(change: str) -> dict[str, Any]:
        labels = {"change": change.replace(" ", "-")}
        return objects.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"web-{next(numbers)}",
                    "namespace": "others",
                    "labels": labels,
                },
                "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
            }
        )

    def in_force() -> bool:
        with suppress(Refused):
            make("removes the nodeSelector")
        return bool(other.calls)

    objects.apply(other.manifest())
    until(in_force, what="the other webhook is in force", pause=0.1)
    yield make
    objects.delete(VERSION, "MutatingWebhookConfiguration", "other")
    other.server.shutdown()
    thread.join()
    other.server.server_close()


def refused(create: Callable[..., dict[str, Any]], change: str) -> Refused | None:
    """The refusal of a pod with this change; None if it was admitted."""
    try:
        create(change)
    except Refused as error:
        return error
    return None


@pytest.fixture
def guarded(shared: Cluster, create: Callable[..., dict[str, Any]]) -> Iterator[None]:
    """Wait until our validating webhook is in force, now and after the test."""
    until(lambda: refused(create, "sets a nodeName"), what="the final state is looked at")
    yield
    deploy.deploy(shared, SETTINGS, progress=Progress())


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("change", CHANGES)
def test_what_another_webhook_makes_of_a_placed_pod_is_refused(
    create: Callable[..., dict[str, Any]], change: str
) -> None:
    _, status, words = CHANGES[change]
    with pytest.raises(Refused, match=words) as no:
        create(change)
    assert no.value.status == status


@pytest.mark.usefixtures("guarded")
def test_without_the_validating_webhook_it_would_get_through(
    objects: clients.Objects, create: Callable[..., dict[str, Any]]
) -> None:
    objects.delete(VERSION, "ValidatingWebhookConfiguration", "fairlead")

    def created(change: str) -> dict[str, Any] | None:
        try:
            return dict(create(change)["spec"])
        except Refused:
            return None

    def through(change: str) -> dict[str, Any]:
        return until(lambda: created(change), what=f"a pod gets through that {change}")

    assert "nodeSelector" not in through("removes the nodeSelector")
    tolerations = through("removes the tolerations").get("tolerations", [])
    assert [toleration for toleration in tolerations if toleration["key"] == "reserved"] == []
    assert through("changes the nodeSelector")["nodeSelector"] == {"agentpool": "pool2"}
    assert through("sets a nodeName")["nodeName"] == "pool2-0"


@pytest.mark.usefixtures("guarded")
def test_where_nothing_is_to_be_denied_it_gets_through_too(
    shared: Cluster, create: Callable[..., dict[str, Any]]
) -> None:
    deploy.deploy(
        shared,
        SETTINGS.model_copy(update={"enforcement": {"node-pool": "warn"}}),
        progress=Progress(),
    )
    for change in CHANGES:
        through = functools.partial(lambda change: refused(create, change) is None, change)
        until(through, what=f"a pod gets through that {change}")
