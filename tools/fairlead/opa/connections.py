"""The connection to one OPA: its address, its CA, the token, and the errors of every request."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from opa_client.opa import OpaClient
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

from fairlead.common.errors import UsageError
from fairlead.opa import errors
from fairlead.opa.errors import OpaRefused, OpaUnavailable

_BY_PLUGIN = "refused_by_fairlead: "
"""The code of what the plugin of fairlead-opa answers itself, before its message."""


class Connection:
    """Sends requests to one OPA, for one thread at a time; it never retries.

    The package opa-python-client provides the session with its token. Its methods are not used, as
    they lack what Fairlead needs:
    - A server cannot be verified by a CA file, and REQUESTS_CA_BUNDLE and the proxies of the
      environment override what the caller asks for.
    - Documents must be objects.
    - A rejected policy is rewritten as Rego v0 and sent again (`rego_compat`).
    - Errors lose the file and the line, and do not distinguish a wrong token from a wrong policy.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None = None,
        cas: bytes | None = None,
        hostname: str | None = None,
        token: str | None = None,
        timeout: float = 5.0,
        asking: Callable[[], None] | None = None,
    ) -> None:
        """Connects to nothing yet.

        `url` is like https://127.0.0.1:8443 (a trailing /v1 is accepted). `ca` names a PEM file of
        the CAs to trust instead of the system's, which is read at every new connection;
        `cas` is the content of such a file. The certificate has to be that of `hostname`, if it is
        given, instead of the one in `url`. `timeout` is in seconds, for connecting and for
        each read. `asking` is called before each request. Raises UsageError.
        """
        scheme, host, port = _address(url)
        if token is not None and not (
            token.isascii() and token.isprintable() and token and " " not in token
        ):
            raise UsageError("the OPA token holds characters that no HTTP header can carry")
        self.url = f"{scheme}://{host}:{port}"
        self.timeout = timeout
        self._asking = asking
        self._client = OpaClient(
            host=host, port=port, ssl=scheme == "https", token=token, retries=0, timeout=timeout
        )
        self.session: requests.Session = self._client._session
        self.session.trust_env = False
        if scheme == "https":
            self.session.verify = str(ca) if ca else True
            if cas is not None:
                self.session.mount("https://", _TrustOnly(cas))
            if hostname is not None:
                self.session.mount("https://", NamedHost(hostname))

    def close(self) -> None:
        """End the connection; the next request opens it again."""
        self._client.close_connection()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        patience: float = 0.0,
    ) -> requests.Response:
        """The answer to one request: a success, or a 4xx that the caller has to judge.

        `patience` is how many seconds the answer may take, if longer than the timeout. Raises
        OpaUnavailable and OpaRefused.
        """
        answer = self.exchange(method, path, body, headers, patience=patience)
        if answer.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise OpaRefused(
                f"{self.url} refuses {method} {path} ({answer.status_code}): the token is not the "
                "one it knows"
            )
        if answer.status_code >= requests.codes.internal_server_error or answer.is_redirect:
            raise OpaUnavailable(
                f"{self.url} answers {method} {path} with {answer.status_code}: {_message(answer)}"
            )
        return answer

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        patience: float = 0.0,
    ) -> requests.Response:
        """The answer to one request, whatever its status. Raises OpaUnavailable."""
        if self._asking:
            self._asking()
        try:
            answer: requests.Response = self.session.request(
                method,
                self.url + path,
                data=body,
                headers=headers,
                timeout=(self.timeout, max(self.timeout, patience)),
                allow_redirects=False,
            )
            return answer
        except (
            OSError,
            ValueError,
        ) as error:  # requests' own errors are OSErrors; a bad CA file raises bare ones
            raise OpaUnavailable(
                f"OPA at {self.url} cannot be reached: {_reason(error)}"
            ) from error


class NamedHost(HTTPAdapter):
    """Takes the certificate of this host from whichever address answers."""

    def __init__(self, hostname: str) -> None:
        self._hostname = hostname
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        options |= {"server_hostname": self._hostname, "assert_hostname": self._hostname}
        super().init_poolmanager(*arguments, **options)


class _TrustOnly(HTTPAdapter):
    """Verifies servers by the given CAs (PEM) alone; Session.verify takes only files."""

    def __init__(self, cas: bytes) -> None:
        self._context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
        self._context.check_hostname = True
        try:
            self._context.load_verify_locations(cadata=cas.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise UsageError(
                "the CA that OPA is verified by is not a certificate in PEM form"
            ) from error
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self._context, **options)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """The context does this already; requests would add the system's CAs."""


def _address(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not the address of an OPA: {error}") from error
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path.rstrip("/") not in ("", "/v1")
    ):
        raise UsageError(
            f"{url!r} is not the address of an OPA: give it like https://127.0.0.1:8443"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def _reason(error: BaseException) -> str:
    """The innermost cause of a failed request, which is the one that a person can act on."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__


def _message(answer: requests.Response) -> str:
    """The message of an answer without what was asked for, as a person reads it."""
    try:
        error = answer.json()
    except (ValueError, RecursionError):
        error = None
    text = errors.describe(error) if isinstance(error, dict) else answer.text
    return text.removeprefix(_BY_PLUGIN)[:500]
