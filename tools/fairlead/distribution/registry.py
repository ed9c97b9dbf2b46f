"""Puts bundles into OCI registries, in the form in which OPA reads them from there.

The package oras is not used: it tries a registry that refuses connections for two minutes, and it
takes either tokens or passwords, but does not find out which of them a registry wants.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from fairlead.common import cached_urls
from fairlead.common.errors import UsageError
from fairlead.distribution import exchanges
from fairlead.distribution.archives import Archive
from fairlead.distribution.exchanges import Answer, origin
from fairlead.distribution.registry_answers import quoted, reason, way_out
from fairlead.distribution.registry_logins import Login

_URL = re.compile(
    r"oci://(?P<host>[A-Za-z0-9.-]+(:[0-9]{1,5})?)/"
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(:(?P<tag>\w[\w.-]{0,127}))?/?"
)
_LATEST = "latest"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIGURATION = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
"""OPA takes the first layer of this type for the bundle."""


@dataclass(frozen=True)
class Repository:
    """The part of a registry below which each bundle has a repository of its own, and the tag that
    OPAs follow: `oci://registry.example.com/fleet:prod`.
    """

    host: str
    path: str
    tag: str

    @classmethod
    def parse(cls, url: str) -> Repository:
        """The repository that a URL names, by default with the tag `latest`. Raises UsageError."""
        match = _URL.fullmatch(url)
        if match is None:
            raise UsageError(
                f"{url!r} names no repository: write it like oci://registry.example.com/fleet or "
                "oci://registry.example.com/fleet:prod"
            )
        return cls(match["host"], match["path"], match["tag"] or _LATEST)

    def image(self, name: str) -> str:
        """The image of a bundle, by which OPA pulls it."""
        return f"{self.host}/{self.path}/{name}:{self.tag}"

    def url(self, *, plain: bool) -> str:
        """The address of the registry; `plain` is HTTP without TLS."""
        return f"{'http' if plain else 'https'}://{self.host}"


def is_registry(url: str) -> bool:
    """Whether the URL is one of a registry, and not of an HTTP server."""
    return url.startswith("oci://")


def push(
    url: str,
    archive: Archive,
    packed: bytes,
    *,
    token: Path | None = None,
    ca: Path | None = None,
    plain: bool = False,
) -> str:
    """Put a bundle into a registry, by the tag of the URL and by one with its revision, and return
    its image. `token` is a file with `USER:PASSWORD`; with `plain`, the registry speaks HTTP
    without TLS. Raises UsageError; the tag of the URL then names what it named before.
    """
    repository = Repository.parse(url)
    base = f"{repository.url(plain=plain)}/v2/{repository.path}/{archive.name}/"
    registry = _Registry(base, f"{repository.path}/{archive.name}", ca, token)
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": registry.upload(b"{}", _CONFIGURATION),
        "layers": [registry.upload(packed, _LAYER)],
    }
    for tag in (archive.revision, repository.tag):
        registry.put(f"manifests/{tag}", json.dumps(manifest).encode(), _MANIFEST)
    return repository.image(archive.name)


class _Registry:
    """A repository by the API of OCI registries. Source: OCI Distribution Specification 1.1,
    "Push".
    """

    def __init__(self, base: str, name: str, ca: Path | None, file: Path | None) -> None:
        """`base` is its URL, and `file` has the user and the password. Raises UsageError."""
        self._base, self._name, self._ca, self._file = base, name, ca, file
        self._login = Login(base, name, ca, file)

    def upload(self, content: bytes, kind: str) -> dict[str, Any]:
        """Upload a blob, and return its descriptor. Raises UsageError."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        place = self._place(self._send("POST", "blobs/uploads/", HTTPStatus.ACCEPTED))
        place += f"{'&' if urlsplit(place).query else '?'}digest={digest}"
        self.put(place, content, "application/octet-stream")
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def put(self, path: str, content: bytes, kind: str) -> None:
        """Store what is of this media type. Raises UsageError."""
        self._send("PUT", path, HTTPStatus.CREATED, content, {"Content-Type": kind})

    def _place(self, started: Answer) -> str:
        """Where the content of an upload goes, which may be another host. Raises UsageError."""
        try:
            place = urljoin(self._base, started.headers.get("Location", ""))
            scheme, host = urlsplit(place).scheme, origin(place)[1]
        except ValueError:
            place, scheme, host = self._base, "", ""
        if place == self._base or not host:
            raise UsageError(
                f"{self._base}: names no place for an upload, so it is no OCI registry: correct "
                "the URL"
            )
        if scheme != "https" and scheme != urlsplit(self._base).scheme:
            raise UsageError(
                f"{self._base}: names a place without TLS for the upload, "
                f"{quoted(cached_urls.shown(place))}: have the proxy before the registry send it "
                "the header X-Forwarded-Proto: https"
            )
        return place

    def _send(
        self,
        method: str,
        path: str,
        expected: HTTPStatus,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The answer, if it has the expected status. Raises UsageError."""
        url = urljoin(self._base, path)
        # Another host, such as one for blobs, gets no password and may ask for none.
        own = origin(url) == origin(self._base)
        answer = self._exchange(method, url, body, headers or {}, own=own)
        # Also where there is a token already: it may have expired.
        if answer.status == HTTPStatus.UNAUTHORIZED and own and self._login.renew(answer):
            answer = self._exchange(method, url, body, headers or {}, own=own)
        if answer.status != expected:
            raise UsageError(
                f"{cached_urls.shown(url)}: the registry answers {reason(answer)}: "
                f"{way_out(answer, self._name, self._file)}"
            )
        return answer

    def _exchange(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str], *, own: bool
    ) -> Answer:
        if own and self._login.authorization:
            headers = {**headers, "Authorization": self._login.authorization}
        return exchanges.exchange(method, url, headers=headers, body=body, ca=self._ca)
