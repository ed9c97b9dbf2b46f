"""The whole sidecar: starts and stops the threads that watch, reconcile, report and serve."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import DATA_LABEL, NAMESPACE, POLICY_LABEL
from fairlead.kube import live_namespaces
from fairlead.kube.api_requests import BRIEF, MOST, SMALL_PAGE, ApiRequests
from fairlead.kube.resources import Resource
from fairlead.opa.api import OpaApi
from fairlead.sync import room
from fairlead.sync.decision_uploads import Decisions
from fairlead.sync.desired import Desired, Source
from fairlead.sync.hung_threads import ThreadProgress
from fairlead.sync.metrics import Metrics, not_after
from fairlead.sync.opa_credentials import OpaCredentials
from fairlead.sync.reconcile import Reconciler, rfc3339
from fairlead.sync.refusals import SYSTEM
from fairlead.sync.server import Server
from fairlead.sync.server_certificates import Certificate
from fairlead.sync.statuses import StatusWriter, replica
from fairlead.sync.watches import Watch, seconds

log = logging.getLogger(__name__)

_LAG = 2.0  # seconds that a change may take to reach OPA before the sidecar is unhealthy
_STALE = 5.0  # seconds without an answer from OPA after which the sidecar is unhealthy
_RECONCILE, _STATUS = "reconcile", "status"  # names of threads
_LOOKS = 2  # lookups of one namespace: an event may be faster than the first answer
_SHOWN = 3  # names of objects that are left out
_ENDING = 3.0  # seconds at the end to remove the status of this replica


@dataclass(frozen=True)
class Options:
    """The options of a sidecar; each field is a flag of `fairlead sync`.

    `resources` are replicated besides namespaces. `system` is the only ConfigMap
    (<namespace>/<configmap>) whose policies may define the package system, None for any. `replica`
    is a name that no other replica has. `health_endpoint` is host:port, None for no server.
    `log_decisions` gets each decision that OPA uploads as a line of JSON; None drops them.
    `max_staleness` is the number of seconds that OPA stays Ready with unconfirmed data, None for
    ever.
    """

    kubeconfig: Path | None = None
    opa_url: str = "https://127.0.0.1:8181"
    opa_ca_file: Path | None = None
    opa_auth_token_file: Path | None = None
    namespace_selector: str = ""
    namespace_labels: tuple[str, ...] = ("agentpool",)
    resources: tuple[Resource, ...] = ()
    system: str | None = SYSTEM
    replica: str = field(default_factory=lambda: replica(socket.gethostname()))
    health_endpoint: str | None = None
    log_decisions: Callable[[str], None] | None = None
    certificate: tuple[Path, Path] | None = None
    max_staleness: int | None = None


class Sidecar:
    """One sidecar. Its parts share only the desired state."""

    def __init__(self, options: Options) -> None:
        """Read the files of `options` and start to listen, without any request yet. Raises
        UsageError if an option is unusable.
        """
        self._replica = options.replica
        self._metrics = Metrics()
        selectors = _sources(options)
        self._threads = ThreadProgress([*map(str, selectors), _RECONCILE, _STATUS])
        turn = self._threads.turn
        self._api = ApiRequests(options.kubeconfig, timeout=BRIEF, turn=turn)
        self._of_users = ApiRequests(
            options.kubeconfig, timeout=BRIEF, page=SMALL_PAGE, most=MOST, turn=turn
        )
        self._opa = OpaCredentials(
            options.opa_url, options.opa_ca_file, options.opa_auth_token_file, self._threads.turn
        )
        self._desired = Desired(selectors, namespace_labels=options.namespace_labels)
        self._watches = [
            Watch(
                self._api if source.namespace == NAMESPACE else self._of_users,
                source,
                selector,
                self._desired,
                self._metrics,
                seconds=seconds(options.max_staleness),
                again=partial(self._desired.left_out, source),
            )
            for source, selector in selectors.items()
        ]
        for watch in self._watches:
            self._metrics.left_out.labels(str(watch.source)).set_function(
                partial(self._count_left_out, watch)
            )
        self._status = StatusWriter(self._api, self._desired, self._metrics, options.replica)
        self._reconciler = Reconciler(
            self._desired,
            self._connect,
            self._status.report,
            self._metrics,
            confirmed=self._confirmed,
            max_staleness=options.max_staleness,
            resources=options.resources,
            system=options.system,
        )
        self._metrics.lag.set_function(self._reconciler.lag)
        self._metrics.confirmed.set_function(lambda: (self._reconciler.confirmed or 0) / 1e9)
        self._server: Server | None = None
        self._certificate: Certificate | None = None
        if options.health_endpoint and options.certificate:
            self._certificate = Certificate(*options.certificate)
            not_after(self._metrics.registry, self._certificate.not_after)
            self._server = Server(
                options.health_endpoint,
                self._certificate,
                health=self.health,
                live=self.live,
                metrics=self._metrics.registry,
                look_up=self.look_up,
                decisions=Decisions(self._metrics, options.log_decisions),
                accepts=self._opa.accepts,
            )

    def run(self, stop: Event) -> None:
        """Work until `stop` is set or the process is interrupted."""
        turn = self._threads.turn
        for watch in self._watches:
            Thread(target=watch.run, args=(stop, turn), name=str(watch.source), daemon=True).start()
        Thread(target=self._reconciler.run, args=(stop, turn), name=_RECONCILE, daemon=True).start()
        status = Thread(target=self._status.run, args=(stop, turn), name=_STATUS, daemon=True)
        status.start()
        if self._server:
            Thread(
                target=self._server.serve_forever, args=(0.2,), name="server", daemon=True
            ).start()
            log.info("serving at %s:%d", *self._server.server_address[:2])
        try:
            stop.wait()
        finally:
            stop.set()
            self._desired.changed.set()
            self._status.wake()
            if self._server:
                self._server.shutdown()
                self._server.server_close()
            status.join(_ENDING)

    def live(self) -> dict[str, Any]:
        """{"live", "hung"}: whether all threads make progress, and which do not. A live sidecar may
        still be unhealthy.
        """
        hung = self._threads.hung()
        return {"live": not hung, "hung": hung}

    def health(self) -> dict[str, Any]:
        """{"healthy", "reasons", "rejected", "leftOut", "confirmed", "replica", "token", "ca",
        "certificate"}.

        The sidecar is healthy if OPA holds the current state of the cluster; otherwise "reasons"
        say why not. Rejected policies do not count: their previous text stays in force, and their
        ConfigMap shows the error. "leftOut" are sentences about objects that OPA does not get, as
        they are too large or too many. "confirmed" is the time up to which OPA is known to hold
        everything (RFC 3339), None before the first. The last three are digests (12 hex digits of
        the SHA-256) of the token and the CA file in use for OPA, and of the certificate file that
        this server uses.
        """
        reconciler = self._reconciler
        reasons = [watch.trouble for watch in self._watches]
        reasons += [self._opa.trouble, reconciler.trouble]
        if reconciler.trouble is None:
            reasons += self._late()
        troubles = [reason for reason in reasons if reason]
        return {
            "healthy": not troubles,
            "reasons": troubles,
            "rejected": list(reconciler.rejected),
            "leftOut": list(self._left_out()),
            "confirmed": rfc3339(reconciler.confirmed) if reconciler.confirmed else None,
            "replica": self._replica,
            **self._opa.digests,
            "certificate": self._certificate.digest if self._certificate else None,
        }

    def _confirmed(self) -> float | None:
        """The time up to which the whole state of the cluster is known, which is that of the source
        that was confirmed longest ago; None until all were listed.
        """
        times = [watch.confirmed for watch in self._watches]
        confirmed = [time for time in times if time is not None]
        return min(confirmed) if len(confirmed) == len(times) else None

    def _names_left_out(self, watch: Watch) -> list[str]:
        keys = self._desired.left_out(watch.source)
        return sorted({*watch.left_out, *map(room.named, keys)})

    def _count_left_out(self, watch: Watch) -> float:
        return len(self._names_left_out(watch))

    def _left_out(self) -> Iterator[str]:
        for watch in self._watches:
            if names := self._names_left_out(watch):
                number = texts.counted(len(names), "object")
                yield f"{watch.source}: {number} ({texts.first(names, _SHOWN)})"

    def _late(self) -> list[str]:
        """The reasons to call the sidecar unhealthy that are a matter of time."""
        late = []
        if (lag := self._reconciler.lag()) > _LAG:
            late.append(f"changes from {lag:.0f} s ago are not loaded yet")
        if time.monotonic() - self._reconciler.looked > _STALE:
            late.append(f"OPA has not been asked for {_STALE:.0f} s")
        return late

    def look_up(self, name: str) -> dict[str, Any] | None:
        """A namespace's name, its labels, and the annotations that OPA gets, as the API server has
        them at this moment; None if there is no such namespace.

        The answer never comes from memory, because OPA asks only if its data may be out of date.
        After an answer, OPA never gets an older state of the namespace. Raises FairleadError if the
        API server cannot be reached, or while a different state is on its way to OPA.
        """
        for _ in range(_LOOKS):
            live = live_namespaces.look_up(self._of_users, name)
            if live is None:
                return None
            if self._desired.looked_up(name, live):
                annotations = self._desired.replicated(live.annotations)
                return {
                    "metadata": {
                        "name": name,
                        "labels": dict(live.labels),
                        "annotations": annotations,
                    }
                }
        raise FairleadError(f"namespace {name!r} is changing at this moment: ask again")

    def _connect(self) -> OpaApi:
        return self._opa.client()


def _sources(options: Options) -> dict[Source, Mapping[str, str]]:
    """The sources to watch, each with its selectors."""
    sources: dict[Source, Mapping[str, str]] = {
        Source("namespaces"): {"labelSelector": options.namespace_selector},
        Source("policies", NAMESPACE): {"labelSelector": "=".join(POLICY_LABEL)},
        Source("data", NAMESPACE): {"labelSelector": "=".join(DATA_LABEL)},
    }
    for resource in options.resources:
        sources[Source("objects", resource=resource)] = {}
    return sources
