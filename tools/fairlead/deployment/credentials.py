"""OPA's tokens and TLS certificate: created, or read from their Secrets."""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from fairlead.common.digests import digest
from fairlead.deployment.names import CONTROLLER, NAMESPACE, OPA
from fairlead.pki import certificates
from fairlead.policy.bundles import ScopedTokens

VALID = timedelta(days=90)


_NAME = f"{OPA}.{NAMESPACE}"
SERVICE_NAMES = (
    *(OPA, _NAME, f"{_NAME}.svc", f"{_NAME}.svc.cluster.local", "localhost"),
    f"{CONTROLLER}.{NAMESPACE}.svc",
)
"""The names by which OPA's Service is reached, of which API servers use the third one, and the one
by which they reach the controller's.
"""
LOOPBACK = ("127.0.0.1", "::1")
TLS_KEYS = ("tls.crt", "tls.key", "ca.crt")
SCOPED_KEYS = ("token", "previous")
"""The keys of a scope's Secret: the token to use, and the one before, while that is still valid."""


@dataclass(frozen=True)
class Tls:
    """A server's certificate (PEM) with its key, and the CAs (PEM) that its clients trust.

    A CA's own key is thrown away: the next certificate comes from a new CA.
    """

    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes

    @classmethod
    def fresh(cls, valid: timedelta = VALID, ips: Sequence[str] = LOOPBACK) -> Tls:
        """A new certificate, for OPA behind its Service and at `ips`."""
        ca = certificates.CA.create(f"{NAMESPACE}-{OPA}", valid)
        pair = ca.issue(SERVICE_NAMES[2], dns=SERVICE_NAMES, ips=ips, server=True, valid=valid)
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
    def remaining(self) -> timedelta:
        """How long the certificate and its CA are still valid; negative after the end of either."""
        return min(map(certificates.not_after, (self.certificate, self.issuer))) - datetime.now(UTC)

    def is_due(self, before: timedelta) -> bool:
        """Whether it has to be renewed: its end is no further away than that, or it is of a former
        version and has not all names.
        """
        missing = set(SERVICE_NAMES) - certificates.names(self.certificate)
        return self.remaining <= before or bool(missing)


@dataclass(frozen=True)
class Credentials:
    """A token of 256 bits, and a certificate (PEM) with its key and its CA (PEM); see Tls.
    `scoped` are the valid tokens of each scope, the one to use first.
    """

    token: str = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes
    scoped: ScopedTokens = field(default_factory=dict, repr=False)

    @classmethod
    def fresh(cls, ips: Sequence[str] = LOOPBACK, *, valid: timedelta = VALID) -> Credentials:
        """New credentials, for OPA behind its Service and at `ips`."""
        return cls.of(fresh_token(), Tls.fresh(valid, ips))

    @classmethod
    def of(cls, token: str, tls: Tls) -> Credentials:
        """A token with a certificate."""
        return cls(token, tls.certificate, tls.key, tls.ca)

    def having(self, tls: Tls) -> Credentials:
        """These credentials with another certificate."""
        return replace(Credentials.of(self.token, tls), scoped=self.scoped)

    def opening(self, scopes: Sequence[str]) -> Credentials:
        """These credentials with tokens for just these scopes, new ones where missing."""
        return replace(
            self, scoped={name: self.scoped.get(name) or (fresh_token(),) for name in scopes}
        )

    def renewing(self, scopes: Iterable[str]) -> Credentials:
        """These credentials with a new token for each of the scopes; the old one stays valid."""
        renewed = {name: (fresh_token(), *self.scoped[name][:1]) for name in scopes}
        return replace(self, scoped={**self.scoped, **renewed})

    @classmethod
    def kept(
        cls,
        token: Mapping[str, str] | None,
        tls: Mapping[str, str] | None,
        scoped: Mapping[str, Mapping[str, str] | None] = MappingProxyType({}),
    ) -> Credentials | None:
        """The credentials in the Secrets' data (base64), however old; None if data of the first two
        is missing. `scoped` has the Secrets of the scopes by their names.
        """
        try:
            token_text, stored_tls = b64decode((token or {})["token"]).decode(), Tls.kept(tls)
        except (KeyError, ValueError):
            return None
        if not token_text or not stored_tls:
            return None
        valid = {name: _scoped_tokens(data) for name, data in scoped.items()}
        return replace(
            cls.of(token_text, stored_tls),
            scoped={name: tokens for name, tokens in valid.items() if tokens},
        )

    @property
    def tls(self) -> Tls:
        """The certificate with its key and its CA."""
        return Tls(self.certificate, self.key, self.ca)

    @property
    def remaining(self) -> timedelta:
        """How long the certificate and its CA are still valid; negative after the end of either."""
        return self.tls.remaining

    @property
    def digest(self) -> str:
        """A digest of the token and the CA, both of which some sidecars read only once."""
        return digest(self.token.encode() + self.ca)


def fresh_token() -> str:
    """A new token of 256 bits."""
    return secrets.token_urlsafe(32)


def scoped_data(tokens: Sequence[str]) -> dict[str, str]:
    """The data of a scope's Secret, as text; see SCOPED_KEYS."""
    return dict(zip(SCOPED_KEYS, tokens, strict=False))


def _scoped_tokens(data: Mapping[str, str] | None) -> tuple[str, ...]:
    """The tokens in the data (base64) of a scope's Secret; empty if it has none to use."""
    try:
        tokens = [b64decode((data or {}).get(key, "")).decode() for key in SCOPED_KEYS]
    except ValueError:
        return ()
    return tuple(filter(None, tokens)) if tokens[0] else ()
