"""Loads the address and credentials of an API server, and sends requests for the other clients in
this package."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME

from fairlead.common.errors import InputError, UsageError
from fairlead.kube.errors import ApiServerError, Unreachable


def configuration(kubeconfig: Path | None, *, persist: bool = True) -> Configuration:
    """The address and credentials of `kubeconfig`, or of the pod that this process runs in.

    With `persist`, tokens that were refreshed on the way are written back into the file. Raises
    UsageError, for a file InputError.
    """
    loaded = Configuration()
    token_file: Path | None = None
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=loaded)
            token_file = Path(SERVICE_TOKEN_FILENAME)
        else:
            config.load_kube_config(
                str(kubeconfig), client_configuration=loaded, persist_config=persist
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
            kubeconfig, f"is no usable kubeconfig ({problem}): name another file"
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


def send(
    api: ApiClient,
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | bytes | None = None,
    timeout: urllib3.Timeout,
) -> urllib3.BaseHTTPResponse:
    """The answer to one request, whatever its status; its body is read only when asked for.

    Never retries. Raises ApiServerError: Unreachable, or for credentials that cannot be sent.
    """
    url = f"{api.configuration.host}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    authorized: MutableMapping[str, str] = urllib3.HTTPHeaderDict(headers)
    try:
        api.update_params_for_auth(authorized, [], ["BearerToken"], path, method, body)
        answer: urllib3.BaseHTTPResponse = api.rest_client.pool_manager.request(
            method,
            url,
            headers=authorized,
            body=body,
            timeout=timeout,
            retries=False,
            preload_content=False,
        )
    except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
        raise Unreachable(f"{method} {path}", error) from error
    except ValueError:  # the text of http.client's error holds the token
        raise ApiServerError(
            "the credentials hold characters that no HTTP header can carry"
        ) from None
    return answer


class _Token:
    """Reads a token file at every request: kubelets and controllers replace it long before it
    expires.
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
