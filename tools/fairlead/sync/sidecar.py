"""The sidecar as a whole: starts what watches, reconciles, reports and serves, and ends with them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fairlead.opa_api import OpaApi
from fairlead.sync.apiserver import ApiServer
from fairlead.sync.credentials import OpaCredentials
from fairlead.sync.desired import Desired, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.reconcile import Reconciler, thin
from fairlead.sync.server import Certificate, Server
from fairlead.sync.status import StatusWriter
from fairlead.sync.watch import Watch

log = logging.getLogger(__name__)

_LAG = 2.0  # seconds in which a change may be on its way to OPA
_STALE = 5.0  # seconds without an answer from OPA after which nothing is certain


@dataclass(frozen=True)
class Options:
    """What a sidecar needs to know; each field is a flag of `fairlead sync`.

    `policy` and `data` are the (label, value) of ConfigMaps with policies and with data, None where not wanted.
    `namespaces` are where ConfigMaps are read, ("*",) for all. `health_endpoint` is host:port, None for no server.
    """

    kubeconfig: Path | None = None
    opa_url: str = "https://127.0.0.1:8443"
    opa_ca_file: Path | None = None
    opa_auth_token_file: Path | None = None
    policy: tuple[str, str] | None = ("openpolicyagent.org/policy", "rego")
    data: tuple[str, str] | None = ("openpolicyagent.org/data", "opa")
    namespaces: tuple[str, ...] = ("fairlead",)
    replicate_path: tuple[str, ...] = ("kubernetes",)
    namespace_selector: str = ""
    namespace_labels: tuple[str, ...] = ("agentpool",)
    health_endpoint: str | None = None
    certificate: tuple[Path, Path] | None = None


class Sidecar:
    """One sidecar; made of parts that know nothing of each other but the desired state."""

    def __init__(self, options: Options) -> None:
        """Read the files that `options` name and listen; ask nobody yet. Raises UsageError."""
        self._metrics = Metrics()
        self._api = ApiServer(options.kubeconfig)
        self._opa = OpaCredentials(options.opa_url, options.opa_ca_file, options.opa_auth_token_file)
        selectors = _sources(options)
        self._desired = Desired(selectors, namespace_labels=options.namespace_labels, data_label=options.data)
        self._watches = [
            Watch(self._api, source, selector, self._desired, self._metrics) for source, selector in selectors.items()
        ]
        self._status = StatusWriter(self._api, self._desired, self._metrics)
        self._reconciler = Reconciler(
            self._desired, self._connect, self._status.report, self._metrics, replicate_path=options.replicate_path
        )
        self._metrics.lag(self._reconciler.lag)
        self._server: Server | None = None
        if options.health_endpoint and options.certificate:
            self._server = Server(
                options.health_endpoint,
                Certificate(*options.certificate),
                health=self.health,
                metrics=self._metrics,
                look_up=self.look_up,
            )

    def run(self, stop: Event) -> None:
        """Work until `stop` is set or the process is interrupted."""
        loops: list[tuple[str, Callable[[Event], None]]] = [(str(watch), watch.run) for watch in self._watches]
        loops += [("reconcile", self._reconciler.run), ("status", self._status.run)]
        for name, loop in loops:
            Thread(target=loop, args=(stop,), name=name, daemon=True).start()
        if self._server:
            Thread(target=self._server.serve_forever, args=(0.2,), name="server", daemon=True).start()
            log.info("serving at %s:%d", *self._server.server_address[:2])
        try:
            stop.wait()
        finally:
            stop.set()
            self._desired.changed.set()
            if self._server:
                self._server.shutdown()
                self._server.server_close()

    def health(self) -> dict[str, Any]:
        """{"healthy", "reasons", "rejected"}: whether OPA holds all that the cluster says, now, and if not why.

        What OPA rejected is no reason: it goes on with what was in force before, and the ConfigMap says what is wrong.
        """
        reconciler = self._reconciler
        reasons = [watch.trouble for watch in self._watches]
        reasons += [self._opa.trouble, reconciler.trouble]
        if reconciler.trouble is None:
            reasons += self._late()
        told = [reason for reason in reasons if reason]
        return {"healthy": not told, "reasons": told, "rejected": list(reconciler.rejected)}

    def _late(self) -> list[str]:
        """What takes longer than it should."""
        late = []
        if (lag := self._reconciler.lag()) > _LAG:
            late.append(f"changes of {lag:.0f} s ago are not loaded yet")
        if time.monotonic() - self._reconciler.looked > _STALE:
            late.append(f"OPA has not been asked for {_STALE:.0f} s")
        return late

    def look_up(self, name: str) -> dict[str, Any] | None:
        """A namespace as OPA gets it: from memory, or where that has none, from the API server at this moment.

        Raises FairleadError where the API server cannot be asked.
        """
        labels = self._desired.namespace(name)
        if labels is None:
            found = self._api.namespace(name)
            if found is None:
                return None
            labels = self._desired.thin(found)
        return thin(name, labels)

    def _connect(self) -> OpaApi:
        return self._opa.client()


def _sources(options: Options) -> dict[Source, str]:
    """What to watch, and by which label selector."""
    found = {Source("namespaces"): options.namespace_selector}
    everywhere = "*" in options.namespaces
    for namespace in (None,) if everywhere else options.namespaces:
        if options.policy:
            found[Source("policies", namespace)] = "=".join(options.policy)
        if options.data:
            found[Source("data", namespace)] = "=".join(options.data)
    return found
