"""OPA's token and TLS certificate: created, or read from their two Secrets."""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fairlead.common.digests import digest
from fairlead.deployment.names import NAMESPACE, SHADOW
from fairlead.pki import certificates

VALID = timedelta(days=90)


def _service_names(service: str) -> tuple[str, ...]:
    """The names by which a Service is reached; API servers use the third one."""
    name = f"{service}.{NAMESPACE}"
    return (service, name, f"{name}.svc", f"{name}.svc.cluster.local", "localhost")


SERVICE_NAMES = _service_names("opa")
SHADOW_NAMES = _service_names(SHADOW)
LOOPBACK = ("127.0.0.1", "::1")
TLS_KEYS = ("tls.crt", "tls.key", "ca.crt")


@dataclass(frozen=True)
class Tls:
    """A server's certificate (PEM) with its key, and the CAs (PEM) that its clients trust.

    A CA's own key is thrown away: the next certificate comes from a new CA.
    """

    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes

    @classmethod
    def fresh(
        cls,
        valid: timedelta = VALID,
        ips: Sequence[str] = LOOPBACK,
        names: Sequence[str] = SERVICE_NAMES,
    ) -> Tls:
        """A new certificate, for a server behind its Service (by default OPA) and at `ips`."""
        ca = certificates.CA.create(f"{NAMESPACE}-{names[0]}", valid)
        pair = ca.issue(names[2], dns=names, ips=ips, server=True, valid=valid)
        return cls(pair.cert_pem, pair.key_pem, ca.cert_pem)

    @classmethod
    def kept(cls, data: Mapping[str, str] | None) -> Tls | None:
        """The certificate in a Secret's data (base64), however old; None if data is missing."""
        try:
            tls = cls(*(b64decode((data or {})[key]) for key in TLS_KEYS))
            certificates.not_after(tls.certificate)
            certificates.not_after(tls.ca)
        except (KeyError, ValueError):
            return None
        return tls

    @property
    def files(self) -> dict[str, bytes]:
        """The Secret's data."""
        return dict(zip(TLS_KEYS, (self.certificate, self.key, self.ca), strict=True))

    @property
    def issuer(self) -> bytes:
        """The CA (PEM) that issued the certificate; all CAs if none did."""
        try:
            return certificates.issuer(self.certificate, self.ca)
        except ValueError:
            return self.ca

    @property
    def left(self) -> timedelta:
        """How long the certificate and its CA are still valid; negative after the end of either."""
        return min(map(certificates.not_after, (self.certificate, self.issuer))) - datetime.now(UTC)


@dataclass(frozen=True)
class Credentials:
    """A token of 256 bits, and a certificate (PEM) with its key and its CA (PEM); see Tls. `shadow`
    is the certificate of `fairlead shadow`, if there is one.
    """

    token: str = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes
    shadow: Tls | None = None

    @classmethod
    def fresh(cls, ips: Sequence[str] = LOOPBACK, *, valid: timedelta = VALID) -> Credentials:
        """New credentials, for OPA behind its Service and at `ips`."""
        return cls.of(secrets.token_urlsafe(32), Tls.fresh(valid, ips))

    @classmethod
    def of(cls, token: str, tls: Tls, shadow: Tls | None = None) -> Credentials:
        """A token with a certificate, or two."""
        return cls(token, tls.certificate, tls.key, tls.ca, shadow)

    @classmethod
    def kept(
        cls,
        token: Mapping[str, str] | None,
        tls: Mapping[str, str] | None,
        shadow: Mapping[str, str] | None = None,
    ) -> Credentials | None:
        """The credentials in the Secrets' data (base64), however old; None if data of the first two
        is missing.
        """
        try:
            token_text, stored_tls = b64decode((token or {})["token"]).decode(), Tls.kept(tls)
        except (KeyError, ValueError):
            return None
        if not token_text or not stored_tls:
            return None
        return cls.of(token_text, stored_tls, Tls.kept(shadow))

    @property
    def tls(self) -> Tls:
        """The certificate with its key and its CA."""
        return Tls(self.certificate, self.key, self.ca)

    @property
    def left(self) -> timedelta:
        """How long the certificate and its CA are still valid; negative after the end of either."""
        return self.tls.left

    @property
    def digest(self) -> str:
        """A digest of the token and the CA, both of which some sidecars read only once."""
        return digest(self.token.encode() + self.ca)
