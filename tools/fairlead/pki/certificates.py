"""Creates CAs, certificates and keys (EC P-256), and reads dates and issuers of existing ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True)
class CA:
    """A CA, which issues certificates; `cert_pem` is what verifies them."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)

    @classmethod
    def create(cls, common_name: str, valid: timedelta) -> CA:
        """A new CA with a self-signed certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = _builder(name, name, key.public_key(), datetime.now(UTC) + valid)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_key_usage(sign_certificates=True), critical=True)
        builder = builder.add_extension(_authority_key(key.public_key()), critical=False)
        return cls(_cert_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))

    def issue(
        self,
        common_name: str,
        *,
        organizations: Sequence[str] = (),
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        server: bool = False,
        client: bool = False,
        valid: timedelta,
    ) -> KeyPair:
        """Issue a certificate for a server, a client or both. It does not outlive the CA's own.

        Kubernetes takes a client for the user `common_name` in the groups `organizations`. Raises
        ValueError if `ips` has an invalid address, and if neither `server` nor `client` is set.
        """
        if not (server or client):
            raise ValueError("a certificate is for a server, a client or both")
        key, issuer, signer = ec.generate_private_key(ec.SECP256R1()), self._cert(), self._key()
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        end = min(datetime.now(UTC) + valid, issuer.not_valid_after_utc)
        builder = _builder(x509.Name(subject), issuer.subject, key.public_key(), end)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(_key_usage(sign_certificates=False), critical=True)
        builder = builder.add_extension(_authority_key(signer.public_key()), critical=False)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [
            ExtendedKeyUsageOID.CLIENT_AUTH
        ] * client
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ips]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_cert_pem(builder.sign(signer, hashes.SHA256())), _key_pem(key))

    def _cert(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.cert_pem)

    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the CA's key is not an EC key")
        return key


def signing_key() -> bytes:
    """A new private key, PEM, with which an API server signs service account tokens (ES256)."""
    # The API server also reads the public key from this file, which it cannot do with PKCS #8.
    traditional = serialization.PrivateFormat.TraditionalOpenSSL
    return _key_pem(ec.generate_private_key(ec.SECP256R1()), traditional)


def not_after(cert_pem: bytes) -> datetime:
    """When the first certificate in `cert_pem` ends, in UTC. Raises ValueError if there is none."""
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc


def names(cert_pem: bytes) -> set[str]:
    """The DNS names of the certificate. Raises ValueError if it cannot be read."""
    extensions = x509.load_pem_x509_certificate(cert_pem).extensions
    try:
        alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return set(alternatives.get_values_for_type(x509.DNSName))


def issuer(cert_pem: bytes, cas: bytes) -> bytes:
    """The CA (PEM) in `cas` that issued the certificate. Raises ValueError if none did."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    for ca in x509.load_pem_x509_certificates(cas):
        try:
            certificate.verify_directly_issued_by(ca)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return ca.public_bytes(serialization.Encoding.PEM)
    raise ValueError("none of the CAs issued the certificate")


def goes_with(key_pem: bytes, cert_pem: bytes) -> bool:
    """Whether the private key is the certificate's. Raises ValueError if one cannot be read."""
    key = serialization.load_pem_private_key(key_pem, password=None)
    return key.public_key() == x509.load_pem_x509_certificate(cert_pem).public_key()


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, end: datetime
) -> x509.CertificateBuilder:
    builder = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    )
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(min(datetime.now(UTC), end) - _CLOCK_SKEW).not_valid_after(
        end
    )
    return builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
    )


def _authority_key(public_key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key)


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _cert_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
