"""The server of `fairlead shadow`: answers API servers at once, and has reviews compared later."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.engines.python import reviews
from fairlead.engines.serving import bodies, connections
from fairlead.engines.serving.bodies import UnreadableError
from fairlead.engines.shadow import metrics
from fairlead.engines.shadow.comparing import Comparing
from fairlead.sync.server_certificates import Certificate

CONNECTIONS = 128
"""The most connections; more get 503, and their requests go on without being compared."""


@dataclass(frozen=True)
class Options:
    """Where `fairlead shadow` serves, and whom it asks. Without a kubeconfig, it uses the pod's
    service account; `matcher` is the program fairlead-matcher.
    """

    host: str
    port: int
    certificate: Path
    key: Path
    kubeconfig: Path | None
    opa_url: str
    opa_ca: Path
    matcher: Path
    log_level: str


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises UsageError or InputError if a certificate or the
    kubeconfig cannot be used, and FairleadError if the address cannot.
    """
    Certificate(options.certificate, options.key)
    comparing = Comparing(options.kubeconfig, options.opa_url, options.opa_ca, options.matcher)
    with connections.listening(options.host, options.port) as listener:
        config = connections.configured(
            application(comparing),
            options.certificate,
            options.key,
            connections=CONNECTIONS,
            log_level=options.log_level,
        )
        uvicorn.Server(config).run(sockets=[listener])


def application(comparing: Comparing) -> Starlette:
    """The ASGI application."""

    async def review(request: Request) -> Response:
        """Allow every request as it is, and have it compared."""
        try:
            body = await bodies.receive(request)
            value = bodies.parse(body)
        except UnreadableError as error:
            return _json(error.status, {"error": str(error)})
        comparing.tell(request.path_params["intent"], value, len(body))
        version = value.get("apiVersion") if isinstance(value, dict) else None
        response = {"uid": reviews.uid(value), "allowed": True}
        answer = {"apiVersion": version, "kind": "AdmissionReview", "response": response}
        return _json(200, answer)

    async def health(_: Request) -> Response:
        hung = comparing.hung
        return _json(503 if hung else 200, {"status": "nothing is compared" if hung else "ok"})

    async def numbers(_: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        stop = Event()
        comparing.start(stop)
        try:
            yield
        finally:
            stop.set()

    return Starlette(
        routes=[
            Route("/intents/{intent}", review, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", numbers),
        ],
        lifespan=lifespan,
    )


def _json(status: int, body: Any) -> Response:
    """JSON in ASCII: a review can have lone surrogates."""
    return Response(json.dumps(body), status, media_type="application/json")
