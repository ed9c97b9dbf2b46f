"""The configuration of an OPA that follows a server of bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Any

from fairlead.distribution.archives import POLICIES
from fairlead.distribution.contents import DECISION
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
    counts. `labels` are what the OPA is called in its reports, besides its id.
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


def document(following: Following) -> dict[str, Any]:
    """OPA's configuration file. Source: Open Policy Agent documentation, "Configuration"."""
    service: dict[str, Any] = {"url": following.url.rstrip("/")}
    if following.ca:
        service["tls"] = {"ca_cert": str(following.ca), "system_ca_required": False}
    if following.token:
        service["credentials"] = {"bearer": {"token_path": str(following.token)}}
    labels = dict(following.labels)
    if following.since:
        labels["bundles_signed_since"] = str(int(following.since.timestamp()))
    return {
        "services": {_SERVICE: service},
        "keys": {
            key.key_id: {"algorithm": key.algorithm, "key": key.pem.decode()}
            for key in following.keys
        },
        "bundles": {name: _bundle(name, following.scope) for name in following.names},
        "persistence_directory": str(following.persisted),
        "status": {"service": _SERVICE},
        **({"labels": labels} if labels else {}),
        **({"default_decision": DECISION} if POLICIES in following.names else {}),
    }


def resource(name: str) -> str:
    """The path of a bundle below the server's URL."""
    return f"bundles/{name}.tar.gz"


def _bundle(name: str, scope: str) -> dict[str, Any]:
    least, most = _DELAYS
    return {
        "service": _SERVICE,
        "resource": resource(name),
        "persist": True,
        # With this block, OPA refuses a bundle without a signature.
        "signing": {"scope": claim(scope, name)},
        "polling": {
            "min_delay_seconds": least,
            "max_delay_seconds": most,
            "long_polling_timeout_seconds": WAIT,
        },
    }
