"""Certificates work in real TLS handshakes, and satisfy the rules of strict verifiers."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairlead.pki.certificates import CA, KeyPair, not_after, signing_key
from fairlead.pki.key_files import write_pair

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def ca() -> CA:
    return CA.create("test CA", HOUR)


def handshake(
    folder: Path,
    server: KeyPair,
    server_trusts: bytes,
    client: KeyPair | None,
    client_trusts: bytes,
    name: str,
) -> str:
    """The common name of the client's certificate, as the server sees it. Raises ssl.SSLError if
    either side refuses.
    """
    accepting, asking = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    accepting.verify_mode = ssl.CERT_REQUIRED
    for context, pair, trusts in (
        (accepting, server, server_trusts),
        (asking, client, client_trusts),
    ):
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
        context.load_verify_locations(cadata=trusts.decode())
        if pair:
            context.load_cert_chain(*write_pair(pair, folder, "pair"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asker = asking.wrap_bio(to_client, to_server, server_hostname=name)
    accepter = accepting.wrap_bio(to_server, to_client, server_side=True)
    sides = [asker, accepter]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    der = accepter.getpeercert(binary_form=True)
    assert der
    (name_attribute,) = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(
        NameOID.COMMON_NAME
    )
    return str(name_attribute.value)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "opa.fairlead.svc"])
def test_a_server_and_a_client_trust_each_other(ca: CA, tmp_path: Path, name: str) -> None:
    server = ca.issue(
        "opa", dns=["localhost", "opa.fairlead.svc"], ips=["127.0.0.1"], server=True, valid=HOUR
    )
    client = ca.issue("someone", organizations=["system:masters"], client=True, valid=HOUR)
    assert handshake(tmp_path, server, ca.cert_pem, client, ca.cert_pem, name) == "someone"


def test_a_name_that_the_certificate_does_not_hold_is_refused(ca: CA, tmp_path: Path) -> None:
    server = ca.issue("opa", dns=["localhost"], server=True, valid=HOUR)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(tmp_path, server, ca.cert_pem, None, ca.cert_pem, "opa.fairlead.svc")


def test_another_ca_of_the_same_name_is_not_trusted(ca: CA, tmp_path: Path) -> None:
    server = ca.issue("opa", dns=["localhost"], server=True, valid=HOUR)
    other = CA.create("test CA", HOUR)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, server, ca.cert_pem, None, other.cert_pem, "localhost")


def test_a_client_s_certificate_does_not_serve(ca: CA, tmp_path: Path) -> None:
    client = ca.issue("someone", dns=["localhost"], client=True, valid=HOUR)
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(tmp_path, client, ca.cert_pem, client, ca.cert_pem, "localhost")


def test_a_server_s_certificate_is_no_client_s(ca: CA, tmp_path: Path) -> None:
    server = ca.issue("opa", dns=["localhost"], server=True, valid=HOUR)
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path, server, ca.cert_pem, server, ca.cert_pem, "localhost")


def test_no_certificate_outlives_its_ca(ca: CA) -> None:
    pair = ca.issue("opa", server=True, valid=10 * HOUR)
    assert not_after(pair.cert_pem) == not_after(ca.cert_pem)


def test_the_end_is_when_it_was_asked_for(ca: CA) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    end = not_after(ca.issue("opa", server=True, valid=HOUR / 2).cert_pem)
    assert before + HOUR / 2 <= end <= datetime.now(UTC) + HOUR / 2


def test_one_that_has_ended_can_be_made_and_is_refused(ca: CA, tmp_path: Path) -> None:
    ended = ca.issue("opa", dns=["localhost"], server=True, valid=-HOUR)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(tmp_path, ended, ca.cert_pem, None, ca.cert_pem, "localhost")


def test_a_certificate_for_nobody_is_refused(ca: CA) -> None:
    with pytest.raises(ValueError, match="server, a client or both"):
        ca.issue("opa", valid=HOUR)


def test_an_address_that_is_none_is_refused(ca: CA) -> None:
    with pytest.raises(ValueError, match="localhost"):
        ca.issue("opa", ips=["localhost"], server=True, valid=HOUR)


def test_groups_stand_in_the_subject(ca: CA) -> None:
    pair = ca.issue("someone", organizations=["one", "two"], client=True, valid=HOUR)
    subject = x509.load_pem_x509_certificate(pair.cert_pem).subject
    assert [part.value for part in subject] == ["one", "two", "someone"]


def test_the_signing_key_is_one_that_the_api_server_reads() -> None:
    key = signing_key()
    assert key.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert isinstance(serialization.load_pem_private_key(key, None), ec.EllipticCurvePrivateKey)


def test_keys_are_for_their_owner_alone_even_where_a_file_was_open_to_all(
    ca: CA, tmp_path: Path
) -> None:
    (tmp_path / "opa.key").write_text("old")
    (tmp_path / "opa.key").chmod(0o644)
    pair = ca.issue("opa", server=True, valid=HOUR)
    cert, key = write_pair(pair, tmp_path, "opa")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cert, key)] == [0o600, 0o600]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opa.crt", "opa.key"]


def test_no_key_shows_when_a_pair_is_printed(ca: CA) -> None:
    pair = ca.issue("opa", server=True, valid=HOUR)
    assert "PRIVATE" not in repr(pair) + repr(ca)
