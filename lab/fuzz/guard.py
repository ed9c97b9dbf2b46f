"""Fuzzes OPA's authz policy by saved, plain and random requests (guard_requests.py).

OPA may answer only what the contract allows.

The contract (docs/security.md): without a token, `POST /`, also with the query
`timeout=<n>s`, `GET /health` and `GET /health/ready`; with a valid token as `Authorization:
Bearer <token>`, everything that OPA serves; with the token of a scope, also its requests, without
a query.

The oracle accepts some other answers, because they reveal and change nothing:
- Another spelling of the same address (percent-encoded letters: RFC 3986, 6.2.2; `GET
  https://host/health`: RFC 9112, 3.2.2) may get the answer of the plain one. OPA's policy sees only
  the decoded path.
- Both OPA's authz policy and its handlers ignore a part of a query that Go's library cannot read
  (with `;` or a broken escape).
- OPA redirects every path that ends in a slash to the same path without it, before its authz policy
  and whether the path exists or not.
- OPA 1.22 closes the connection, or the stream, if a body claims to be gzip but is not: it closes a
  reader that was never opened, and Go's HTTP library recovers from that. Other connections are not
  affected, and API servers send no gzip.
- Go's HTTP library answers some requests itself, before OPA's authz policy: 400, 431, 501 or 505 to
  invalid requests, the end of the stream to a header that HTTP/2 does not allow (RFC 9113, 8.2.1),
  and an empty 200 to `OPTIONS *`. OPA answers 400 to a body that it cannot read. Its authz policy
  does not distinguish `post /` from `POST /`, but its router does: 405.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import secrets
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.policy import bundles, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.fuzz import scoped_requests
from lab.fuzz.client import Client, Http1, Http2, Response
from lab.fuzz.guard_requests import READS, Request, plain, requests
from lab.fuzz.search import Search, Violation, search
from lab.fuzz.server import CONSOLE, AuthzPolicy, Opa, running
from lab.fuzz.spellings import decoded_path, plain_spelling

EXAMPLES = 20_000
FOLDER = "testdata/fuzz/guard"
"""Requests that were once answered wrongly, or might be. Each run sends them first."""
_ROTATIONS = 4
"""The most rotations of the token in a run. There is at least one, and at most one for every
thousand requests."""
_DEBUGGED = 0.1
"""The part of the requests that is sent to an OPA that logs all it can, and so nothing that is
secret."""
_LIMITED = 0.4
"""As many more, as a part of them, are sent to OPA's plugin, as everyone but the sidecar
reaches OPA."""
_CANARY = secrets.token_hex(16)
"""Stands in OPA's data, policies and environment, and so in no answer without a token."""


def run(
    *,
    examples: int = EXAMPLES,
    seed: int,
    progress: Progress,
    authz: AuthzPolicy = bundles.authz_module,
    policies: Path | None = None,
) -> dict[str, Any]:
    """Fuzz a new OPA with the authz policy `authz` and the policies of a folder.

    Returns Search.result with the number of `rotations` of the token.
    """
    began = time.monotonic()
    bundle = staging.stage(PolicySet.load(Settings(placement=True), policies).bundle, progress)
    totals: Search[Request] = Search()
    rotations = 0
    debugged, limited = (max(1, int(examples * part)) for part in (_DEBUGGED, _LIMITED))
    for name, count, flags in (
        ("guard", examples - debugged, []),
        ("guard (plugin)", limited, []),
        ("guard (debug)", debugged, ["--log-level=debug"]),
    ):
        with tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder:
            opa = Opa(
                Path(folder),
                bundle=bundles.Bundle(
                    {
                        **bundle.modules,
                        "canary.rego": f"package canary\n\nvalue := {json.dumps(_CANARY)}\n",
                    }
                ),
                data={
                    "kubernetes/namespaces": {
                        "payments": {"metadata": {"labels": {"agentpool": "pool1"}}}
                    },
                    "secret": _CANARY,
                },
                authz=authz,
                flags=[*CONSOLE, *flags],
                http2="plugin" not in name,
                limited="plugin" in name,
                environment={"CANARY": _CANARY},
            )
            with running(opa):
                target = _Target(opa, queries="debug" not in name)
                part = _search(target, count, seed, name, progress)
                rotations += target.rotations
        totals.add(part)
        if totals.why:
            break
    return totals.result("guard", seed, began, asdict, rotations=rotations)


def _search(
    target: _Target, count: int, seed: int, name: str, progress: Progress
) -> Search[Request]:
    """Send the saved requests, then every plain one, then random ones up to `count`; rotate the
    token from time to time.
    """
    result: Search[Request] = Search()
    try:
        known = map(Request.load, sorted((paths.root() / FOLDER).glob("*.json")))
        result.try_known(itertools.chain(known, plain(), scoped_requests.plain()), target.check)
        rotations = min(_ROTATIONS, max(1, count // 1_000))
        for part in range(rotations + 1):
            if result.why:
                return result
            if part:
                target.rotate()
            left = (count - result.tried) // (rotations + 1 - part)
            unscoped = requests(queries=target.queries)
            examples = st.one_of(unscoped, unscoped, unscoped, scoped_requests.requests())
            result.add(
                search(
                    examples,
                    target.check,
                    examples=max(1, left),
                    seed=seed + part,
                    name=name,
                    progress=progress,
                )
            )
            target.check_state()
        target.check_secrets()
    except Violation as violation:
        result.why = result.why or str(violation)
    finally:
        target.close()
    return result


def listed(method: str, target: str) -> bool:
    """Whether the contract lists the request in exactly this spelling for callers without a
    token.
    """
    address, _, query = target.partition("?")
    if (method, address) == ("POST", "/"):
        return target == "/" or bool(re.fullmatch(r"timeout=[0-9]{1,2}s", query))
    return (method, target) in {("GET", "/health"), ("GET", "/health/ready")}


def equivalent(method: str, target: str) -> bool:
    """Whether the request is another spelling of one that the contract lists; see the docstring of
    the module.
    """
    spelling = plain_spelling(target)
    return spelling is not None and listed(method, spelling)


def authorized(request: Request) -> bool | None:
    """Whether the first Authorization header has a valid token; None if its form is not specified.

    More blanks or another case of `Bearer` may be accepted or not, because whoever holds the token
    may do everything anyway.
    """
    presented = next(
        (value for name, value in request.headers if name.lower() == "authorization"), ""
    )
    if presented == "Bearer <valid>":
        return True
    return None if re.fullmatch(r"bearer\s+<valid>\s*", presented, re.IGNORECASE) else False


class _Target:
    """The OPA under test, with a connection for each protocol."""

    def __init__(self, opa: Opa, *, queries: bool) -> None:
        self.queries = (
            queries  # whether queries may contain tokens; OPA logs queries at the level debug
        )
        self.rotations = 0
        self._opa = opa
        self._clients: dict[str, Client] = {
            "1.0": Http1(opa.address, opa.ca, "1.0"),
            "1.1": Http1(opa.address, opa.ca),
        }
        # The plugin speaks only HTTP/1, so it gets the requests for HTTP/2 in that form.
        self._clients["2"] = Http2(opa.http2) if opa.http2 else Http1(opa.address, opa.ca)
        self._state = opa.state()
        self._secrets = [*opa.tokens, *itertools.chain(*opa.scoped.values()), _CANARY]
        self._spell()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def rotate(self) -> None:
        if wrong := self._opa.rotate() or self._opa.rotate_scoped():
            raise Violation(wrong)
        self.rotations += 1
        newest = [self._opa.token, *(tokens[0] for tokens in self._opa.scoped.values())]
        self._secrets = [*newest, *self._secrets]
        self._spell()

    def check(self, request: Request) -> str:
        """The outcome of one request. Raises Violation if the answer is wrong."""
        sent = {
            name: _latin(self._filled(getattr(request, name)))
            for name in ("method", "target", "body")
        }
        headers = [(_latin(name), _latin(self._filled(value))) for name, value in request.headers]
        try:
            answer = self._clients[request.protocol].send(
                sent["method"], sent["target"], headers, sent["body"]
            )
        except TimeoutError:
            self._clients[request.protocol].close()
            raise Violation("no answer, and no end of the connection either") from None
        if self._opa.pid is None:
            self._opa.start()
            raise Violation("OPA ended")
        allowed = authorized(request)
        if allowed is False:
            if listed(request.method, request.target):
                return self._check_listed(request, answer)
            allowed = (
                None
                if equivalent(request.method, request.target)
                else scoped_requests.opened(request)
            )
        if answer is not None:
            leaked = [secret for secret in self._secrets if secret.encode() in answer.text]
            if any(secret != _CANARY or not self._may_read(request) for secret in leaked):
                raise Violation(f"the answer ({answer.status}) tells a secret: {_shown(answer)}")
        if allowed is None:
            return "in another spelling"
        if allowed:
            return _accepted(request, answer)
        return _refused(request, answer)

    def check_state(self) -> None:
        """Raises Violation if a request changed policies or data."""
        if self._opa.state() != self._state:
            raise Violation(
                "policies or data are not what they were: a request without a token changed them"
            )

    def check_secrets(self) -> None:
        """Raises Violation if a token appears in OPA's log, in the process list or in the
        environment of a process.
        """
        log = self._opa.log.read_text(encoding="utf-8", errors="replace")
        if '"decision_id"' not in log:
            raise FairleadError(
                f"{self._opa.log}: holds no decisions, so that nothing is known about what they "
                "tell"
            )
        texts = {"OPA's log": log}
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", *(["environ"] if process.name == str(self._opa.pid) else [])):
                try:
                    texts[f"the {name} of process {process.name}"] = (process / name).read_text(
                        errors="replace"
                    )
                except OSError:  # it has ended, or is another user's
                    continue
        for where, text in texts.items():
            for token in self._secrets[:-1]:
                if token in text:
                    at = text.index(token)
                    around = text[max(0, at - 200) : at + len(token) + 50].replace(token, "<valid>")
                    raise Violation(f"a token stands in {where}: {around}")

    def _check_listed(self, request: Request, answer: Response | None) -> str:
        """Check a request that the contract lists: it is answered with any token or none."""
        if answer is None and ("Content-Encoding", "gzip") in request.headers:
            return "listed: no answer to gzip that is none"
        if answer is None and any(" " in name for name, _ in request.headers):
            return "listed: stream ended for a malformed header"
        if answer is None or answer.status in (401, 403, 404, 405):
            raise Violation(f"the contract lists this request, but it is refused: {_shown(answer)}")
        if any(secret.encode() in answer.text for secret in self._secrets):
            raise Violation(f"the answer tells a secret: {_shown(answer)}")
        return f"listed: {answer.status}"

    def _may_read(self, request: Request) -> bool:
        return authorized(request) is not False

    def _filled(self, text: str) -> str:
        return re.sub(r"<([a-z]+)>", lambda match: self._spellings.get(match[1], match[0]), text)

    def _spell(self) -> None:
        token, retired = self._opa.token, self._opa.retired
        self._spellings: Mapping[str, str] = {
            "valid": token,
            "retired": retired[-1],
            "oldest": retired[0],
            "truncated": token[:-1],
            "beheaded": token[1:],
            "extended": token + "x",
            "doubled": token + token,
            "swapped": token.swapcase(),
            "digest": hashlib.sha256(token.encode()).hexdigest(),
            "spaced": f"{token[:20]} {token[20:]}",
            "hard": token + "\xa0",
            "basic": base64.b64encode(f"admin:{token}".encode()).decode(),
            "encoded": "".join(f"%{ord(c):02x}" for c in token),
            **scoped_requests.spellings(self._opa.scoped, self._opa.scoped_retired),
        }


def _accepted(request: Request, answer: Response | None) -> str:
    accepted = (
        (200, 201, 204, 304, 404) if (request.method, request.target) in READS else range(200, 501)
    )
    if answer is None or answer.status in (401, 403) or answer.status not in accepted:
        raise Violation(f"a valid token does not get this answered: {_shown(answer)}")
    return f"valid token: {answer.status}"


def _refused(request: Request, answer: Response | None) -> str:
    if answer is None:
        return "refused: stream or connection ended"
    if answer.status == 401:
        if json.loads(answer.body or b"{}").get("code", "unauthorized") != "unauthorized":
            raise Violation(f"a refusal that says more than that: {_shown(answer)}")
    elif (request.method, request.target, answer.status, answer.body) == ("OPTIONS", "*", 200, b""):
        return "OPTIONS *: an empty 200"
    elif answer.status == 301 and decoded_path(request.target).endswith("/"):
        return "refused: redirected to the path without its slash"
    elif answer.status not in (400, 405, 417, 431, 501, 505):
        raise Violation(f"answered without a valid token: {_shown(answer)}")
    return f"refused: {answer.status}"


def _shown(answer: Response | None) -> str:
    return "no answer" if answer is None else f"{answer.status} {answer.body[:300]!r}"


def _latin(text: str) -> bytes:
    return text.encode("latin-1")
