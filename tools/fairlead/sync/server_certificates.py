"""The certificate that the sidecar's server uses, from files that may be replaced at any time."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from threading import Lock

from fairlead.common.digests import digest
from fairlead.common.errors import InputError
from fairlead.pki import certificates
from fairlead.sync.connection_limits import Connection

log = logging.getLogger(__name__)


class Certificate:
    """A certificate and its key in files that may be replaced at any time."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises InputError if the files cannot be used."""
        self._files = (certificate, key)
        self._lock = Lock()
        self._seen = self._state()
        self.digest = ""
        """The first 12 hex digits of the SHA-256 of the certificate file in use."""
        try:
            self._context = self._load()
        except (OSError, ValueError) as error:
            raise InputError(
                certificate, f"is not a certificate that matches the key {key}: {error}"
            ) from error

    def context(self) -> ssl.SSLContext:
        """The TLS context to serve with now: that of the last usable pair of files."""
        with self._lock:
            state = self._state()
            if state != self._seen:
                try:
                    self._context = self._load()
                    log.info("serving with the new certificate of %s", self._files[0])
                except (OSError, ValueError) as error:
                    log.warning(
                        "%s cannot be used, still serving with the previous certificate: %s",
                        self._files[0],
                        error,
                    )
                self._seen = state
            return self._context

    def not_after(self) -> float:
        """When the certificate in the file ends, in seconds since 1970; 0 if unreadable."""
        try:
            return certificates.not_after(self._files[0].read_bytes()).timestamp()
        except (OSError, ValueError):
            return 0.0

    def _load(self) -> ssl.SSLContext:
        current = digest(self._files[0].read_bytes())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.sslsocket_class = Connection
        context.load_cert_chain(*self._files, password=_no_password)
        self.digest = current
        return context

    def _state(self) -> list[tuple[int, int, int] | None]:
        return [_stat(path) for path in self._files]


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _no_password() -> str:
    raise ValueError("the key is encrypted")
