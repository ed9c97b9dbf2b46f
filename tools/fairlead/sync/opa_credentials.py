"""The credentials that the sidecar uses for its OPA. They come from files that may change, be empty
for a while, or vanish."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from pathlib import Path

from fairlead.common.digests import digest
from fairlead.common.errors import UsageError
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaUnavailable

log = logging.getLogger(__name__)

_TIMEOUT = 5.0  # seconds

_Used = tuple[str | None, bytes | None]  # token, and CAs in PEM form


class OpaCredentials:
    """Gives clients of OPA that use the current token and CA of the files."""

    def __init__(
        self,
        url: str,
        ca: Path | None,
        token_file: Path | None,
        asking: Callable[[], None] | None = None,
    ) -> None:
        """Raises UsageError if `url` is invalid. The files need not exist yet.

        `asking` is called before each request of a client.
        """
        self._url = url
        self._ca = ca
        self._token_file = token_file
        self._troubles: list[str] = []
        self._used: _Used = (None, None)
        self._asking = asking
        self._client = OpaApi(url, ca=ca, timeout=_TIMEOUT, asking=asking)

    @property
    def trouble(self) -> str | None:
        """What is wrong with the files. Their last usable content stays in use."""
        return "; ".join(self._troubles) or None

    @property
    def digests(self) -> dict[str, str | None]:
        """The digests of what is in use, as {"token", "ca"}: the first 12 hex digits of the
        SHA-256 of each, or None.
        """
        token, cas = self._used
        return {
            "token": digest(token.encode()) if token else None,
            "ca": digest(cas) if cas else None,
        }

    def accepts(self, token: str) -> bool:
        """Whether this is the token in use."""
        used = self._used[0]
        return bool(used) and hmac.compare_digest(token.encode(), str(used).encode())

    def client(self) -> OpaApi:
        """The client to use now. It stays the same until a file changes.

        Raises OpaUnavailable until the CA file could be read once, because without it OPA cannot
        be verified.
        """
        troubles: list[str] = []
        self._use((self._read_token(troubles), self._read_cas(troubles)), troubles)
        for trouble in troubles:
            if trouble not in self._troubles:
                log.warning("%s", trouble)
        self._troubles = troubles
        if self._ca and self._used[1] is None:
            raise OpaUnavailable("; ".join(troubles))
        return self._client

    def _use(self, credentials: _Used, troubles: list[str]) -> None:
        """Use the token and the CA that were read. If one of them is unusable, use the other with
        the previous value of the first.
        """
        token, cas = credentials
        for use in ((token, cas), (self._used[0], cas), (token, self._used[1])):
            if use == self._used:
                break
            try:
                client = OpaApi(
                    self._url,
                    cas=use[1],
                    token=use[0],
                    timeout=_TIMEOUT,
                    asking=self._asking,
                )
            except UsageError as error:
                troubles.append(
                    f"{self._token_file if 'token' in str(error) else self._ca}: {error}"
                )
                continue
            self._client.close()
            self._client, self._used = client, use
            log.info("using the token %s and the CA %s (SHA-256)", *self.digests.values())
            break

    def _read_token(self, troubles: list[str]) -> str | None:
        if self._token_file is None:
            return None
        try:
            token = self._token_file.read_text(encoding="utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            troubles.append(f"the token file {self._token_file} cannot be read: {reason}")
            return self._used[0]
        if not token:
            troubles.append(f"the token file {self._token_file} is empty")
            return self._used[0]
        return token

    def _read_cas(self, troubles: list[str]) -> bytes | None:
        """The content of the CA file. OPA is verified with these bytes, so that later changes of
        the file do not matter.
        """
        if self._ca is None:
            return None
        try:
            cas = self._ca.read_bytes()
        except OSError as error:
            troubles.append(f"the CA file {self._ca} cannot be read: {error.strerror}")
            return self._used[1]
        if not cas.strip():
            troubles.append(f"the CA file {self._ca} is empty")
            return self._used[1]
        return cas
