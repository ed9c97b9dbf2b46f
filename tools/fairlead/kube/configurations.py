"""Loads the address and the credentials of an API server, from a kubeconfig or from the pod that
this process runs in."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes import config
from kubernetes.client import Configuration

from fairlead.common.errors import InputError, UsageError
from fairlead.kube.kubeconfig_copies import origin


def load(kubeconfig: Path | None) -> Configuration:
    """The address and credentials of `kubeconfig`, or of the pod that this process runs in.

    Tokens that are refreshed on the way are written back into the file, unless it is mounted
    read-only. Raises UsageError, for a file InputError, also if its exec plugin gives no
    credentials.
    """
    loaded = Configuration()
    token_file: Path | None = None
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=loaded)
        else:
            token_file = _load_file(kubeconfig, loaded)
    except (
        config.ConfigException,
        yaml.YAMLError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        problem = " ".join(str(error).split())
        if kubeconfig is None:
            raise UsageError(
                f"not in a pod of a cluster ({problem}): name a kubeconfig with --kubeconfig"
            ) from error
        raise InputError(
            origin(kubeconfig, "contexts"),
            f"is not a usable kubeconfig ({problem}): name another file",
        ) from error
    if token_file:
        token = _Token(token_file)
        token(loaded)
        loaded.refresh_api_key_hook = token  # type: ignore[assignment]  # kubernetes leaves it untyped
    if _loopback(loaded.host):
        loaded.proxy = None
    loaded.keep_alive = True
    loaded.connection_pool_maxsize = 32
    return loaded


def _load_file(kubeconfig: Path, loaded: Configuration) -> Path | None:
    """Load the kubeconfig into `loaded`; returns the file with the token of its user, if any."""
    with _logged_errors() as problems:
        config.load_kube_config(
            str(kubeconfig),
            client_configuration=loaded,
            persist_config=os.access(kubeconfig, os.W_OK),
        )
    user = _user(kubeconfig)
    if user.get("exec") and problems:
        # The package would go on, and send requests in nobody's name.
        raise InputError(
            origin(kubeconfig, "users"),
            f"the exec plugin {user['exec'].get('command')!r} gives no credentials "
            f"({'; '.join(problems)}): see whether it is installed and signed in, or name another "
            "context",
        )
    return kubeconfig.parent / user["tokenFile"] if user.get("tokenFile") else None


class _Token:
    """Reads the token file of a kubeconfig at every request: the file is replaced long before the
    token expires. The package reads it once; in a pod, it reads the token again every minute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, configuration: Configuration) -> None:
        with suppress(OSError, UnicodeDecodeError):
            if token := self._path.read_text().strip():
                configuration.api_key["BearerToken"] = f"Bearer {token}"


def _user(kubeconfig: Path) -> dict[str, Any]:
    """The user of the current context. Its tokenFile takes precedence over its token, as for
    kubectl.
    """
    document = yaml.safe_load(kubeconfig.read_text())
    contexts = {entry["name"]: entry.get("context") for entry in document.get("contexts") or ()}
    users = {entry["name"]: entry.get("user") or {} for entry in document.get("users") or ()}
    return users.get(contexts[document["current-context"]].get("user"), {})


@contextmanager
def _logged_errors() -> Iterator[list[str]]:
    """What the package logs as errors while the block runs, instead of printing it."""
    messages: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield messages
    finally:
        root.removeHandler(handler)


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
