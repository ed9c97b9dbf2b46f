"""OPA's REST API, as far as Fairlead uses it: policies, documents, queries and decisions.

Source: Open Policy Agent documentation, "REST API Reference".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote

import requests

from fairlead.common.json_numbers import number
from fairlead.opa.connections import Connection
from fairlead.opa.errors import (
    DocumentRejected,
    OpaRefused,
    OpaUnavailable,
    PolicyRejected,
    Rejected,
    describe,
)

_COMPILE = 60.0  # seconds: 1 MB of Rego took 6 to 23 to load on a busy machine, and 6 to list
_JSON = {"Content-Type": "application/json"}
_JSON_PATCH = {"Content-Type": "application/json-patch+json"}
RULES_QUERY = (
    'paths := [path | module := rego.parse_module("", input); base := [t.value | t := '
    'module["package"].path[_]]; '
    "rule := module.rules[_]; path := array.concat(base, [t.value | t := rule.head.ref[_]])]"
)
"""The path of each rule that a module, the input, defines; nothing is loaded."""


class OpaApi(Connection):
    """A client of one OPA, for one thread at a time; it never retries. The first request opens the
    connection.
    """

    def policies(self) -> dict[str, str]:
        """Every policy that OPA serves, id -> Rego text, as it was put or read from a file."""
        answer = self.send("GET", "/v1/policies", patience=_COMPILE)
        document = self._json(answer, object_hook=_without_syntax_tree)
        try:
            return {policy["id"]: policy["raw"] for policy in document["result"]}
        except (KeyError, TypeError) as error:
            raise OpaUnavailable(
                f"{self.url} answers /v1/policies with something else than policies"
            ) from error

    def policy(self, id_: str) -> str | None:
        """The Rego text of the policy `id_`, None if there is none. It costs OPA far less than
        `policies`.
        """
        answer = self.send("GET", f"/v1/policies/{quote(id_)}", patience=_COMPILE)
        if answer.status_code == requests.codes.not_found:
            return None
        document = self._json(answer, object_hook=_without_syntax_tree)
        try:
            return str(document["result"]["raw"])
        except (KeyError, TypeError) as error:
            raise OpaUnavailable(
                f"{self.url} answers a policy's request with something else"
            ) from error

    def put_policy(self, id_: str, text: str) -> None:
        """Load the policy `id_`; it is in force at once. Raises PolicyRejected, and the previous
        text stays in force.
        """
        path = f"/v1/policies/{quote(id_)}"
        answer = self.send(
            "PUT", path, text.encode(), {"Content-Type": "text/plain"}, patience=_COMPILE
        )
        if answer.status_code != requests.codes.ok:
            raise PolicyRejected(id_, self._json(answer))

    def remove_policy(self, id_: str) -> None:
        """Unload the policy `id_`, if there is one. Raises PolicyRejected if other policies need
        it.
        """
        answer = self.send("DELETE", f"/v1/policies/{quote(id_)}")
        if answer.status_code not in (requests.codes.ok, requests.codes.not_found):
            raise PolicyRejected(id_, self._json(answer))

    def change_policies(self, put: Mapping[str, str], remove: Collection[str]) -> bool:
        """Load policies, id -> Rego, and unload others, all at once, which takes OPA hardly longer
        than one of them. Returns False, and nothing has changed, if OPA does not take them
        together, or is one without the plugin that can do this (tools/plugin/policies.go).
        """
        body = json.dumps({"put": dict(put), "remove": list(remove)}).encode()
        answer = self.send("POST", "/v1/fairlead/policies", body, _JSON, patience=_COMPILE)
        return bool(answer.status_code == requests.codes.ok)

    def rules(self, text: str) -> list[list[Any]] | None:
        """The path of each rule that the policy `text` would define, from "data" on; None if it
        cannot be parsed.
        """
        paths = self._query(RULES_QUERY, "paths", text)
        return paths if isinstance(paths, list) and paths else None

    def keys(self, path: Sequence[str]) -> list[str]:
        """The keys of the object at `path`, without its values; empty if there is none."""
        keys = self._query(
            f"keys := object.keys(data{''.join(f'[{json.dumps(part)}]' for part in path)})", "keys"
        )
        return [str(key) for key in keys] if isinstance(keys, list) else []

    def versions(self, path: Sequence[str]) -> dict[str, str]:
        """The resourceVersion of each object below `path`, by its key. It costs OPA far less than
        the objects.
        """
        objects = f"data{''.join(f'[{json.dumps(part)}]' for part in path)}"
        versions = self._query(
            f"versions := {{key: {objects}[key].metadata.resourceVersion | {objects}[key]}}",
            "versions",
        )
        return (
            {key: str(version) for key, version in versions.items()}
            if isinstance(versions, dict)
            else {}
        )

    def sync(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to the request of a sync hook (policies/access). Raises OpaUnavailable, also
        if there is no decision.
        """
        body = json.dumps(request).encode()
        answer = self.send("POST", "/v0/data/controller", body, _JSON)
        value = self._json(answer)
        if answer.status_code != requests.codes.ok:
            raise OpaUnavailable(f"{self.url} has no decision on access: {describe(value)}")
        return dict(value)

    def now(self) -> int:
        """OPA's clock, in nanoseconds since the epoch. Raises OpaUnavailable."""
        now = self._query("now := time.now_ns()", "now")
        if not isinstance(now, int):
            raise OpaUnavailable(f"{self.url} does not tell the time")
        return now

    def put_document(self, path: Sequence[str], value: Any) -> None:
        """Make the document at `path` the JSON value `value`. Raises DocumentRejected."""
        self.put_json(path, json.dumps(value, ensure_ascii=False))

    def put_json(self, path: Sequence[str], text: str) -> None:
        """As put_document, for JSON text, whose numbers OPA keeps digit by digit."""
        answer = self.send("PUT", _data(path), text.encode(), _JSON)
        if answer.status_code != requests.codes.no_content:
            raise DocumentRejected("/".join(path), self._json(answer))

    def patch_json(self, path: Sequence[str], text: str) -> None:
        """Apply a JSON Patch (RFC 6902; OPA knows add, remove and replace) below `path`: all of it
        or nothing.

        Raises DocumentRejected, also if there is nothing at `path`.
        """
        answer = self.send("PATCH", _data(path), text.encode(), _JSON_PATCH, patience=_COMPILE)
        if answer.status_code != requests.codes.no_content:
            raise DocumentRejected("/".join(path), self._json(answer))

    def document(self, path: Sequence[str]) -> Any | None:
        """The document at `path`, rules included; None if it is undefined or null. The number 1.0
        becomes 1.
        """
        answer = self.send("GET", _data(path))
        if answer.status_code != requests.codes.ok:
            raise DocumentRejected("/".join(path), self._json(answer))
        return self._json(answer, parse_float=number).get("result")

    def remove_document(self, path: Sequence[str]) -> None:
        """Remove the document at `path`, if there is one."""
        answer = self.send("DELETE", _data(path))
        if answer.status_code not in (requests.codes.no_content, requests.codes.not_found):
            raise DocumentRejected("/".join(path), self._json(answer))

    def ready(self) -> bool:
        """Whether OPA says that it is ready (`data.system.health.ready`); False if it cannot be
        reached.
        """
        try:
            return bool(self.exchange("GET", "/health/ready").status_code == requests.codes.ok)
        except OpaUnavailable:
            return False

    def decide(self, review: Any) -> Any:
        """The decision of all intents for an AdmissionReview, requested as an API server does.

        Raises OpaUnavailable if no policy decides, Rejected if OPA cannot read the review.
        """
        answer = self.send("POST", "/", json.dumps(review).encode(), _JSON)
        if answer.status_code == requests.codes.not_found:
            raise OpaUnavailable(
                f"{self.url} has no policy that decides: {describe(self._json(answer))}"
            )
        if answer.status_code != requests.codes.ok:
            raise Rejected("the review", self._json(answer))
        return self._json(answer, object_=False)

    def _query(self, query: str, name: str, input_: Any = None) -> Any:
        """The value of the variable `name` in the answer to an ad-hoc query; None if the query has
        no answer.
        """
        body = json.dumps({"query": query, "input": input_}, ensure_ascii=False).encode()
        answer = self.send("POST", "/v1/query", body, _JSON, patience=_COMPILE)
        if answer.status_code != requests.codes.ok:
            return None
        match self._json(answer).get("result"):
            case [{**bindings}, *_]:
                return bindings.get(name)
            case None | []:
                return None
        raise OpaUnavailable(f"{self.url} answers /v1/query with something else than bindings")

    def _json(self, answer: requests.Response, *, object_: bool = True, **options: Any) -> Any:
        try:
            value = json.loads(answer.content, **options)
        except (ValueError, RecursionError) as error:
            raise OpaUnavailable(
                f"{self.url} answers with something that is not JSON: {answer.text[:200]!r}"
            ) from error
        if object_ and not isinstance(value, dict):
            raise OpaUnavailable(
                f"{self.url} answers with something else than an object: {answer.text[:200]!r}"
            )
        return value


def lets_in(api: OpaApi) -> bool:
    """Whether OPA accepts this caller's token; closes the connection. Raises OpaUnavailable."""
    with closing(api):
        try:
            api.document(["system", "authz", "allow"])
        except OpaRefused:
            return False
    return True


def opens(api: OpaApi, pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether OPA lets this caller make all requests of these pairs (method, path), with an empty
    object as their body; closes the connection. Raises OpaUnavailable.
    """
    refused = (requests.codes.unauthorized, requests.codes.forbidden)
    with closing(api):
        for method, path in pairs:
            answer = api.exchange(method, path, b"{}", _JSON)
            if answer.status_code in refused:
                return False
            # 500: OPA let it in, and has no decision about an empty object
            if answer.status_code > requests.codes.internal_server_error:
                raise OpaUnavailable(f"{api.url} answers {method} {path} with {answer.status_code}")
    return True


def _data(path: Sequence[str]) -> str:
    return "/v1/data" + "".join("/" + quote(segment, safe="") for segment in path)


def _without_syntax_tree(node: dict[str, Any]) -> dict[str, Any] | None:
    """Drops the syntax tree that OPA adds to each policy, which is about 30 times as large as the
    text.
    """
    return node if "raw" in node or "result" in node else None
