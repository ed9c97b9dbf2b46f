"""A mutating webhook of somebody else, which changes pods after ours has placed them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from waits import until

from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.pki.certificates import CA
from fairlead.pki.key_files import write_pair
from fairlead.settings.models import Settings

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
# The first change has ours called once more, so that the second is one that no mutating webhook of
# ours sees.
CHANGES: dict[str, Rounds] = {
    "removes the nodeSelector": [STRIP],
    "removes the tolerations": [NO_TOLERATIONS],
    "changes the nodeSelector": [STRIP, ELSEWHERE],
    "sets a nodeName": [STRIP, PAST_THE_SCHEDULER],
}

Create = Callable[[str], dict[str, Any]]
"""Creates a pod that the other webhook changes in this way."""


class Other:
    """A mutating webhook that changes each pod by the `rounds` of its label `change`."""

    def __init__(self, folder: Path) -> None:
        self.rounds: dict[str, Rounds] = {
            name.replace(" ", "-"): rounds for name, rounds in CHANGES.items()
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


@contextmanager
def running(objects: clients.Objects, folder: Path) -> Iterator[Create]:
    """The webhook during the block, for pods of the namespace `others`, which is in pool1."""
    other = Other(folder)
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
    try:
        yield make
    finally:
        objects.delete(VERSION, "MutatingWebhookConfiguration", "other")
        other.server.shutdown()
        thread.join()
        other.server.server_close()


def refused(create: Create, change: str) -> Refused | None:
    """The refusal of a pod with this change; None if it was admitted."""
    try:
        create(change)
    except Refused as error:
        return error
    return None
