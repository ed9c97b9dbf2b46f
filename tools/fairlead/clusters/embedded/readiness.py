"""Looks whether a server that was started is ready."""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from fairlead.clusters.embedded import probe

_TIMEOUT = 2.0


def look(url: str, ca: Path, cert: tuple[Path, Path] | None = None) -> Callable[[], str | None]:
    """A function that returns why the server is not ready; None if it is.

    It is ready once something listens at a tcp `url`, or an https one answers 2xx. The server is
    verified by `ca`; `cert` are the certificate and the key of the client.
    """
    if url.startswith("tcp:"):
        return functools.partial(_deaf, url)
    context = ssl.create_default_context(cafile=ca)
    if cert:
        context.load_cert_chain(*cert)
    return functools.partial(probe.failure, url, _TIMEOUT, context)


def _deaf(url: str) -> str | None:
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port), _TIMEOUT).close()
    except OSError as error:
        return str(error)
    return None
