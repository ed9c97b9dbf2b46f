"""The few calls that the embedded cluster makes to its API server.

It does without the package kubernetes, and so without the other clients in fairlead.kube: the
simulated kubelet is a process that starts with each cluster, and loading that package takes 0.4 s
and 17 MB of memory. The errors are the same.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from fairlead.kube.errors import Refused, Unreachable

_TIMEOUT = 10.0
_LOOK = 2.0
_WATCH = 300.0


class Api:
    """The API server at `url`, as its administrator."""

    def __init__(self, url: str, ca: Path, cert: tuple[Path, Path]) -> None:
        self._url = url
        self._session = session(ca, cert)

    def get(self, path: str) -> dict[str, Any]:
        """The object or list at `path`. Raises ApiServerError."""
        return self._call("GET", path)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The object that a POST of `body` to `path` creates. Raises ApiServerError."""
        return self._call("POST", path, body)

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The object after a server-side apply of `body` at `path`. Raises ApiServerError."""
        return self._call(
            "PATCH",
            f"{path}?fieldManager=fairlead&force=true",
            body,
            "application/apply-patch+yaml",
        )

    def events(self, path: str, since: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each event of the list at `path` after the resourceVersion `since`, as (type, object),
        for minutes.

        Raises ApiServerError.
        """
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": str(int(_WATCH))}
        try:
            with self._session.get(
                self._url + path, params=query, stream=True, timeout=(_TIMEOUT, _WATCH + 10)
            ) as answer:
                if not answer.ok:
                    raise Refused(
                        f"watching {path}", answer.status_code, answer.content, answer.reason
                    )
                for line in answer.iter_lines(chunk_size=None):
                    event = json.loads(line)
                    yield event["type"], event["object"]
        except (requests.RequestException, ValueError, KeyError) as error:
            raise Unreachable(f"watching {path}", error) from error

    def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        kind: str = "application/json",
    ) -> dict[str, Any]:
        # Not escaped: some bodies are read as YAML, which has no surrogates.
        data = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        try:
            answer = self._session.request(
                method,
                self._url + path,
                data=data,
                headers={"Content-Type": kind},
                timeout=_TIMEOUT,
            )
            if answer.ok:
                return dict(answer.json())
        except requests.RequestException as error:
            raise Unreachable(f"{method} {path}", reason(error)) from error
        raise Refused(f"{method} {path}", answer.status_code, answer.content, answer.reason)


def session(ca: Path, cert: tuple[Path, Path] | None = None) -> requests.Session:
    """A session that trusts `ca` alone, whatever the environment says."""
    session = requests.Session()
    session.trust_env = False  # REQUESTS_CA_BUNDLE would override `verify`
    session.verify = str(ca)
    session.cert = (str(cert[0]), str(cert[1])) if cert else None
    return session


def unready(url: str, ca: Path, cert: tuple[Path, Path] | None = None) -> Callable[[], str | None]:
    """A function that returns why `url` does not answer 2xx, None if it does."""
    client = session(ca, cert)

    def look() -> str | None:
        try:
            answer = client.get(url, timeout=_LOOK)
        except requests.RequestException as error:
            return reason(error)
        return (
            None
            if answer.ok
            else f"{url} answers {answer.status_code}: {answer.text.strip()[:500]}"
        )

    return look


def deaf(url: str) -> Callable[[], str | None]:
    """A function that returns why nothing listens at tcp://HOST:PORT, None if something does."""
    address = urlsplit(url)

    def look() -> str | None:
        try:
            socket.create_connection((address.hostname, address.port), _LOOK).close()
        except OSError as error:
            return str(error)
        return None

    return look


def reason(error: requests.RequestException) -> str:
    """The cause in a few words, without the layers of retries around it."""
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return f"its certificate is not trusted: {error}"
    return "no connection" if isinstance(error, requests.ConnectionError) else str(error)
