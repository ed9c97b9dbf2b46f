"""Waits until every server that mounts the certificate uses the new one, and restarts pods where
needed."""

from __future__ import annotations

import json
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import urllib3

from fairlead.common import waiting
from fairlead.common.digests import digest
from fairlead.common.errors import FairleadError
from fairlead.deployment.credentials import SERVICE_NAMES, Tls
from fairlead.deployment.names import CAS_ANNOTATION, NAMESPACE, OPA_PODS
from fairlead.kube.api_requests import MERGE, ApiRequests
from fairlead.opa.containers import OPA_PORT, SYNC_PORT

log = logging.getLogger(__name__)

DEADLINE = 180.0
"""Seconds that a step may take on all servers. A kubelet refreshes a mounted Secret within a minute
or two."""

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/opa"
_PATIENCE = 5.0  # seconds to connect, and for each read
_Address = tuple[str, int]


@dataclass(frozen=True)
class Server:
    """One server. `reports_ca` is true for a sidecar, whose /health names the CA that it uses.

    A server that is not `ready` serves nobody. It is waited for like the others, but does not make
    the step fail after DEADLINE.
    """

    host: str
    port: int
    reports_ca: bool
    ready: bool = True


def named(opas: Sequence[_Address], sidecars: Sequence[_Address]) -> Callable[[], list[Server]]:
    """A function that lists these servers, which are not pods."""
    servers = [Server(*at, reports_ca=False) for at in opas] + [
        Server(*at, reports_ca=True) for at in sidecars
    ]
    return lambda: servers


def pods(api: ApiRequests) -> Callable[[], list[Server]]:
    """A function that lists the servers in OPA's pods at the time of the call. It raises
    ApiServerError if the pods cannot be listed.
    """
    return lambda: [
        server
        for pod in api.collection(_PODS, {"labelSelector": OPA_PODS})
        for server in of_pod(pod)
    ]


def of_pod(pod: Mapping[str, Any]) -> list[Server]:
    """The servers of a pod. A pod that has ended, is being deleted, or has not started has none:
    one that starts later mounts the Secret of that time.
    """
    status = pod.get("status") or {}
    address = status.get("podIP")
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") != "Running" or not address:
        return []
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    containers = {container["name"] for container in pod["spec"]["containers"]}
    sidecar = (
        [Server(address, SYNC_PORT, reports_ca=True, ready=ready)] if "sync" in containers else []
    )
    return [Server(address, OPA_PORT, reports_ca=False, ready=ready), *sidecar]


class Serving:
    """The servers that `listed` returns; see renewal.Servers. The cluster itself brings the Secret
    to where they read it.
    """

    def __init__(self, list_servers: Callable[[], list[Server]], *, pause: float = 1.0) -> None:
        self._listed = list_servers
        self._pause = pause
        self._cas = b""

    def bring(self, tls: Tls) -> None:
        self._cas = tls.ca

    def trust(self, cas: bytes) -> bool:
        expected = digest(cas)
        self._every(
            lambda server: not server.reports_ca or self._trusted_digest(server) == expected,
            "uses the new CA",
        )
        return False

    def serve(self, certificate: bytes) -> None:
        leaf = ssl.PEM_cert_to_DER_cert(certificate.decode())
        self._every(
            lambda server: shown(server.host, server.port) == leaf,
            "serves with the new certificate",
        )

    def _every(self, holds: Callable[[Server], bool], expectation: str) -> None:
        late: list[tuple[Server, str]] = []

        def everyone() -> bool:
            whys = [(server, _failure(partial(holds, server))) for server in self._listed()]
            late[:] = [(server, reason) for server, reason in whys if reason is not None]
            return not late

        try:
            waiting.until(
                everyone, deadline=DEADLINE, what=f"every server {expectation}", pause=self._pause
            )
        except FairleadError as error:
            waiting_for = ", ".join(
                f"{server.host}:{server.port}{reason}" for server, reason in late
            )
            if not late or any(server.ready for server, _ in late):
                raise FairleadError(
                    f"{error}: {waiting_for}" if waiting_for else str(error)
                ) from error
            log.warning(
                "no longer waiting until every server %s: these are not Ready: %s",
                expectation,
                waiting_for,
            )

    def _trusted_digest(self, server: Server) -> Any:
        """The digest of the CA file that a sidecar reports to use. Raises FairleadError if it does
        not answer.
        """
        return health(server.host, server.port, self._cas).get("ca")


class Rolled(Serving):
    """The servers beside a sidecar that reads the CA only at its start, so that a new CA needs new
    pods.
    """

    def __init__(
        self, api: ApiRequests, list_servers: Callable[[], list[Server]], *, manager: str
    ) -> None:
        super().__init__(list_servers)
        self._api = api
        self._manager = manager

    def trust(self, cas: bytes) -> bool:
        """Replace the pods, unless they were started with these `cas`."""
        annotations = {CAS_ANNOTATION: digest(cas)}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        self._api.call("PATCH", _DEPLOYMENT, patch, manager=self._manager, content_type=MERGE)
        waiting.until(
            self._rolled_out,
            deadline=DEADLINE,
            what="every pod of OPA was replaced",
            pause=self._pause,
        )
        return True

    def _rolled_out(self) -> bool:
        deployment = self._api.call("GET", _DEPLOYMENT)
        status, replicas = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
        if (status.get("observedGeneration") or 0) < deployment["metadata"]["generation"]:
            return False
        return all(
            (status.get(count) or 0) == replicas
            for count in ("replicas", "updatedReplicas", "availableReplicas")
        )


def shown(host: str, port: int) -> bytes | None:
    """The certificate (DER) that a server shows. Raises FairleadError if it shows none."""
    context = ssl.create_default_context()
    # No verification, because the caller compares the whole certificate.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _PATIENCE) as raw,
            context.wrap_socket(raw, server_hostname=host) as secure,
        ):
            return secure.getpeercert(binary_form=True)
    except OSError as error:
        raise FairleadError(f"{host}:{port}: {error}") from error


def health(host: str, port: int, cas: bytes) -> dict[str, Any]:
    """The answer of a sidecar's /health. The sidecar is verified by `cas` (PEM). Raises
    FairleadError if it does not answer.
    """
    name = SERVICE_NAMES[2]  # certificates do not have the addresses of pods
    try:
        context = ssl.create_default_context(cadata=cas.decode())
        with urllib3.HTTPSConnectionPool(
            host,
            port,
            ssl_context=context,
            server_hostname=name,
            assert_hostname=name,
            timeout=_PATIENCE,
            retries=False,
        ) as pool:
            return dict(json.loads(pool.request("GET", "/health").data))
    except (urllib3.exceptions.HTTPError, OSError, ValueError, TypeError) as error:
        raise FairleadError(f"{host}:{port}: {error}") from error


def _failure(holds: Callable[[], bool]) -> str | None:
    """None if `holds` returns true; otherwise the reason, empty if unknown."""
    try:
        return None if holds() else ""
    except FairleadError as error:
        return f" ({error})"
