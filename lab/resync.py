"""Has the only OPA of an embedded cluster and its sidecar get everything anew."""

from __future__ import annotations

import signal
import time

from fairlead.clusters.embedded import process_list
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
from fairlead.deployment import sidecars
from fairlead.deployment.names import OPA_ENGINE
from fairlead.opa.api import OpaApi
from fairlead.operations import deployed_state

_SERVERS = (OPA_ENGINE, sidecars.SYNC.name)


def opa(cluster: EmbeddedCluster) -> OpaApi:
    """A client of the only OPA, with the token that is deployed."""
    credentials = deployed_state.credentials(cluster.objects())
    (server,) = cluster.opas()
    token = credentials.token if credentials else None
    return OpaApi(server.url, ca=server.ca, token=token, timeout=30.0)


def namespaces(api: OpaApi) -> int:
    """The number of namespaces that OPA holds. Raises FairleadError if it does not answer."""
    return len(api.keys(["kubernetes", "namespaces"]))


class Resync:
    """Both servers, killed by the constructor, so that the sidecar lists everything in the API
    server again, and loads it into an empty OPA. The supervisor starts them. `began` is a time of
    the monotonic clock.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._opa = opa(cluster)
        self._before = {name: cluster.servers()[name] for name in _SERVERS}
        self.began = time.monotonic()
        for name, server in self._before.items():
            if not process_list.send(server["pid"], server["started"], signal.SIGKILL):
                raise FairleadError(f"{name} does not run: see its log, {server['log']}")

    def done(self, mapped: int) -> bool:
        """Whether both servers are new ones, and OPA is ready with so many namespaces. Raises
        FairleadError while OPA does not answer.
        """
        now = self._cluster.servers()
        again = all(
            now[name]["started"] not in (None, before["started"])
            for name, before in self._before.items()
        )
        return again and self._opa.ready() and namespaces(self._opa) == mapped
