"""A client of OPA's REST API, as far as Fairlead uses it. Errors quote OPA's message and its
location.

Source: Open Policy Agent documentation, "REST API Reference".
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from opa_client.opa import OpaClient
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.json_numbers import number

_COMPILE = 60.0  # seconds: to load 1 MB of Rego took 6 to 23 on a busy machine, to list it 6
_JSON = {"Content-Type": "application/json"}
_JSON_PATCH = {"Content-Type": "application/json-patch+json"}
# What a module defines, without loading it: each rule's path below `data`.
_RULES = (
    'paths := [path | module := rego.parse_module("", input); base := [t.value | t := '
    'module["package"].path[_]]; '
    "rule := module.rules[_]; path := array.concat(base, [t.value | t := rule.head.ref[_]])]"
)


class OpaUnavailable(FairleadError):
    """OPA gives no usable answer: refused connection, time-out, untrusted certificate, 5xx, or
    garbage.
    """


class OpaRefused(FairleadError):
    """OPA does not accept the token (401, 403)."""


class Rejected(FairleadError):
    """OPA understood and declined; what it had stays in force.

    `error` is OPA's own object, {"code", "message", "errors": [{"code", "message", "location":
    {"file", "row", "col"}}]}; "errors" may be missing.
    """

    def __init__(self, what: str, error: dict[str, Any]) -> None:
        super().__init__(f"{what}: {describe(error)}")
        self.error = error


class PolicyRejected(Rejected):
    """OPA does not accept a policy, or the removal of one that others need."""


class DocumentRejected(Rejected):
    """OPA does not accept a document, for instance because a policy defines the same path."""


class OpaApi(OpaClient):  # type: ignore[misc]  # opa_client has no types
    """A client of one OPA, for one thread at a time; it never retries.

    OpaClient brings the session. Its own methods fall short of what Fairlead needs: they cannot
    verify a server by a CA file, they let REQUESTS_CA_BUNDLE and proxies of the environment
    override what they were given, documents must be objects, rejected policies are rewritten as
    Rego v0 and sent again (`rego_compat`), and errors lose the file and the line, and do not tell a
    wrong token from a wrong policy.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None = None,
        authorities: bytes | None = None,
        token: str | None = None,
        timeout: float = 5.0,
        asking: Callable[[], None] | None = None,
    ) -> None:
        """Connect to nothing yet.

        `url` is like https://127.0.0.1:8443 (a trailing /v1 is accepted). Instead of the system's
        authorities `ca` names a PEM file, which is read at every new connection, or `authorities`
        is such a file's content, whatever becomes of the file. `timeout` is in seconds, for
        connecting and for each read. `asking` is called before each request. Raises UsageError.
        """
        scheme, host, port = _address(url)
        if token is not None and not (
            token.isascii() and token.isprintable() and token and " " not in token
        ):
            raise UsageError("the OPA token holds characters that no HTTP header can carry")
        super().__init__(
            host=host, port=port, ssl=scheme == "https", token=token, retries=0, timeout=timeout
        )
        self.url = f"{scheme}://{host}:{port}"
        self._session.trust_env = False
        self._asking = asking
        if scheme == "https":
            self._session.verify = str(ca) if ca else True
            if authorities is not None:
                self._session.mount("https://", _TrustOnly(authorities))

    def policies(self) -> dict[str, str]:
        """Every policy that OPA serves: id -> Rego text, as it was put or read from a file."""
        answer = self._send("GET", "/v1/policies", patience=_COMPILE)
        listed = self._json(answer, object_hook=_without_syntax_tree)
        try:
            return {policy["id"]: policy["raw"] for policy in listed["result"]}
        except (KeyError, TypeError) as error:
            raise OpaUnavailable(
                f"{self.url} answers /v1/policies with something else than policies"
            ) from error

    def policy(self, id_: str) -> str | None:
        """The Rego text of the policy `id_` as OPA serves it, None where there is none; far less
        to print than all.
        """
        answer = self._send("GET", f"/v1/policies/{quote(id_)}", patience=_COMPILE)
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
        """Load the policy `id_`, at once for all who ask. Raises PolicyRejected, and what `id_`
        was stays in force.
        """
        path = f"/v1/policies/{quote(id_)}"
        answer = self._send(
            "PUT", path, text.encode(), {"Content-Type": "text/plain"}, patience=_COMPILE
        )
        if answer.status_code != requests.codes.ok:
            raise PolicyRejected(id_, self._json(answer))

    def remove_policy(self, id_: str) -> None:
        """Unload the policy `id_`; that it is not there is fine. Raises PolicyRejected where
        others need it.
        """
        answer = self._send("DELETE", f"/v1/policies/{quote(id_)}")
        if answer.status_code not in (requests.codes.ok, requests.codes.not_found):
            raise PolicyRejected(id_, self._json(answer))

    def rules(self, text: str) -> list[list[Any]] | None:
        """The path of each rule that the policy `text` would define, from "data" on; None where
        it cannot be parsed.
        """
        paths = self._query(_RULES, "paths", text)
        return paths if isinstance(paths, list) and paths else None

    def keys(self, path: Sequence[str]) -> list[str]:
        """The keys of the object at `path`, without its values; empty where there is none."""
        keys = self._query(
            f"keys := object.keys(data{''.join(f'[{json.dumps(part)}]' for part in path)})", "keys"
        )
        return [str(key) for key in keys] if isinstance(keys, list) else []

    def versions(self, path: Sequence[str]) -> dict[str, str]:
        """The resourceVersion of each object below `path`, by its key: less to print than the
        objects.
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
        """As put_document, of JSON text, whose numbers OPA keeps digit by digit."""
        answer = self._send("PUT", _data(path), text.encode(), _JSON)
        if answer.status_code != requests.codes.no_content:
            raise DocumentRejected("/".join(path), self._json(answer))

    def patch_json(self, path: Sequence[str], text: str) -> None:
        """Apply a JSON Patch (RFC 6902; OPA knows add, remove and replace) below `path`, all of it
        or nothing.

        Raises DocumentRejected, also where there is nothing at `path`.
        """
        answer = self._send("PATCH", _data(path), text.encode(), _JSON_PATCH, patience=_COMPILE)
        if answer.status_code != requests.codes.no_content:
            raise DocumentRejected("/".join(path), self._json(answer))

    def document(self, path: Sequence[str]) -> Any | None:
        """The document at `path`, rules included; None where it is undefined (or null). 1.0
        comes as 1.
        """
        answer = self._send("GET", _data(path))
        if answer.status_code != requests.codes.ok:
            raise DocumentRejected("/".join(path), self._json(answer))
        return self._json(answer, parse_float=number).get("result")

    def remove_document(self, path: Sequence[str]) -> None:
        """Remove the document at `path`; that there is none is fine."""
        answer = self._send("DELETE", _data(path))
        if answer.status_code not in (requests.codes.no_content, requests.codes.not_found):
            raise DocumentRejected("/".join(path), self._json(answer))

    def ready(self) -> bool:
        """Whether OPA says that it may be asked (`data.system.health.ready`); False also where
        it cannot be reached.
        """
        try:
            return bool(self._exchange("GET", "/health/ready").status_code == requests.codes.ok)
        except OpaUnavailable:
            return False

    def decide(self, review: Any) -> Any:
        """The decision for an AdmissionReview, asked as the API server asks.

        Raises OpaUnavailable where no policy gives one, Rejected where OPA cannot read the review.
        """
        answer = self._send("POST", "/", json.dumps(review).encode(), _JSON)
        if answer.status_code == requests.codes.not_found:
            raise OpaUnavailable(
                f"{self.url} has no policy that decides: {describe(self._json(answer))}"
            )
        if answer.status_code != requests.codes.ok:
            raise Rejected("the review", self._json(answer))
        return self._json(answer, object_=False)

    def _query(self, query: str, name: str, input_: Any = None) -> Any:
        """What the variable `name` of an ad-hoc query is bound to; None where the query has no
        answer.
        """
        body = json.dumps({"query": query, "input": input_}, ensure_ascii=False).encode()
        answer = self._send("POST", "/v1/query", body, _JSON, patience=_COMPILE)
        if answer.status_code != requests.codes.ok:
            return None
        match self._json(answer).get("result"):
            case [{**bindings}, *_]:
                return bindings.get(name)
            case None | []:
                return None
        raise OpaUnavailable(f"{self.url} answers /v1/query with something else than bindings")

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        patience: float = 0.0,
    ) -> requests.Response:
        """One request. Raises OpaUnavailable and OpaRefused; a 4xx beside that is the caller's
        to judge.
        """
        answer = self._exchange(method, path, body, headers, patience=patience)
        if answer.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise OpaRefused(
                f"{self.url} refuses {method} {path} ({answer.status_code}): the token is not the "
                "one it knows"
            )
        if answer.status_code >= requests.codes.internal_server_error or answer.is_redirect:
            raise OpaUnavailable(
                f"{self.url} answers {method} {path} with {answer.status_code}: {answer.text[:500]}"
            )
        return answer

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        patience: float = 0.0,
    ) -> requests.Response:
        if self._asking:
            self._asking()
        try:
            answer: requests.Response = self._session.request(
                method,
                self.url + path,
                data=body,
                headers=headers,
                timeout=(self.timeout, max(self.timeout, patience)),
                allow_redirects=False,
            )
            return answer
        except (
            OSError,
            ValueError,
        ) as error:  # requests' errors are OSErrors, those of a CA file are bare ones
            raise OpaUnavailable(
                f"OPA at {self.url} cannot be reached: {_reason(error)}"
            ) from error

    def _json(self, answer: requests.Response, *, object_: bool = True, **options: Any) -> Any:
        try:
            value = json.loads(answer.content, **options)
        except (ValueError, RecursionError) as error:
            raise OpaUnavailable(
                f"{self.url} answers with something that is no JSON: {answer.text[:200]!r}"
            ) from error
        if object_ and not isinstance(value, dict):
            raise OpaUnavailable(
                f"{self.url} answers with something else than an object: {answer.text[:200]!r}"
            )
        return value


class _TrustOnly(HTTPAdapter):
    """Verifies servers by the given authorities (PEM) alone; Session.verify knows files only."""

    def __init__(self, authorities: bytes) -> None:
        self._context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
        self._context.check_hostname = True
        try:
            self._context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UsageError(
                "the authority that OPA is verified by is no certificate in PEM form"
            ) from error
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self._context, **options)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """The context does; requests would add the system's authorities."""


def lets_in(api: OpaApi) -> bool:
    """Whether OPA lets this caller in; closes its connection. Raises OpaUnavailable where it
    cannot be asked.
    """
    try:
        api.document(["system", "authz", "allow"])
    except OpaRefused:
        return False
    finally:
        api.close_connection()
    return True


def describe(error: dict[str, Any]) -> str:
    """OPA's error object in one line for each thing wrong: the line, the message and its code."""
    lines = []
    details = error.get("errors")
    for part in details if isinstance(details, list) else ():
        if not isinstance(part, dict):
            continue
        location = part.get("location")
        where = (
            f"{location.get('file')}:{location['row']}: "
            if isinstance(location, dict) and location.get("row")
            else ""
        )
        lines.append(f"{where}{part.get('message', '')} ({part.get('code', 'unknown')})")
    return (
        "\n".join(lines)
        or f"{error.get('message', 'no reason given')} ({error.get('code', 'unknown')})"
    )


def _address(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not the address of an OPA: {error}") from error
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path.rstrip("/") not in ("", "/v1")
    ):
        raise UsageError(
            f"{url!r} is not the address of an OPA: give it like https://127.0.0.1:8443"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def _data(path: Sequence[str]) -> str:
    return "/v1/data" + "".join("/" + quote(segment, safe="") for segment in path)


def _without_syntax_tree(node: dict[str, Any]) -> dict[str, Any] | None:
    """Keeps of a list of policies what is asked for: OPA adds each one's syntax tree, about 30
    times its text.
    """
    return node if "raw" in node or "result" in node else None


def _reason(error: BaseException) -> str:
    """The innermost cause of a failed request, which is what a person can act on."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__
