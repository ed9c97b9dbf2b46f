"""The web application of a worker: reviews, health and metrics."""

from __future__ import annotations

import functools
import json
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fairlead.engines.python import decisions, reviews
from fairlead.engines.python.decisions import Policies
from fairlead.engines.python.serving import bodies, metrics
from fairlead.engines.python.serving.bodies import UnreadableError
from fairlead.engines.python.serving.connections import GRACE
from fairlead.engines.python.serving.deployed import Deployed
from fairlead.engines.python.serving.namespaces import Labels, Namespaces
from fairlead.engines.python.serving.reports import Reports
from fairlead.engines.python.serving.watched_exceptions import Exceptions
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

log = logging.getLogger(__name__)

# Otherwise the server would read the rest of the body, however long it is.
_CLOSE = {"Connection": "close"}

_STARTING = (
    "the server in Python is starting: retry in a second. If this lasts, `fairlead status` says why"
)
_FIRST = 2.0
"""Seconds for which a new worker waits for its policies, before it takes connections. It then tells
who asks that it is starting: an API server that waits itself only says `context deadline exceeded`.
"""


@dataclass
class Application:
    """An ASGI application. It can be sent to another process before its first use.

    Without settings, it decides by the policies that are deployed in the cluster. `folder` is where
    all workers leave their reports.
    """

    settings: Settings | None
    kubeconfig: Path | None
    folder: Path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._starlette(scope, receive, send)

    @functools.cached_property
    def _starlette(self) -> Starlette:
        worker = _Worker(self.settings, self.kubeconfig, self.folder)
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
    def __init__(self, settings: Settings | None, kubeconfig: Path | None, folder: Path) -> None:
        self._fixed = decisions.of_policies(PolicySet.load(settings)) if settings else None
        self._deployed = None if settings else Deployed(kubeconfig, self._report)
        self._namespaces = Namespaces(kubeconfig)
        self._exceptions = Exceptions(kubeconfig)
        self._reports = Reports(folder)
        self._in_hand = bodies.Budget()
        self._stop = Event()

    @property
    def _policies(self) -> Policies | None:
        return self._deployed.policies if self._deployed else self._fixed

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        Thread(target=_end_with_parent, daemon=True).start()
        self._report()
        self._namespaces.start(self._stop)
        self._exceptions.start(self._stop)
        if self._deployed:
            self._deployed.start(self._stop)
            await run_in_threadpool(self._deployed.read.wait, _FIRST)
        try:
            yield
        finally:
            self._stop.set()

    def _report(self) -> None:
        """Tell the other workers by which policies this one decides."""
        deployed = self._deployed
        self._reports.write(
            {"revision": deployed.revision, "rejected": deployed.rejected} if deployed else {}
        )

    async def health(self, _: Request) -> Response:
        return _json(200, {"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Ready as soon as policies and namespaces are known; lookups answer for a watch that broke
        off. `revision` is that of all workers, null while they differ.
        """
        trouble = (self._deployed and self._deployed.trouble) or self._namespaces.trouble
        document: dict[str, Any] = {"status": trouble or "ok"}
        if self._deployed:
            reports = list(self._reports.read())
            revisions = {report.get("revision") for report in reports}
            rejected = [entry["rejected"] for entry in reports if entry.get("rejected")]
            document["revision"] = revisions.pop() if len(revisions) == 1 else None
            document["rejected"] = rejected[0] if rejected else None
        return _json(503 if trouble else 200, document)

    async def metrics(self, _: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    async def review(self, request: Request) -> Response:
        """The answer to a review, by the intent of the path or by all. A webhook that asks for an
        intent that is not in force gets no answer, so that it fails closed.
        """
        policies, intent = self._policies, request.path_params.get("intent")
        if policies is None:
            return _failure(503, _STARTING)
        names = policies.names if intent is None else {intent} & policies.names
        if intent and not names:
            return _failure(404, f"no policy {intent} is in force")
        try:
            async with self._in_hand.read(request) as review:
                return await self._answer(policies, names, review)
        except UnreadableError as error:
            metrics.UNREADABLE.labels(error.status).inc()
            return _failure(error.status, str(error))

    async def _answer(self, policies: Policies, names: Collection[str], review: Any) -> Response:
        with metrics.SECONDS.time():
            try:
                labels = await self._labels(policies, review, names)
                exceptions = self._exceptions.of(reviews.namespace(review))
                answer = policies.answer(review, labels, names, exceptions)
            except Exception:  # an API server treats it as a failure, and fails closed
                log.exception("no decision about the request %s", reviews.uid(review))
                metrics.DECISIONS.labels("failed").inc()
                return _failure(500, "the policies failed: see the log", closed=False)
        response = answer["response"]
        outcome = "patched" if "patch" in response else "allowed"
        metrics.DECISIONS.labels(outcome if response["allowed"] else "refused").inc()
        return _json(200, answer)

    async def _labels(
        self, policies: Policies, review: Any, names: Collection[str]
    ) -> Labels | None:
        """The labels of the review's namespace. The watch is always a little late: what contradicts
        the API server, which asks about this namespace, is looked up.
        """
        name = reviews.namespace(review)
        labels = self._namespaces.seen(name)
        if not policies.doubts(review, labels, names):
            return labels
        return await run_in_threadpool(self._namespaces.look_up, name)


def _end_with_parent() -> None:
    """End this worker when its parent ends, even if that is killed: it holds the port, which the
    next server needs.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _failure(status: int, message: str, *, closed: bool = True) -> Response:
    """Why there is no decision, as a Status: API servers show its message to the user, and nothing
    of another answer. `error` has the same text for other clients.
    """
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": status,
        "error": message,
    }
    return _json(status, body, _CLOSE if closed else None)


def _json(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """JSON in ASCII: messages quote requests, in which there can be lone surrogates."""
    return Response(json.dumps(body), status, headers, "application/json")
