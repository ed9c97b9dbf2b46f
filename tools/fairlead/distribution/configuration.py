"""The configuration of an OPA that follows a server of bundles."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from fairlead.common.errors import UsageError
from fairlead.distribution.archives import LARGEST, POLICIES
from fairlead.distribution.contents import DECISION
from fairlead.distribution.repositories import Repository
from fairlead.distribution.signatures import PublicKey, claim

_DELAYS = (10, 20)
"""The least and the most seconds between two requests to the server."""
_SERVICE = "bundles"
PERSISTED = PurePath("/var/lib/fairlead/opa")


@dataclass(frozen=True)
class Following:
    """What an OPA follows: the URL of the server, the bundles, and the keys that may sign them.

    `ca` and `token` are files on the OPA's machine. `since` is the time before which no signature
    counts. `labels` are what the OPA is called in its logs, besides its id. With `plain`, a
    registry speaks HTTP without TLS.
    """

    url: str
    names: Sequence[str]
    keys: Sequence[PublicKey]
    scope: str
    ca: PurePath | None = None
    token: PurePath | None = None
    persisted: PurePath = PERSISTED
    since: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False

    @property
    def repository(self) -> Repository | None:
        """Where a registry has the bundles; None if an HTTP server does. Raises UsageError."""
        return Repository.parse(self.url)

    @property
    def server(self) -> str:
        """The address that OPA connects to."""
        repository = self.repository
        return repository.url(plain=self.plain) if repository else self.url.rstrip("/")


def document(following: Following) -> dict[str, Any]:
    """OPA's configuration file. Raises UsageError for a token that it would send without TLS.

    Source: Open Policy Agent documentation, "Configuration".
    """
    service: dict[str, Any] = {"url": following.server}
    repository = following.repository
    if repository:
        service["type"] = "oci"
    if following.ca:
        service["tls"] = {"ca_cert": str(following.ca), "system_ca_required": False}
    if following.token:
        _require_private(following.server)
        bearer = {"token_path": str(following.token)}
        service["credentials"] = {
            "bearer": {**bearer, **({"scheme": "Basic"} if repository else {})}
        }
    labels = dict(following.labels)
    if following.since:
        labels["bundles_signed_since"] = str(int(following.since.timestamp()))
    return {
        "services": {_SERVICE: service},
        "keys": {
            key.key_id: {"algorithm": key.algorithm, "key": key.pem.decode()}
            for key in following.keys
        },
        "bundles": {name: _bundle(name, following, repository) for name in following.names},
        "persistence_directory": str(following.persisted),
        **({"labels": labels} if labels else {}),
        **({"default_decision": DECISION} if POLICIES in following.names else {}),
    }


def _bundle(name: str, following: Following, repository: Repository | None) -> dict[str, Any]:
    minimum, maximum = _DELAYS
    only_key = {"keyid": following.keys[0].key_id} if len(following.keys) == 1 else {}
    return {
        "service": _SERVICE,
        "resource": repository.image(name) if repository else f"bundles/{name}.tar.gz",
        "persist": True,
        "size_limit_bytes": LARGEST,  # of each file; OPA reads all before it verifies them
        # With this block, OPA refuses a bundle without a signature; before 1.21.3, only if the
        # block names the key (GHSA-g2pf-6v5v-qcc8). With two keys, the signature has to name it.
        "signing": {**only_key, "scope": claim(following.scope, name)},
        "polling": {"min_delay_seconds": minimum, "max_delay_seconds": maximum},
    }


def _require_private(url: str) -> None:
    """Raises UsageError if others could read what OPA sends to the URL: without TLS, a token or a
    password may go to the same machine only.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        raise UsageError(
            f"--token-file: {parts.scheme}://{parts.netloc.rpartition('@')[2]} has no TLS, so "
            "others could read the token: use https, or leave the token out"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
