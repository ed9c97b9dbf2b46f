"""The server of `fairlead bundle serve`: gives bundles to OPAs as soon as they are new, takes new
ones, and counts what OPAs report."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.common.errors import InputError
from fairlead.distribution.archives import LARGEST, NAMES
from fairlead.distribution.followers import Followers
from fairlead.distribution.signatures import PublicKey
from fairlead.distribution.store import RefusedError, Served, Store
from fairlead.engines.serving import connections
from fairlead.sync.server_certificates import Certificate

CONNECTIONS = 8192
"""The most connections; more get 503. An OPA has one for each bundle that it waits for."""
_LONGEST_WAIT = 300.0
"""Seconds."""
_LOOK = 0.25
"""Seconds between two looks at the files, which others may replace, too."""
_LARGEST_REPORT = 1024 * 1024
"""Bytes."""
_BUNDLE = "application/vnd.openpolicyagent.bundles"
"""The Content-Type by which an OPA knows that it may wait for a new bundle."""


@dataclass(frozen=True)
class Options:
    """What `fairlead bundle serve` serves, and where. A request to replace a bundle needs the token
    of the one file, every other request that of the other file, if there is one.
    """

    folder: Path
    host: str
    port: int
    certificate: Path
    private_key: Path
    keys: Sequence[PublicKey]
    scope: str
    push_token: Path | None
    follow_token: Path | None
    log_level: str


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises UsageError or InputError for a folder, a certificate or
    a token that cannot be used, and FairleadError for such an address.
    """
    Certificate(options.certificate, options.private_key)
    for token in (options.push_token, options.follow_token):
        if token:
            _token(token)
    service = _Service(Store(options.folder, options.keys, options.scope), options)
    with connections.listening(options.host, options.port) as listener:
        config = connections.configured(
            service.application(),
            options.certificate,
            options.private_key,
            connections=CONNECTIONS,
            log_level=options.log_level,
        )
        # uvicorn raises the signal again once it has ended.
        with suppress(KeyboardInterrupt):
            _Server(config, service).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Answers the OPAs that wait when it is told to end."""

    def __init__(self, config: uvicorn.Config, service: _Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.ending = True
        super().handle_exit(sig, frame)


class _Service:
    def __init__(self, store: Store, options: Options) -> None:
        self._store, self._options = store, options
        self._followers = Followers()
        self._changed = asyncio.Event()
        self.ending = False

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/bundles/{name}.tar.gz", self.bundle, methods=["GET"]),
                Route("/bundles/{name}.tar.gz", self.replace, methods=["PUT"]),
                Route("/status", self.note, methods=["POST"]),
                Route("/status", self.status, methods=["GET"]),
                Route("/health", self.health),
            ],
            lifespan=self.lifespan,
        )

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def health(self, _: Request) -> Response:
        return _json(200, {"status": "ok"})

    async def bundle(self, request: Request) -> Response:
        """The bundle, or 304 if the OPA has it. With `Prefer: wait=N`, that answer comes after N
        seconds, unless the bundle changes.
        """
        if refusal := self._refusal(request, self._options.follow_token):
            return refusal
        name, headers = request.path_params["name"], request.headers
        served = self._store.get(name)
        wait = re.search(r"\bwait=(\d{1,6})\b", headers.get("prefer", ""))
        if served and wait and _has(headers.get("if-none-match", ""), served):
            served = await self._newer(name, served, min(float(wait[1]), _LONGEST_WAIT))
        if served is None:
            return _json(404, {"error": f"there is no bundle {name} yet"})
        if _has(headers.get("if-none-match", ""), served):
            return Response(status_code=304, headers={"ETag": served.etag})
        return Response(served.packed, headers={"ETag": served.etag}, media_type=_BUNDLE)

    async def replace(self, request: Request) -> Response:
        """Take a new bundle, which was signed after the present one."""
        if self._options.push_token is None:
            return _json(403, {"error": "no bundle is taken: serve with --push-token-file"})
        if refusal := self._refusal(request, self._options.push_token):
            return refusal
        packed = await _body(request, LARGEST)
        if packed is None:
            return _json(413, {"error": f"the bundle has more than {LARGEST} bytes"})
        name = request.path_params["name"]
        try:
            archive = await run_in_threadpool(self._store.replace, name, packed)
        except RefusedError as error:
            return _json(error.status, {"error": str(error)})
        self._announce()
        return _json(200, {"name": name, "revision": archive.revision, "signed": archive.signed})

    async def note(self, request: Request) -> Response:
        """Take the report of an OPA."""
        if refusal := self._refusal(request, self._options.follow_token):
            return refusal
        body = await _body(request, _LARGEST_REPORT)
        try:
            self._followers.note(json.loads(body or b""))
        except (ValueError, RecursionError) as error:
            return _json(400, {"error": str(error)})
        return _json(200, {})

    async def status(self, request: Request) -> Response:
        if refusal := self._refusal(request, self._options.follow_token):
            return refusal
        return _json(200, self._followers.summary({name: self._store.get(name) for name in NAMES}))

    async def _newer(self, name: str, served: Served, wait: float) -> Served | None:
        """The bundle that replaces this one; the same if none does in time."""
        end = asyncio.get_running_loop().time() + wait
        current: Served | None = served
        while current == served and not self.ending:
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                break
            current = self._store.get(name)
        return current

    async def _watch(self) -> None:
        """Tell the OPAs that wait when a file changes, and when the server ends."""
        while not self.ending:
            await asyncio.sleep(_LOOK)
            if await run_in_threadpool(self._store.refresh):
                self._announce()
        self._announce()

    def _announce(self) -> None:
        """Wake all that wait; those that come later wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _refusal(self, request: Request, token: Path | None) -> Response | None:
        """The answer to a request without this token."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        if token is None or hmac.compare_digest(given, _token(token)):
            return None
        return _json(401, {"error": "the token is wrong, or there is none"})


def _has(header: str, served: Served) -> bool:
    """Whether a header If-None-Match names this bundle."""
    return served.etag in re.split(r"\s*,\s*", header.strip())


def _token(file: Path) -> bytes:
    """The token in a file, which may be replaced while the server runs. Raises InputError."""
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise InputError(
            file, f"cannot be read ({error.strerror}): write a token into it"
        ) from error
    if len(token) < 16:
        raise InputError(
            file, "holds no token of 16 or more bytes: `openssl rand -hex 32` makes one"
        )
    return token


async def _body(request: Request, most: int) -> bytes | None:
    """The body; None if it has more bytes than `most`."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                return None
    except ClientDisconnect:
        return b""
    return bytes(body)


def _json(status: int, body: Any) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")
