"""Plain requests to an API server, with the details that typed clients hide: warnings,
impersonation, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes import client

from fairlead.kube import admission_reviews, transport
from fairlead.kube.errors import Unreachable

_TIMEOUT = urllib3.Timeout(total=60)
"""Seconds for one request; a webhook gets 30 at most."""

# RFC 7234, section 5.5; the API server uses the code 299 and escapes quotes.
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
DENIAL = re.compile(
    r"^admission webhook .*?denied the request: "
    r"|^.*?ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: ",
    re.DOTALL,
)
"""What an API server writes before the words of a webhook or of a ValidatingAdmissionPolicy."""


@dataclass(frozen=True)
class Response:
    """An API server's answer: its status code, its JSON body (empty if it has none), and its
    warnings.
    """

    status: int
    body: dict[str, Any]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 400

    @property
    def message(self) -> str:
        """Why the request failed, empty if it did not. For a denial of a webhook or an admission
        policy, only what that said.
        """
        if self.ok:
            return ""
        message = str(self.body.get("message") or f"the API server answers {self.status}")
        return DENIAL.split(message, maxsplit=1)[1] if self.denied else message

    @property
    def denied(self) -> bool:
        """Whether an admission webhook, the failure policy of one, or an admission policy refused
        the request.
        """
        return not self.ok and DENIAL.search(str(self.body.get("message"))) is not None


class Rest:
    """Requests to one API server."""

    def __init__(self, api: client.ApiClient, *, timeout: urllib3.Timeout = _TIMEOUT) -> None:
        self._api = api
        self._timeout = timeout

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        user: Mapping[str, Any] | None = None,
    ) -> Response:
        """One request, as the client's own user, or as `user` ({username, groups}) with the rights
        of an administrator.

        Raises Unreachable.
        """
        headers = urllib3.HTTPHeaderDict(
            {"Content-Type": "application/json", "Accept": "application/json"}
        )
        if user is not None:
            headers["Impersonate-User"] = user["username"]
            for group in (*user.get("groups", ()), "system:masters"):
                headers.add("Impersonate-Group", group)
        answer = transport.send(
            self._api,
            method,
            path,
            query=query,
            headers=headers,
            body=None if body is None else json.dumps(body).encode(),
            timeout=self._timeout,
        )
        try:
            data = answer.data
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{method} {path}", error) from error
        try:
            parsed = json.loads(data)
        except ValueError:
            parsed = {"message": data.decode(errors="replace")}
        warnings = _WARNING.findall(", ".join(answer.headers.getlist("Warning")))
        unescaped = tuple(re.sub(r"\\(.)", r"\1", warning) for warning in warnings)
        return Response(answer.status, parsed if isinstance(parsed, dict) else {}, unescaped)

    def serves(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the API server has the manifest's kind. Raises Unreachable."""
        answer = self.call("GET", _group_path(*admission_reviews.group_version(manifest)))
        return any(
            resource["kind"] == manifest["kind"] for resource in answer.body.get("resources", ())
        )


def path_of(manifest: Mapping[str, Any], namespace: str | None, *parts: str) -> str:
    """The path of the collection that `manifest` belongs to, in `namespace`, followed by `parts`
    (name, subresource).
    """
    group, version = admission_reviews.group_version(manifest)
    resource = admission_reviews.plural(manifest["kind"])
    # These kinds exist only as requests to a pod's subresources.
    if resource == "pods" and manifest["kind"] != "Pod":
        group, version = "", "v1"
    base = _group_path(group, version)
    if manifest["kind"] not in admission_reviews.CLUSTER_SCOPED:
        base += f"/namespaces/{quote(namespace or 'default', safe='')}"
    return "/".join((base, resource, *(quote(part, safe="") for part in parts)))


def _group_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"
