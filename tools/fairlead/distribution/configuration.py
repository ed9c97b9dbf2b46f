"""The configuration of an OPA that follows a server of bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Any

from fairlead.distribution import exchanges, registry
from fairlead.distribution.archives import LARGEST, POLICIES
from fairlead.distribution.contents import DECISION
from fairlead.distribution.registry import Repository
from fairlead.distribution.signatures import PublicKey, claim

WAIT = 50
"""Seconds for which a server may let an OPA wait for a new bundle (long polling). Proxies and load
balancers often end a request after 60."""
_DELAYS = (10, 20)
"""The least and the most seconds between two requests to a server that does not let OPAs wait, and
the most after a failure."""
_SERVICE = "bundles"
PERSISTED = PurePath("/var/lib/fairlead/opa")


@dataclass(frozen=True)
class Following:
    """What an OPA follows: the URL of the server, the bundles, and the keys that may sign them.

    `ca` and `token` are files on the OPA's machine. `since` is the time before which no signature
    counts. `labels` are what the OPA is called in its reports, besides its id. With `plain`, a
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
        return Repository.parse(self.url) if registry.is_registry(self.url) else None

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
        exchanges.require_private(following.server)
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
        "bundles": {name: _bundle(name, following.scope, repository) for name in following.names},
        "persistence_directory": str(following.persisted),
        **({} if repository else {"status": {"service": _SERVICE}}),  # a registry takes no reports
        **({"labels": labels} if labels else {}),
        **({"default_decision": DECISION} if POLICIES in following.names else {}),
    }


def resource(name: str) -> str:
    """The path of a bundle below the server's URL."""
    return f"bundles/{name}.tar.gz"


def _bundle(name: str, scope: str, repository: Repository | None) -> dict[str, Any]:
    least, most = _DELAYS
    polling = {"min_delay_seconds": least, "max_delay_seconds": most}
    if repository is None:
        polling["long_polling_timeout_seconds"] = WAIT
    return {
        "service": _SERVICE,
        "resource": repository.image(name) if repository else resource(name),
        "persist": True,
        "size_limit_bytes": LARGEST,  # of each file; OPA reads all before it verifies them
        # With this block, OPA refuses a bundle without a signature.
        "signing": {"scope": claim(scope, name)},
        "polling": polling,
    }
