"""Signs bundles, and says by what their signatures are verified."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from fairlead.common.digests import digest
from fairlead.common.errors import InputError, UsageError
from fairlead.distribution.archives import NAMES, SIGNATURES, Archive
from fairlead.opa import bundle_files

SCOPE = "fairlead"
"""The scope of signatures, unless a flag names another. A slash and the bundle's name follow, so
that no bundle passes for another one."""
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_PUBLIC = (
    serialization.Encoding.PEM,
    serialization.PublicFormat.SubjectPublicKeyInfo,
)
_KINDS = "give an EC key (P-256, P-384 or P-521) or an RSA key; OPA verifies no Ed25519"


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies signatures: its PEM, the algorithm, and an id that follows from it."""

    pem: bytes
    algorithm: str

    @property
    def key_id(self) -> str:
        """12 hex digits that identify the key."""
        return digest(self.pem)


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs: its PEM, as OPA reads it, and what verifies its signatures."""

    pem: bytes
    public: PublicKey


def new_key() -> PrivateKey:
    """A new key, EC P-256 (ES256)."""
    return _private(ec.generate_private_key(ec.SECP256R1()))


def private_key(path: Path) -> PrivateKey:
    """The private key in a PEM file. Raises InputError."""
    pem = _read(path)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise InputError(path, "has a password: decrypt the key first") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            path, "holds no private key in PEM: make one by `fairlead bundle key`"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise InputError(path, f"holds a key that OPA has no algorithm for: {_KINDS}")
    _algorithm(key.public_key(), path)
    return _private(key)


def public_key(path: Path) -> PublicKey:
    """The public key in a PEM file. Raises InputError."""
    pem = _read(path)
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        problem = (
            "holds a private key: OPAs get the public one, which `fairlead bundle key` wrote beside"
            if b"PRIVATE KEY" in pem
            else "holds no public key in PEM: `fairlead bundle key` writes one beside the private"
        )
        raise InputError(path, problem) from error
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise InputError(path, f"holds a key that OPA has no algorithm for: {_KINDS}")
    return PublicKey(key.public_bytes(*_PUBLIC), _algorithm(key, path))


def claim(scope: str, name: str) -> str:
    """The scope that the signature of a bundle names."""
    return f"{scope}/{name}"


def sign(
    archive: Archive, key: PrivateKey, *, scope: str, now: int, lasts: timedelta | None
) -> Archive:
    """The bundle with a new signature of the time `now` (Unix time in seconds). OPAs decide by it
    for as long as it lasts, for ever if that is None. Raises UsageError for a bundle that Fairlead
    did not build.
    """
    if archive.name not in NAMES:
        raise UsageError(
            "the bundle's .manifest names no bundle in its metadata: build it by `fairlead bundle "
            "build`"
        )
    expires = None if lasts is None else now + int(lasts.total_seconds())
    stamped = archive.with_metadata(signed=now, expires=expires)
    claims = {"scope": claim(scope, archive.name), "keyid": key.public.key_id}
    signature = bundle_files.sign(stamped.contents(), key.pem, key.public.algorithm, claims)
    return Archive({**stamped.files, SIGNATURES: signature}, stamped.manifest)


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> PrivateKey:
    public = key.public_key()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return PrivateKey(pem, PublicKey(public.public_bytes(*_PUBLIC), _algorithm(public, "the key")))


def _algorithm(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, origin: object) -> str:
    """The algorithm of JSON web signatures for this key. Raises InputError."""
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < 2048:
            raise InputError(origin, f"has {key.key_size} bits: give an RSA key of 2048 or more")
        return "RS256"
    if key.curve.name not in _CURVES:
        raise InputError(origin, f"is on the curve {key.curve.name}: {_KINDS}")
    return _CURVES[key.curve.name]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            path, f"cannot be read ({error.strerror}): make a key by `fairlead bundle key`"
        ) from error
