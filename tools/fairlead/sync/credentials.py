"""How the sidecar proves itself to its OPA, from files that may change, be empty for a while, or vanish."""

from __future__ import annotations

import logging
from pathlib import Path

from fairlead.errors import UsageError
from fairlead.opa_api import OpaApi

log = logging.getLogger(__name__)

_TIMEOUT = 5.0  # seconds


class OpaCredentials:
    """Gives a client of OPA that uses the token and the CA that the files hold at this moment."""

    def __init__(self, url: str, ca: Path | None, token_file: Path | None) -> None:
        """Raises UsageError where `url` is none; a file that is not there yet is waited for."""
        self.trouble: str | None = None
        """What is wrong with the token file; the last token that it held is used meanwhile."""
        self._url = url
        self._ca = ca
        self._token_file = token_file
        self._token: str | None = None
        self._authorities = b""
        self._client = OpaApi(url, ca=ca, timeout=_TIMEOUT)

    def client(self) -> OpaApi:
        """The client to use now, the same one as long as nothing changed."""
        token, authorities = self._read_token(), self._read_authorities()
        if (token, authorities) != (self._token, self._authorities):
            try:
                client = OpaApi(self._url, ca=self._ca, token=token, timeout=_TIMEOUT)
            except UsageError as error:
                self._tell(f"{self._token_file}: {error}")
                return self._client
            self._client.close_connection()
            self._client, self._token, self._authorities = client, token, authorities
        return self._client

    def _read_token(self) -> str | None:
        if self._token_file is None:
            return None
        try:
            token = self._token_file.read_text(encoding="utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            self._tell(f"the token file {self._token_file} cannot be read: {reason}")
            return self._token
        if not token:
            self._tell(f"the token file {self._token_file} is empty")
            return self._token
        self._tell(None)
        return token

    def _read_authorities(self) -> bytes:
        """The CA file's content: a session goes on with the one it began with."""
        if self._ca is None:
            return b""
        try:
            return self._ca.read_bytes() or self._authorities
        except OSError:
            return self._authorities

    def _tell(self, trouble: str | None) -> None:
        if trouble and trouble != self.trouble:
            log.warning("%s", trouble)
        self.trouble = trouble
