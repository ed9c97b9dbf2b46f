"""What guards OPA's API in one deployment: the token of its callers, and its certificate."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fairlead import certificates
from fairlead.settings import NAMESPACE

VALID = timedelta(days=90)
RENEW = timedelta(days=30)
"""What is left of a certificate's time when the next deployment replaces it."""

SERVICE_NAMES = ("opa", f"opa.{NAMESPACE}", f"opa.{NAMESPACE}.svc", f"opa.{NAMESPACE}.svc.cluster.local", "localhost")
LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Credentials:
    """A token of 256 bits, and a certificate (PEM) with its key and the authority (PEM) to verify it by.

    The authority's own key is kept nowhere: the next certificate comes from a new authority.
    """

    token: str = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes

    @classmethod
    def fresh(cls, ips: Sequence[str] = LOOPBACK) -> Credentials:
        """New ones, for OPA behind its Service and at `ips`."""
        authority = certificates.Authority.create("fairlead-opa", VALID)
        pair = authority.issue(SERVICE_NAMES[2], dns=SERVICE_NAMES, ips=ips, server=True, valid=VALID)
        return cls(secrets.token_urlsafe(32), pair.cert_pem, pair.key_pem, authority.cert_pem)

    @classmethod
    def kept(cls, token: Mapping[str, str] | None, tls: Mapping[str, str] | None) -> Credentials | None:
        """Those of the deployed Secrets' data (base64), however old; None where they are not whole."""
        if token is None or tls is None:
            return None
        try:
            found = cls(
                b64decode(token["token"]).decode(),
                *(b64decode(tls[key]) for key in ("tls.crt", "tls.key", "ca.crt")),
            )
            certificates.not_after(found.certificate)
            certificates.not_after(found.ca)
        except (KeyError, ValueError):
            return None
        return found if found.token else None

    @property
    def left(self) -> timedelta:
        """How long the certificate and its authority are good for; negative when one has ended."""
        return min(map(certificates.not_after, (self.certificate, self.ca))) - datetime.now(UTC)

    @property
    def digest(self) -> str:
        """What tells from others the token and the authority, which some sidecars read but once; not what they are."""
        return hashlib.sha256(self.token.encode() + self.ca).hexdigest()[:12]
