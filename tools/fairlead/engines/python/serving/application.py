"""The web application of a worker: reviews, health and metrics."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fairlead.engines.python import reviews
from fairlead.engines.python.decisions import Policies
from fairlead.engines.python.serving import bodies, metrics
from fairlead.engines.python.serving.bodies import UnreadableError
from fairlead.engines.python.serving.namespaces import Labels, Namespaces
from fairlead.settings.models import Settings

log = logging.getLogger(__name__)

# Otherwise the server would read the rest of the body, however long it is.
_CLOSE = {"Connection": "close"}


@dataclass
class Application:
    """An ASGI application. It can be sent to another process before its first use."""

    settings: Settings
    kubeconfig: Path | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._starlette(scope, receive, send)

    @functools.cached_property
    def _starlette(self) -> Starlette:
        worker = _Worker(Policies(self.settings), Namespaces(self.kubeconfig))
        return Starlette(
            routes=[
                Route("/", worker.review, methods=["POST"]),
                Route("/intents/{intent}", worker.review, methods=["POST"]),
                Route("/health", worker.health),
                Route("/health/ready", worker.ready),
                Route("/metrics", worker.metrics),
            ],
            lifespan=worker.lifespan,
        )


class _Worker:
    def __init__(self, policies: Policies, namespaces: Namespaces) -> None:
        self._policies = policies
        self._namespaces = namespaces

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._namespaces.start()
        try:
            yield
        finally:
            self._namespaces.stop()

    async def health(self, _: Request) -> Response:
        return _json(200, {"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Ready as soon as the namespaces are known; lookups answer for a watch that broke off."""
        trouble = self._namespaces.trouble
        return _json(503 if trouble else 200, {"status": trouble or "ok"})

    async def metrics(self, _: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    async def review(self, request: Request) -> Response:
        """The answer to a review, by the intent of the path or by all. A webhook that asks for an
        intent that is not in force gets no answer, so that it fails closed.
        """
        intent = request.path_params.get("intent")
        asked = self._policies.names if intent is None else {intent} & self._policies.names
        if intent and not asked:
            return _json(404, {"error": f"no policy {intent} is in force"}, _CLOSE)
        try:
            review = await bodies.read(request)
        except UnreadableError as error:
            metrics.UNREADABLE.labels(error.status).inc()
            return _json(error.status, {"error": str(error)}, _CLOSE)
        with metrics.SECONDS.time():
            try:
                labels = await self._labels(review, asked)
                answer = self._policies.answer(review, labels, asked)
            except Exception:  # an API server treats it as a failure, and fails closed
                log.exception("no decision about the request %s", reviews.uid(review))
                metrics.DECISIONS.labels("failed").inc()
                return _json(500, {"error": "the policies failed: see the log"})
        response = answer["response"]
        outcome = "patched" if "patch" in response else "allowed"
        metrics.DECISIONS.labels(outcome if response["allowed"] else "refused").inc()
        return _json(200, answer)

    async def _labels(self, review: Any, asked: Collection[str]) -> Labels | None:
        """The labels of the review's namespace. The watch is always a little late: what contradicts
        the API server, which asks about this namespace, is looked up.
        """
        name = reviews.namespace(review)
        seen = self._namespaces.seen(name)
        if not self._policies.doubts(review, seen, asked):
            return seen
        return await run_in_threadpool(self._namespaces.look_up, name)


def _json(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """JSON in ASCII: messages quote requests, in which there can be lone surrogates."""
    return Response(json.dumps(body), status, headers, "application/json")
