"""Loads the address and the credentials of an API server, from a kubeconfig or from the pod that
this process runs in."""

from __future__ import annotations

import os
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from kubernetes import config
from kubernetes.client import Configuration

from fairlead.common.errors import InputError, UsageError


def load(kubeconfig: Path | None) -> Configuration:
    """The address and credentials of `kubeconfig`, or of the pod that this process runs in.

    Tokens that are refreshed on the way are written back into the file, unless it is mounted
    read-only. Raises UsageError, for a file InputError.
    """
    loaded = Configuration()
    token_file: Path | None = None
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=loaded)
        else:
            config.load_kube_config(
                str(kubeconfig),
                client_configuration=loaded,
                persist_config=os.access(kubeconfig, os.W_OK),
            )
            token_file = _token_file(kubeconfig)
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
            kubeconfig, f"is not a usable kubeconfig ({problem}): name another file"
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


def _token_file(kubeconfig: Path) -> Path | None:
    """The tokenFile of the current context's user, which takes precedence over the token, as for
    kubectl.
    """
    document = yaml.safe_load(kubeconfig.read_text())
    contexts = {entry["name"]: entry.get("context") for entry in document.get("contexts") or ()}
    users = {entry["name"]: entry.get("user") or {} for entry in document.get("users") or ()}
    token_file = users.get(contexts[document["current-context"]].get("user"), {}).get("tokenFile")
    return kubeconfig.parent / token_file if token_file else None


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
