"""An admission webhook for Deployments, written by hand with Python's standard library: how many
replicas they have, which labels, and which registries their images are from.

python3 webhook.py TLS-CERTIFICATE TLS-KEY PORT
"""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LEAST, MOST = 2, 5
LABELS = ("app", "team")
REGISTRIES = ("registry.example.com/", "ghcr.io/example/")


def problems(deployment: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a Deployment."""
    replicas = deployment["spec"].get("replicas", 1)
    if not LEAST <= replicas <= MOST:
        yield f"{replicas} replicas are not {LEAST} to {MOST}"
    labels = deployment["metadata"].get("labels") or {}
    yield from (f"the label {key} is missing" for key in LABELS if not labels.get(key))
    pod = deployment["spec"]["template"]["spec"]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        if not container["image"].startswith(REGISTRIES):
            yield f"the image {container['image']} is from elsewhere"


def answer(review: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to an AdmissionReview, in its own version."""
    request = review["request"]
    found = list(problems(request["object"]))
    response: dict[str, Any] = {"uid": request["uid"], "allowed": not found}
    if found:
        response["status"] = {"code": 403, "message": "; ".join(found)}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


class Handler(BaseHTTPRequestHandler):
    """Answers the reviews that an API server sends, and the probes of a kubelet."""

    def do_POST(self) -> None:
        """Answer a review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(json.dumps(answer(review)).encode())

    def do_GET(self) -> None:
        """Answer a probe."""
        self._send(b"{}")

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    certificate, key, port = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
