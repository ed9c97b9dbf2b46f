"""Generates requests to OPA's API: every path and method in every spelling, with headers and
credentials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fairlead.common import yaml_files
from fairlead.common.errors import InputError


@dataclass(frozen=True)
class Request:
    """A request as it is sent. `<valid>` and the other names of guard.py stand for valid and
    invalid tokens.

    Text is sent as Latin-1. `protocol` is 1.0, 1.1 or 2.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    protocol: str = "1.1"

    @classmethod
    def load(cls, path: Path) -> Request:
        """Read a request from a JSON file, as a failing run prints it. Raises InputError if it is
        invalid.
        """
        value = yaml_files.read_json(path)
        try:
            return cls(
                **{
                    **value,
                    "headers": tuple((name, text) for name, text in value.get("headers", ())),
                }
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(
                path, f"is not a request as `python -m lab fuzz` prints one: {error}"
            ) from error


_REVIEW = json.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "operation": "DELETE", "kind": {"kind": "Pod"}},
    }
)
_PATHS = (
    *("/", "/health", "/health/ready", "/health/live", "/health/x/y"),
    *(
        "/v1/policies",
        "/v1/policies/fairlead/policies/main.rego",
        "/v1/policies/fuzz",
        "/v1/policies/system/authz",
    ),
    *("/v1/data", "/v1/data/", "/v1/data/secret", "/v1/data/kubernetes/namespaces"),
    "/v1/data/system/authz/token_digests",
    *(
        "/v1/data/system/main",
        "/v1/data/system/health/ready",
        "/v0/data",
        "/v0/data/secret",
        "/v0/data/system/main",
    ),
    *(
        "/v1/query",
        "/v1/query/x",
        "/v1/compile",
        "/v1/compile/system/main",
        "/v1/config",
        "/v1/status",
    ),
    "/v1/batch/data/secret",
    *("/v1/data/k8s", "/v1/data/k8s/placement", "/v0/data/k8s/placement", "/v0/data/controller"),
    *(
        "/metrics",
        "/metrics/alloc_bytes",
        "/debug/pprof/",
        "/debug/pprof/heap",
        "/debug/pprof/cmdline",
    ),
    "/debug/pprof/trace",
    *(
        "/v1",
        "/v2/data",
        "/logs",
        "/exp/data",
        "/index.html",
        "/favicon.ico",
        "/.well-known/jwks.json",
        "*",
        "",
    ),
    "health",
)
METHODS = (
    *(
        "GET",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "HEAD",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "QUERY",
        "PROPFIND",
    ),
    *("get", "post", "Post", "gET", "FOO", "POST/", "G\xcbT"),
)
QUERIES = (
    *("", "timeout=5s", "timeout=30s", "timeout=100s", "timeout=5m", "timeout=s", "timeout=-1s"),
    "timeout=5s&timeout=5s",
    *(
        "timeout=5%73",
        "%74imeout=5s",
        "timeout=5s&",
        "&timeout=5s",
        "timeout=5s;pretty",
        "timeout=5s&pretty",
    ),
    "Timeout=5s",
    *(
        "timeout=5s%26pretty=true",
        "timeout=5s%0a",
        "timeout=%d9%a5s",
        "timeout[]=5s",
        "timeout",
        "&&",
        ";",
        "%zz",
    ),
    *("?", "="),
    *(
        "pretty",
        "pretty=true",
        "explain=full",
        "metrics",
        "instrument",
        "provenance",
        "strict-builtin-errors",
    ),
    "bundles",
    *(
        "plugins",
        "bundles&plugins",
        "exclude-plugin=x",
        "q=data.secret",
        "input={}",
        "partial",
        "watch",
        "x=%00",
    ),
)
_TOKEN_QUERIES = (
    "token=<valid>",
    "access_token=<valid>",
    "authorization=Bearer%20<valid>",
    "timeout=5s&token=<valid>",
)
_WRONG = (
    *(
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer <retired>",
        "Bearer <oldest>",
        "Bearer <truncated>",
    ),
    "Bearer <beheaded>",
    *(
        "Bearer <extended>",
        "Bearer <doubled>",
        "Bearer <swapped>",
        "Bearer <digest>",
        "Bearer <spaced>",
    ),
    "Bearer <hard>",
    *("Bearer <encoded>", "Bearer <valid>,Bearer <valid>", "Bearer <valid> x", 'Bearer "<valid>"'),
    "Bearer token=<valid>",
    *(
        "Basic <basic>",
        "Basic <valid>",
        "Token <valid>",
        "<valid>",
        "Bearer<valid>",
        "Digest <valid>",
        "Bearer null",
    ),
    *(
        "Negotiate <basic>",
        "Bearer <basic>",
        "x Bearer <valid>",
        "Bearer: <valid>",
        "Bearer *",
        "Bearer .*",
    ),
    "Bearer true",
)
ODD = ("bearer <valid>", "BEARER <valid>", "Bearer  <valid>", "Bearer\t<valid>")
TRICKS = (
    *(
        ("X-HTTP-Method-Override", "GET"),
        ("X-HTTP-Method-Override", "POST"),
        ("X-Method-Override", "POST"),
    ),
    *(
        ("X-Original-URL", "/health"),
        ("X-Rewrite-URL", "/health"),
        ("X-Forwarded-Prefix", "/health"),
    ),
    ("Forwarded", "for=127.0.0.1"),
    *(
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-IP", "127.0.0.1"),
        ("X-Forwarded-Host", "localhost"),
    ),
    ("Host", "localhost"),
    *(
        ("Proxy-Authorization", "Bearer <valid>"),
        ("X-Authorization", "Bearer <valid>"),
        ("Cookie", "token=<valid>"),
    ),
    *(("X-Auth-Token", "<valid>"), ("X-Forwarded-Authorization", "Bearer <valid>")),
    ("Authorization ", "Bearer <valid>"),
    *(
        ("Authorization_", "Bearer <valid>"),
        ("Connection", "Authorization"),
        ("Connection", "Upgrade, HTTP2-Settings"),
    ),
    *(
        ("Upgrade", "h2c"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("Expect", "x"),
        ("TE", "trailers"),
    ),
    *(
        ("Transfer-Encoding", "chunked"),
        ("Transfer-Encoding", "identity"),
        ("Content-Encoding", "gzip"),
    ),
    *(
        ("Content-Type", "application/json"),
        ("Content-Type", "application/yaml"),
        ("Content-Type", "text/plain"),
    ),
    *(
        ("Accept-Encoding", "gzip"),
        ("Accept", "*/*"),
        ("If-None-Match", "*"),
        ("Range", "bytes=0-1"),
    ),
    ("Origin", "null"),
    *(("X-User", "admin"), ("X-Remote-User", "system:admin"), ("Impersonate-User", "admin")),
    ("X-Opa-Identity", "<valid>"),
)
BODIES = (
    *("", "{}", "null", "[]", "{", _REVIEW, '{"input": {}}', '{"query": "data.secret"}'),
    '{"query": "data.secret = x", "input": 1}',
    *("package fuzz\n\nx := 1\n", "package system.authz\n\nallow := true\n"),
    '[{"op": "replace", "path": "/secret", "value": 1}]',
    *('{"unknowns": ["input"], "query": "input.x == 1"}', "\xff\xfe", "input: {}", "a" * 5_000),
)
_LISTED = (
    ("POST", "/"),
    ("POST", "/?timeout=5s"),
    ("POST", "/?timeout=30s"),
    ("GET", "/health"),
    ("GET", "/health/ready"),
)
READS = {
    *(
        ("GET", path)
        for path in ("/v1/policies", "/v1/data", "/v1/data/secret", "/v1/data/kubernetes?pretty")
    ),
    *(
        ("GET", path)
        for path in ("/v1/config", "/v1/nothing", "/v1/policies/fuzz", "/v1/query?q=data.secret")
    ),
    *(
        ("GET", path)
        for path in (
            "/metrics",
            "/health",
            "/health?bundles",
            "/health/ready",
            "/health/ready?x=1",
            "/",
        )
    ),
}
"""The requests that a valid token may make, so that OPA must answer them. A 404 is an answer, too.
"""
_OTHERS = (
    *(
        ("GET", "/v1/status", ""),
        ("GET", "/debug/pprof/", ""),
        ("GET", "/health/live", ""),
        ("GET", "/no/such", ""),
    ),
    *(
        ("PUT", "/v1/data/fuzz", "{}"),
        ("PATCH", "/v1/data/fuzz", '[{"op": "add", "path": "/x", "value": 1}]'),
    ),
    *(("DELETE", "/v1/data/fuzz", ""), ("PUT", "/v1/policies/fuzz", "package fuzzing\n\nx := 1\n")),
    *(("DELETE", "/v1/policies/fuzz", ""), ("POST", "/v1/data/system/main", "{}")),
    ("POST", "/v0/data/system/main", "{}"),
    *(
        ("POST", "/v1/query", '{"query": "data.secret = x"}'),
        ("POST", "/v1/compile", '{"query": "input.x == 1"}'),
    ),
    *(("POST", "/?pretty=true", _REVIEW), ("POST", "/", _REVIEW), ("HEAD", "/v1/data", "")),
    ("OPTIONS", "/v1/data", ""),
)


def plain() -> Iterator[Request]:
    """Every path with every method without a token, the most sensitive paths with every invalid
    token, and one with every other header.
    """
    for path in _PATHS:
        for method in METHODS:
            yield Request(method, path)
    for method, path in (
        ("GET", "/v1/data"),
        ("GET", "/v1/policies"),
        ("PUT", "/v1/policies/fuzz"),
        ("GET", "/metrics"),
    ):
        for value in _WRONG:
            yield Request(method, path, (("Authorization", value),))
    for header in TRICKS:
        yield Request("GET", "/v1/policies", (header,))


@st.composite
def requests(draw: DrawFn, queries: bool = True) -> Request:
    """A random request. With a valid token, in any form, it changes only `fuzz`."""
    protocol = draw(st.sampled_from(("1.1", "2", "1.1", "2", "1.0")))
    headers = draw(st.lists(st.sampled_from(TRICKS), max_size=3))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        method, target, body = draw(
            st.sampled_from([*((m, t, "") for m, t in sorted(READS)), *_OTHERS])
        )
        value = draw(st.sampled_from(("Bearer <valid>",) * 3 + ODD))
        others = draw(st.lists(st.sampled_from(_WRONG), max_size=2))
        tricks = [pair for pair in headers if pair[0] in HARMLESS]
        return Request(
            method,
            target,
            (("Authorization", value), *(("Authorization", o) for o in others), *tricks),
            body,
            protocol,
        )
    if kind == 1:
        method, target = draw(st.sampled_from(_LISTED))
    else:
        method = draw(st.sampled_from(METHODS))
        target = respelt(draw, draw(st.sampled_from(_PATHS) | _TEXT))
        strategy = st.sampled_from(QUERIES + (_TOKEN_QUERIES if queries else ())) | _TEXT
        if query := draw(st.just("") | strategy):
            target += "?" + query
    values: list[str] = draw(st.lists(st.sampled_from(_WRONG), max_size=2))
    late = draw(st.booleans())
    if values and late:
        values.append("Bearer <valid>")
    name = draw(st.sampled_from(("Authorization", "authorization", "AUTHORIZATION")))
    headers += [(name, value) for value in values]
    body = draw(st.sampled_from(BODIES))
    return Request(method, target, tuple(headers), body, protocol)


HARMLESS = {
    "X-HTTP-Method-Override",
    "X-Original-URL",
    "X-Forwarded-For",
    "Accept-Encoding",
    "Cookie",
    "X-User",
    "Origin",
}
# All of Latin-1, except the characters that HTTP libraries take for the end of a line.
_TEXT = st.text(st.characters(max_codepoint=0xFF, exclude_characters="\r\n"), max_size=12).map(
    lambda text: "/" + text
)


def respelt(draw: DrawFn, path: str) -> str:
    """The path with up to three changes, some of which leave its meaning."""
    for _ in range(draw(st.integers(0, 3))):
        change = draw(st.sampled_from(_CHANGES))
        path = change(path, draw(st.integers(0, max(0, len(path) - 1))))
    # The upper case of some letters is not in Latin-1.
    return path.encode("latin-1", "replace").decode("latin-1")


def _at_slash(path: str, at: int, instead: str) -> str:
    """The path with the slash at or before `at` replaced."""
    at = path.rfind("/", 0, at + 1)
    return path if at < 0 else path[:at] + instead + path[at + 1 :]


_CHANGES: tuple[Callable[[str, int], str], ...] = (
    lambda path, at: (
        path[:at] + "".join(f"%{ord(c):02x}" for c in path[at : at + 1]) + path[at + 1 :]
    ),
    lambda path, at: (
        path[:at] + "".join(f"%{ord(c):02X}" for c in path[at : at + 1]) + path[at + 1 :]
    ),
    lambda path, at: (
        path[:at] + "".join(f"%25{ord(c):02x}" for c in path[at : at + 1]) + path[at + 1 :]
    ),
    lambda path, at: path[:at] + path[at : at + 1].swapcase() + path[at + 1 :],
    lambda path, at: path[:at] + path[at + 1 :],
    lambda path, at: _at_slash(path, at, "//"),
    lambda path, at: _at_slash(path, at, "/./"),
    lambda path, at: _at_slash(path, at, "/x/../"),
    lambda path, at: _at_slash(path, at, "/%2e%2e/"),
    lambda path, at: _at_slash(path, at, "%2F"),
    lambda path, at: _at_slash(path, at, "\\"),
    lambda path, at: _at_slash(path, at, "%c0%af"),
    lambda path, at: _at_slash(path, at, "/;x/"),
    lambda path, _: "/health/.." + path,
    lambda path, _: "/health/%2e%2e" + path,
    lambda path, _: "/health/ready/../.." + path,
    lambda path, _: "/health" + path,
    lambda path, _: "https://localhost" + path,
    lambda path, _: "http://user:word@example.com" + path,
    lambda path, _: "//localhost" + path,
    lambda path, _: path + "/",
    lambda path, _: path + "/.",
    lambda path, _: path + "/..",
    lambda path, _: path + ".",
    lambda path, _: path + ";x",
    lambda path, _: path + "%00",
    lambda path, _: path + "%20",
    lambda path, _: path + "%3f",
    lambda path, _: path + "#x",
    lambda path, _: path + ".json",
    lambda path, _: path.upper(),
)
