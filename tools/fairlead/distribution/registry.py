"""Puts bundles into OCI registries, in the form in which OPA reads them from there.

The package oras is not used: it tries a registry that refuses connections for two minutes, and it
takes either tokens or passwords, but does not find out which of them a registry wants.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import parse_http_list

from fairlead.common import cached_urls, files, texts
from fairlead.common.errors import UsageError
from fairlead.distribution import exchanges
from fairlead.distribution.archives import Archive
from fairlead.distribution.exchanges import Answer

_URL = re.compile(
    r"oci://(?P<host>[A-Za-z0-9.-]+(:[0-9]{1,5})?)/"
    r"(?P<path>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(:(?P<tag>\w[\w.-]{0,127}))?/?"
)
_LATEST = "latest"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIGURATION = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
"""OPA takes the first layer of this type for the bundle."""
_TOKEN = re.compile(r"[!-~]+")
_LONGEST = 300  # characters of what a registry says


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
    if token:
        exchanges.require_private(base)
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
    "Push"; of tokens, the documentation of Docker's registry, "Token Authentication Specification".
    """

    def __init__(self, base: str, name: str, ca: Path | None, file: Path | None) -> None:
        """`base` is its URL, and `file` has the user and the password. Raises UsageError."""
        self._base, self._name, self._ca, self._file = base, name, ca, file
        self._user = _basic(file) if file else ""
        self._authorization = ""

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
            scheme, host = urlsplit(place).scheme, _origin(place)[1]
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
                f"{cached_urls.shown(place)}: have the proxy before the registry send it the "
                "header X-Forwarded-Proto: https"
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
        own = _origin(url) == _origin(self._base)
        answer = self._exchange(method, url, body, headers or {}, own=own)
        # Also where there is a token already: it may have expired.
        if answer.status == HTTPStatus.UNAUTHORIZED and own and self._authorize(answer):
            answer = self._exchange(method, url, body, headers or {}, own=own)
        if answer.status != expected:
            raise UsageError(
                f"{cached_urls.shown(url)}: the registry answers {_reason(answer)}: "
                f"{self._way_out(answer)}"
            )
        return answer

    def _exchange(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str], *, own: bool
    ) -> Answer:
        if own and self._authorization:
            headers = {**headers, "Authorization": self._authorization}
        return exchanges.exchange(method, url, headers=headers, body=body, ca=self._ca)

    def _authorize(self, refusal: Answer) -> bool:
        """Get what the registry asks for: the password itself, or a token for it; whether that is
        new. Raises UsageError.
        """
        before = self._authorization
        challenges = _challenges(refusal.headers.get("WWW-Authenticate", ""))
        if "bearer" in challenges:
            self._authorization = f"Bearer {self._token(challenges['bearer'])}"
        elif "basic" in challenges:
            self._authorization = self._user
        return self._authorization != before

    def _token(self, parameters: dict[str, str]) -> str:
        """The token that the host in a challenge gives. Raises UsageError."""
        realm = parameters.get("realm", "")
        shown = self._checked(realm)
        # Registries may name less than a push needs.
        scopes = dict.fromkeys((f"repository:{self._name}:pull,push", parameters.get("scope", "")))
        query = [("service", parameters.get("service", "")), *(("scope", each) for each in scopes)]
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}"
        answer = exchanges.exchange(
            "GET",
            url + urlencode([(name, value) for name, value in query if value]),
            headers={"Authorization": self._user} if self._user else {},
            ca=self._ca,
        )
        if not answer.ok:
            raise UsageError(
                f"{shown}: gives no token for the registry, but answers {_reason(answer)}: "
                f"{self._way_out(answer)}"
            )
        document = answer.document if isinstance(answer.document, dict) else {}
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise UsageError(
                f"{shown}: answers, but with no token for the registry: ask who runs the registry"
            )
        return token

    def _checked(self, realm: str) -> str:
        """The realm as messages name it. Raises UsageError for one without TLS, which would show
        the password, unless it is on the registry's own host, which was asked without TLS, too. OPA
        has the same rule.
        """
        own, host, _ = _origin(self._base)
        try:
            scheme, name, _ = _origin(realm)
            good = bool(name) and (
                scheme == "https" or (scheme, name) == ("http", host) == (own, host)
            )
        except ValueError:
            good = False
        if not good:
            raise UsageError(
                f"{self._base}: sends to {_quoted(realm)} for a token, which has no TLS, so it "
                "gets no password: ask who runs the registry"
            )
        return cached_urls.shown(realm)

    def _way_out(self, answer: Answer) -> str:
        """What to do when the registry, or what gives its tokens, refuses."""
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            if self._file is None:
                return "name a file with USER:PASSWORD by --token-file"
            return (
                f"correct the user and the password in {self._file}, or give the user the right "
                f"to push to {self._name}"
            )
        if answer.status == HTTPStatus.NOT_FOUND:
            return f"correct the URL, or create the repository {self._name}"
        if answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= 500:
            return "try again later"
        return "correct the URL"


def _origin(url: str) -> tuple[str, str, int]:
    """The scheme, the host and the port of a URL. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80}.get(parts.scheme, 443)


def _challenges(header: str) -> dict[str, dict[str, str]]:
    """The parameters of each scheme in a header WWW-Authenticate, by names in lower case."""
    challenges: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for item in parse_http_list(header):
        first, _, rest = item.partition(" ")
        if "=" not in first:
            parameters = challenges.setdefault(first.lower(), {})
            item = rest
        name, _, value = item.partition("=")
        parameters.setdefault(name.strip().lower(), value.strip().strip('"'))
    return challenges


def _reason(answer: Answer) -> str:
    """The status of an answer, and what the registry says of it."""
    try:
        messages = [str(each["message"]) for each in answer.document["errors"]]
    except (KeyError, TypeError):
        messages = []
    said = _quoted("; ".join(messages) or answer.reason)
    target = answer.headers.get("Location") if 300 <= answer.status < 400 else None
    return f"{answer.status}: {said}{f', to {_quoted(target)}' if target else ''}"


def _quoted(text: str) -> str:
    """What a registry says, which could be long or steer the terminal."""
    return texts.printable(text[:_LONGEST])


def _basic(file: Path) -> str:
    """The header Authorization with the user and the password in a file, as OPA sends it. Raises
    UsageError, InputError.
    """
    text = files.read_text(file).strip()
    user, _, password = text.partition(":")
    if not (user and password):
        raise UsageError(f"{file}: holds no USER:PASSWORD, which a registry needs")
    return f"Basic {base64.b64encode(text.encode()).decode()}"
