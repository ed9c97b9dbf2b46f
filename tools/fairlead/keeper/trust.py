"""The objects that hold OPA's certificate and its trusted CAs (a Secret and the webhooks), and how
they are changed.

Every change names the version of the object that it is based on, so that a concurrent change is
never overwritten.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from fairlead.common.errors import FairleadError
from fairlead.deployment import disabled_objects, names
from fairlead.deployment.credentials import TLS_KEYS, Tls
from fairlead.deployment.names import NAMESPACE, RENEWED_BY, TLS_SECRET
from fairlead.kube.api_requests import MERGE, STRATEGIC, ApiRequests

WEBHOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}"
    for kind, name in (
        ("mutating", names.WEBHOOKS),
        ("validating", names.WEBHOOKS),
        ("validating", names.OBJECTS_WEBHOOK),
    )
)
_SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{TLS_SECRET}"
_RECONNECT = re.compile(rb"# reconnect [^\n]*\n")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True)
class Secret:
    """The content of the Secret. `tls` is None if it is incomplete, `kept_by` names another program
    that renews it, or is None.

    `by` is the field manager that wrote the certificate last, `at` the time of that (RFC 3339).
    """

    version: str
    tls: Tls | None
    kept_by: str | None
    by: str | None
    at: str | None


@dataclass(frozen=True)
class _Webhooks:
    path: str
    version: str
    bundles: Mapping[str, bytes]


class Deployed:
    """Reads and changes the objects, with the field manager `manager`.

    `check` is called before each change, and raises FairleadError to prevent it. `alone` says
    whether nobody else changes the objects meanwhile.
    """

    def __init__(
        self,
        api: ApiRequests,
        *,
        manager: str,
        check: Callable[[], None] = lambda: None,
        alone: bool = True,
    ) -> None:
        self._api = api
        self._manager = manager
        self._check = check
        self.alone = alone

    def secret(self) -> Secret | None:
        """The Secret, or None if there is none. Raises ApiServerError if it cannot be read."""
        secret = self._api.find(_SECRET)
        return None if secret is None else read(secret)

    def disabled(self) -> dict[str, disabled_objects.Record]:
        """The disabled intents, by name. Raises ApiServerError if the webhooks cannot be read."""
        return disabled_objects.merged(configuration for _, configuration in self._configurations())

    def settled(self, tls: Tls) -> bool:
        """Whether everything trusts exactly the CA that issued the certificate."""
        return tls.ca == tls.issuer and all(
            only(bundle, tls.issuer) == bundle
            for webhooks in self._webhooks()
            for bundle in webhooks.bundles.values()
        )

    def publish(self, tls: Tls) -> None:
        """Write `tls` into the Secret. Raises FairleadError if there is no Secret, or if somebody
        else changed it meanwhile.
        """
        secret = self.secret()
        if secret is None:
            raise FairleadError(
                f"there is no Secret {TLS_SECRET} in namespace {NAMESPACE}: run `fairlead deploy`"
            )
        if secret.tls == tls:
            return
        data = {key: b64encode(value).decode() for key, value in tls.files.items()}
        self._change(_SECRET, {"metadata": {"resourceVersion": secret.version}, "data": data})

    def trust(self, cas: bytes) -> None:
        """Make API servers verify OPA only by `cas` (PEM). Raises FairleadError if the
        webhooks cannot be changed.
        """
        self._bundles(lambda bundle: only(bundle, cas))

    def trust_also(self, cas: bytes) -> None:
        """Make API servers also accept `cas` (PEM). Raises FairleadError if the webhooks
        cannot be changed.
        """
        self._bundles(lambda bundle: joined(bundle, cas))

    def reconnect(self) -> None:
        """Have every API server open new connections to OPA; see clusters.webhook_connections.
        Raises FairleadError if the webhooks cannot be changed.
        """
        comment = f"# reconnect {uuid4()}\n".encode()
        self._bundles(lambda bundle: _RECONNECT.sub(b"", bundle) + comment)

    def _bundles(self, change: Callable[[bytes], bytes]) -> None:
        for configuration in self._webhooks():
            changed = {
                name: change(bundle)
                for name, bundle in configuration.bundles.items()
                if change(bundle) != bundle
            }
            if changed:
                webhooks = [
                    {"name": name, "clientConfig": {"caBundle": b64encode(bundle).decode()}}
                    for name, bundle in changed.items()
                ]
                patch = {
                    "metadata": {"resourceVersion": configuration.version},
                    "webhooks": webhooks,
                }
                self._change(configuration.path, patch, strategic=True)

    def _webhooks(self) -> list[_Webhooks]:
        return [
            _Webhooks(
                path,
                config["metadata"]["resourceVersion"],
                {
                    webhook["name"]: b64decode(webhook["clientConfig"].get("caBundle") or "")
                    for webhook in config.get("webhooks") or ()
                },
            )
            for path, config in self._configurations()
        ]

    def _configurations(self) -> list[tuple[str, dict[str, Any]]]:
        """The webhook configurations that exist, with their paths. An administrator may have
        deleted some.
        """
        configurations = [(path, self._api.find(path)) for path in WEBHOOKS]
        return [(path, config) for path, config in configurations if config is not None]

    def _change(self, path: str, patch: Mapping[str, Any], *, strategic: bool = False) -> None:
        self._check()
        kind = STRATEGIC if strategic else MERGE
        self._api.call("PATCH", path, patch, manager=self._manager, content_type=kind)


def read(secret: Mapping[str, Any]) -> Secret:
    """Read the Secret from the API's JSON."""
    metadata = secret["metadata"]
    by, at = _writer(metadata.get("managedFields") or ())
    kept_by = (metadata.get("annotations") or {}).get(RENEWED_BY) or None
    return Secret(
        str(metadata.get("resourceVersion", "")), Tls.kept(secret.get("data")), kept_by, by, at
    )


def joined(bundle: bytes, cas: bytes) -> bytes:
    """`bundle` with the certificates of `cas` that it lacks."""
    missing = [pem for pem in _parts(cas) if pem not in _parts(bundle)]
    return only(bundle, b"".join([*_parts(bundle), *missing])) if missing else bundle


def only(bundle: bytes, cas: bytes) -> bytes:
    """`cas` with the comments of `bundle`; `bundle` itself if it holds exactly these
    certificates.

    The comments make API servers open new connections; see clusters.webhook_connections.
    """
    if _parts(bundle) == _parts(cas):
        return bundle
    return b"".join(_parts(cas)) + _CERTIFICATE.sub(b"", bundle)


def _parts(cas: bytes) -> list[bytes]:
    return [certificate.rstrip() + b"\n" for certificate in _CERTIFICATE.findall(cas)]


def _writer(managed: Any) -> tuple[str | None, str | None]:
    """The field manager that wrote the certificate last, and the time (RFC 3339)."""
    field = f"f:{TLS_KEYS[0]}"
    wrote = [
        entry for entry in managed if field in ((entry.get("fieldsV1") or {}).get("f:data") or {})
    ]
    last = max(wrote, key=lambda entry: datetime.fromisoformat(entry["time"]), default=None)
    return (last["manager"], last["time"]) if last else (None, None)
