"""Puts bundles into OCI registries, in the form in which OPA reads them from there.

The package oras is not used: it tries a registry that refuses connections for two minutes, and it
takes either tokens or passwords, but does not find out which of them a registry wants.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from fairlead.common import files
from fairlead.common.errors import UsageError
from fairlead.distribution.archives import Archive

_URL = re.compile(
    r"oci://(?P<host>[A-Za-z0-9.-]+(:[0-9]{1,5})?)/"
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(:(?P<tag>\w[\w.-]{0,127}))?/?"
)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_LATEST = "latest"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIGURATION = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
"""OPA takes the first layer of this type for the bundle."""
_TIMEOUT = (5.0, 60.0)  # seconds, to connect and for each read


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
    user = _credentials(token) if token else None
    base = f"{repository.url(plain=plain)}/v2/{repository.path}/{archive.name}/"
    registry = _Registry(base, str(ca) if ca else True, user)
    configuration = b"{}"
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": registry.upload(configuration, _CONFIGURATION),
        "layers": [registry.upload(packed, _LAYER)],
    }
    for tag in (archive.revision, repository.tag):
        registry.send(
            "PUT",
            f"manifests/{tag}",
            data=json.dumps(manifest).encode(),
            headers={"Content-Type": _MANIFEST},
        )
    return repository.image(archive.name)


@dataclass
class _Registry:
    """A repository by the API of OCI registries. Source: OCI Distribution Specification 1.1,
    "Push"; of tokens, the documentation of Docker's registry, "Token Authentication Specification".
    """

    base: str
    verify: str | bool
    user: tuple[str, str] | None
    _authorization: dict[str, str] = field(default_factory=dict)

    def upload(self, content: bytes, kind: str) -> dict[str, Any]:
        """Upload a blob, and return its descriptor. Raises UsageError."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        started = self.send("POST", "blobs/uploads/")
        place = urljoin(self.base, started.headers.get("Location", ""))
        place += f"{'&' if urlsplit(place).query else '?'}digest={digest}"
        self.send("PUT", place, data=content, headers={"Content-Type": "application/octet-stream"})
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def send(self, method: str, path: str, **options: Any) -> requests.Response:
        """The answer to a request that succeeds. Raises UsageError."""
        answer = self._sent(method, path, **options)
        if answer.status_code == requests.codes.unauthorized and not self._authorization:
            self._authorize(answer.headers.get("WWW-Authenticate", ""))
            answer = self._sent(method, path, **options)
        if not answer.ok:
            raise UsageError(f"{answer.url}: the registry answers {_reason(answer)}")
        return answer

    def _sent(
        self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any
    ) -> requests.Response:
        url = urljoin(self.base, path)
        # Not for another host: a registry may have blobs uploaded elsewhere.
        own = self._authorization if urlsplit(url).netloc == urlsplit(self.base).netloc else {}
        try:
            return requests.request(
                method,
                url,
                headers={**(headers or {}), **own},
                verify=self.verify,
                timeout=_TIMEOUT,
                allow_redirects=False,
                **options,
            )
        except requests.RequestException as error:
            raise UsageError(f"{url}: the registry does not answer: {error}") from error

    def _authorize(self, challenge: str) -> None:
        """Get what the registry asks for: the password itself, or a token for it."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            if self.user:
                prepared = requests.Request("GET", self.base, auth=self.user).prepare()
                self._authorization = {"Authorization": prepared.headers["Authorization"]}
            return
        parameters = dict(_PARAMETER.findall(rest))
        realm = parameters.pop("realm", "")
        if scheme.lower() != "bearer" or not realm:
            return
        try:
            answer = requests.get(
                realm, params=parameters, auth=self.user, verify=self.verify, timeout=_TIMEOUT
            )
            answer.raise_for_status()
            body = answer.json()
            token = body.get("token") or body["access_token"]
        except (requests.RequestException, ValueError, KeyError, AttributeError) as error:
            raise UsageError(f"{realm}: gives no token for the registry: {error}") from error
        self._authorization = {"Authorization": f"Bearer {token}"}


def _reason(answer: requests.Response) -> str:
    """Why the registry refuses a request."""
    try:
        messages = [each["message"] for each in answer.json()["errors"]]
    except (ValueError, KeyError, TypeError):
        messages = [answer.reason]
    return f"{answer.status_code}: {'; '.join(map(str, messages))}"


def _credentials(token: Path) -> tuple[str, str]:
    """The user and the password in the file. Raises UsageError, InputError."""
    user, colon, password = files.read_text(token).strip().partition(":")
    if not (user and colon and password):
        raise UsageError(f"{token}: holds no USER:PASSWORD, which a registry needs")
    return user, password
