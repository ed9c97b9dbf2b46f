"""Requests with the tokens of scopes (fairlead.settings.services), and which of them OPA has to
answer.

`<NAME>` stands for the token of the scope NAME, `<NAMEbefore>` for the one before, which is valid
as well, and `<NAMEretired>` for one that no longer is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fairlead.settings.services import SCOPES
from lab.fuzz.guard_requests import (
    BODIES,
    HARMLESS,
    METHODS,
    QUERIES,
    TRICKS,
    Request,
    respelt,
)
from lab.fuzz.spellings import plain_spelling

_REQUESTS = [(name, *request) for name, scope in SCOPES.items() for request in scope.requests]
_FORMS = ("Bearer <{}>", "Bearer <{}before>")
_OTHER_FORMS = ("Bearer <{}retired>", "bearer <{}>", "Bearer  <{}>", "Basic <{}>", "<{}>")
_NEAR = (
    *("/v1/data", "/v1/data/", "/v1/data/secret", "/v1/policies", "/v1/policies/fuzz"),
    *("/v1/query", "/v1/compile", "/v1/config", "/metrics", "/", "/health"),
    *("{}/", "{}/x", "{}/..", "{}/../..", "{}?pretty", "{}?input={{}}", "{}%2f", "/{}", "{}%00"),
    *("/v1/compile{}", "/v1/batch{}", "/health{}", "{}{}"),
)


def spellings(
    valid: Mapping[str, Sequence[str]], retired: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """The tokens by what stands for them in requests, without the brackets."""
    named: dict[str, str] = {}
    for name, (newest, before) in valid.items():
        named |= {name: newest, f"{name}before": before, f"{name}retired": retired[name][-1]}
    return named


def opened(request: Request) -> bool | None:
    """Whether the request has the token of a scope that opens it. None if the contract does not say
    how a server takes it: another spelling, another form of the header, or headers that change how
    a body is read.
    """
    presented = next(
        (value for name, value in request.headers if name.lower() == "authorization"), ""
    )
    token = re.fullmatch(r"bearer\s+<([a-z]+?)(?:before)?>\s*", presented, re.IGNORECASE)
    scope = SCOPES.get(token[1]) if token else None
    if scope is None:
        return False
    if (request.method, request.target) in scope.requests:
        plain = all(name == "Authorization" or name in HARMLESS for name, _ in request.headers)
        return True if plain and presented.startswith("Bearer <") else None
    return None if (request.method, plain_spelling(request.target)) in scope.requests else False


def plain() -> Iterator[Request]:
    """For each scope its requests with each form of its token and of the others', other methods of
    its paths, and other paths.
    """
    for name, method, path in _REQUESTS:
        for other in SCOPES:
            for form in (*_FORMS, *_OTHER_FORMS):
                yield _with(form.format(other), method, path)
        for other_method in METHODS:
            yield _with(f"Bearer <{name}>", other_method, path)
        for near in _NEAR:
            yield _with(f"Bearer <{name}>", method, near.format(path, path))


@st.composite
def requests(draw: DrawFn) -> Request:
    """A random request with the token of a scope."""
    name, method, path = draw(st.sampled_from(_REQUESTS))
    value = draw(st.sampled_from((*_FORMS, *_FORMS, *_OTHER_FORMS))).format(name)
    target = draw(st.sampled_from((path, path, *(near.format(path, path) for near in _NEAR))))
    if draw(st.booleans()):
        target = respelt(draw, target)
    if draw(st.booleans()) and (query := draw(st.sampled_from(QUERIES))):
        target += "?" + query
    tricks = draw(st.lists(st.sampled_from(TRICKS), max_size=2))
    return Request(
        draw(st.sampled_from((method,) * 2 * len(METHODS) + METHODS)),
        target,
        (("Authorization", value), *tricks),
        draw(st.sampled_from(BODIES)),
        draw(st.sampled_from(("1.1", "2", "1.0"))),
    )


def _with(authorization: str, method: str, target: str) -> Request:
    body = '{"input": {}}' if method == "POST" else ""
    return Request(method, target, (("Authorization", authorization),), body)
