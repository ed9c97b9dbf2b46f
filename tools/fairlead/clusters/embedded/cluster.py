"""The embedded cluster: a bare cluster, with OPAs and their sidecars as processes
beside its control plane."""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.clusters import joined_logs
from fairlead.clusters.base import OpaServer, Server
from fairlead.clusters.embedded import (
    balancer,
    controller_server,
    kubelet,
    mounts,
    ports,
    replica_plan,
)
from fairlead.clusters.embedded.remembering import RememberingCluster
from fairlead.clusters.embedded.replica_plan import BALANCER, KINDS, Replica
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import component_flags as flags
from fairlead.deployment import controller, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    ACCESS,
    ACCESS_ENDS,
    CONTROLLER,
    NAMESPACE,
    PYTHON_ENGINE,
    TLS_SECRET,
    TOKEN_SECRET,
)
from fairlead.deployment.sidecars import Sidecar
from fairlead.opa import containers
from fairlead.policy import bundles
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

KUBELET = "kubelet"
_SERVE = sidecars.SERVE.name

_LOOK = 0.2
"""Seconds between two reads of a log that is followed."""


class EmbeddedCluster(RememberingCluster):
    """An embedded cluster with OPA; see fairlead.clusters.base.Cluster.

    API servers call a single OPA themselves. Several OPAs are behind a balancer, which routes to
    those that are Ready. With the engine `python`, they call one server at a port of its own, so
    that OPA and the server run side by side while one takes over from the other.
    """

    examined = False
    usual = sidecars.DEFAULT

    def webhook_url(self, sidecar: Sidecar) -> str:
        """The URL of OPA, of the balancer if there are several, or of the server in Python."""
        plan = self._plan()
        port = plan[BALANCER] or plan["ports"][0][0]
        if sidecar.engine == PYTHON_ENGINE:
            port = self._port_of(_SERVE)
        return f"https://{ports.HOST}:{port}/"

    def controller_url(self) -> str:
        """The URL of the controller."""
        return f"https://{self._controller_server(CONTROLLER).address}"

    def _port_of(self, server: str) -> int:
        """The port of a server that not every cluster has."""
        plan = self._plan()
        if server not in plan:
            (plan[server],) = self.free_ports(1)
            self._remember("pods", plan)
        return int(plan[server])

    @property
    def sidecar(self) -> Sidecar:
        """The kind that was chosen, else the default of embedded clusters."""
        plan = self._remembered("pods") or {}
        return sidecars.SIDECARS[plan.get("sidecar", self.usual.name)]

    def choose(self, sidecar: Sidecar) -> None:
        """Use this kind of sidecar from the next `serve` on. Raises UsageError if its program
        is not available.
        """
        sidecar.command()
        self._remember("pods", {**self._plan(), "sidecar": sidecar.name})

    def planned(self) -> bool:
        """Whether OPAs run beside this cluster, or are about to."""
        return self._remembered("pods") is not None

    def scale(self, count: int) -> None:
        """Use `count` OPAs, each with its sidecar. It has to come before the first `serve`,
        as the webhook's address depends on it.
        """
        self._remember("pods", self._planned(count))

    def serve(self, policies: PolicySet, credentials: Credentials, *, progress: Progress) -> None:
        """Write the Secrets to where the pods would have them mounted, and start what does not run
        with its present arguments.

        Servers whose arguments changed are restarted, one replica after the other.
        """
        modules = bundles.file_modules([credentials.token], credentials.scoped)
        token = {"token": credentials.token.encode()} | {
            name: text.encode() for name, text in modules.items()
        }
        settings = policies.settings
        replicas, service = self._replicas(), settings.decision_logs.service
        logs = service.secret if service else None
        secret = self._secret(logs) if logs else None
        self._mount(settings, progress)
        self.refresh({TOKEN_SECRET: token, TLS_SECRET: credentials.tls.files})
        if secret is not None:
            mounts.wait_for(
                ((Path(replica.files.logs), secret) for replica in replicas), f"Secret {logs}"
            )
        for replica in replicas:
            if self._in_python:
                self._serve_in_python(replica, policies, progress)
            else:
                self._serve(replica, policies, progress)
        self._serve_controller(settings, progress)
        if len(replicas) > 1:
            backends = [
                f"{replica.opa}={replica.address}={replica.files.ca}" for replica in replicas
            ]
            listen = self.webhook_url(self.sidecar).removeprefix("https://").rstrip("/")
            argv = [sys.executable, "-P", "-m", balancer.__name__, listen, *backends]
            self._run(BALANCER, argv, progress, ready=f"tcp://{listen}")

    def opas(self) -> Sequence[OpaServer]:
        """Every OPA that was started."""
        running = self.servers()
        return [
            OpaServer(
                replica.opa_url(),
                replica.ca,
                running[replica.opa]["pid"],
                replica.opa,
                self.sidecar.engine,
            )
            for replica in self._replicas()
            if replica.opa in running
        ]

    def sidecars(self) -> Sequence[Server]:
        """Every sidecar that was started and reports its health."""
        running = self.servers()
        return [
            Server(
                f"https://{replica.sidecar_address}",
                replica.ca,
                running[replica.sidecar]["pid"],
                replica.opa,
            )
            for replica in self._replicas()
            if replica.sidecar in running and self.sidecar.look_up
        ]

    def controllers(self) -> Sequence[Server]:
        """The controller, if it was started."""
        running = self.servers()
        if CONTROLLER not in running:
            return []
        pid = running[CONTROLLER]["pid"]
        return [Server(self.controller_url(), self._replicas()[0].ca, pid, CONTROLLER)]

    def refresh(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """See fairlead.clusters.base.Cluster. Raises OSError."""
        if KUBELET not in self.servers():
            return  # nothing runs that has a Secret mounted
        for replica in self._replicas():
            mounted = [
                (
                    Path(mount.folder),
                    {
                        key: secrets[mount.secret][key]
                        for key in mount.keys or secrets[mount.secret]
                    },
                )
                for mount in mounts.volumes(replica.files, None)
                if mount.secret in secrets
            ]
            mounts.wait_for(mounted, f"the Secrets of {replica.opa}")
            if replica.sidecar in self.servers() and not self.sidecar.rereads:
                if self._remembered(f"{replica.sidecar}-read") != mounts.read_once(replica.files):
                    self.restart_server(replica.sidecar)
                self._remember(f"{replica.sidecar}-read", mounts.read_once(replica.files))

    def restart(self, *, progress: Progress) -> None:
        """See fairlead.clusters.base.Cluster."""
        for replica in self._replicas():
            progress.update(replica.opa, "restarting")
            if self._in_python:
                self.restart_server(replica.opa)
                self.wait_for(replica.opa, replica.opa_url("/health/ready"), replica.ca)
                progress.finish(replica.opa, "restarted")
                continue
            self.restart_server(replica.opa)
            self.restart_server(replica.sidecar)
            self.wait_for(replica.opa, replica.opa_url("/health/ready"), replica.ca)
            progress.finish(replica.opa, "restarted")

    def logs(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """See fairlead.clusters.base.Cluster."""
        names = list(self.servers())
        servers = (
            [getattr(replica, server) for replica in self._replicas()]
            if server in KINDS
            else [CONTROLLER if server == "controller" else server]
        )
        for name in servers:
            if name not in names:
                raise UsageError(
                    f"no server {server!r} in cluster {self.name!r}: one of {', '.join(names)}"
                )
            if not self.log(name).exists():
                raise UsageError(f"{self.log(name)}: there is no log of {name} any more")
        return joined_logs.merged(
            servers, lambda name: _tail(self.log(name), lines, follow), follow=follow
        )

    def log(self, server: str) -> Path:
        """The file of a server's output; for a kind with several servers, that of the first."""
        return super().log(getattr(self._replicas()[0], server) if server in KINDS else server)

    def retiring(self) -> bool:
        """See fairlead.clusters.base.Cluster."""
        return bool(self.servers().keys() & set(self._replaced()))

    def retire(self) -> None:
        """See fairlead.clusters.base.Cluster. Raises FairleadError."""
        self._stop_servers(self._replaced())

    def _replaced(self) -> list[str]:
        """The names of the servers that an engine other than the chosen one has."""
        return self._of_opa() if self._in_python else [_SERVE]

    def stop(self) -> None:
        """Stop every OPA and sidecar, and what else decides or leads to it. Raises
        FairleadError.
        """
        self._stop_servers([CONTROLLER, ACCESS_ENDS, _SERVE, *self._of_opa(), KUBELET])

    def _of_opa(self) -> list[str]:
        """The names of all servers that may run with OPA, in the order in which to stop them."""
        replicas = replica_plan.of(self._plan(), self.usual, self.path / "mounted")
        return [
            BALANCER,
            *(replica.opa for replica in replicas),
            *(name for entry in replicas for name in (entry.sidecar, *entry.other_sidecars)),
        ]

    def _secret(self, name: str) -> dict[str, bytes]:
        """The contents of a Secret. Raises UsageError if there is none."""
        objects = self.objects()
        secret = objects.get("v1", "Secret", name, NAMESPACE)
        if secret is None:
            raise UsageError(
                f"decisionLogs.service: there is no Secret {name} in namespace {NAMESPACE}: create "
                "it first"
            )
        return {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}

    def _mount(self, settings: Settings, progress: Progress) -> None:
        """Start the kubelet, which writes the Secrets for every replica, and the controller's
        token.
        """
        service = settings.decision_logs.service
        volumes = [
            mount
            for replica in self._replicas()
            for mount in mounts.volumes(replica.files, service.secret if service else None)
        ]
        if settings.access and settings.access.own_controller:
            volumes.append(controller_server.volume(self._controller_folder))
        options = {
            "kubeconfig": str(self.kubeconfig),
            "namespace": NAMESPACE,
            "volumes": [vars(mount) for mount in volumes],
        }
        self._run(
            KUBELET, [sys.executable, "-P", "-m", kubelet.__name__, json.dumps(options)], progress
        )

    def _serve(self, replica: Replica, policies: PolicySet, progress: Progress) -> None:
        sidecar, files, settings = self.sidecar, replica.files, policies.settings
        program = toolchain.ensure([toolchain.FAIRLEAD_OPA], progress)[toolchain.FAIRLEAD_OPA]
        argv = [
            str(program),
            *containers.opa_arguments(
                files,
                replica.address,
                replica.inner_address,
                decision_logs=sidecar.decision_logs(files, settings, replica.sidecar_address),
            ),
        ]
        environment = {
            **containers.OPA_ENVIRONMENT,
            **sidecar.opa_environment(files, replica.sidecar_address),
        }
        is_running = replica.opa in self.servers()
        ready, probe = replica.opa_url("/health"), replica.probe(containers.OPA_LIVENESS)
        started = self._run(
            replica.opa, argv, progress, env=environment, ready=ready, ca=replica.ca, probe=probe
        )
        kubeconfig = self.path / "opa.kubeconfig"
        argv = [
            *sidecar.command(),
            *sidecar.arguments(files, policies, replica.inner_address, replica.sidecar_address),
            f"{flags.KUBECONFIG}={kubeconfig}",
        ]
        for former_sidecar in replica.other_sidecars:
            if former_sidecar in self.servers():
                self.stop_server(former_sidecar)
        if not self._runs(replica.sidecar, argv, {}):
            self.service_account_kubeconfig(NAMESPACE, "opa", kubeconfig)
        self._remember(f"{replica.sidecar}-read", mounts.read_once(files))
        # An old sidecar may have loaded the new policies already, but only a new one answers the
        # lookups that they make.
        healthy = f"https://{replica.sidecar_address}/health" if sidecar.look_up else None
        self._run(
            replica.sidecar,
            argv,
            progress,
            ready=healthy,
            ca=replica.ca,
            probe=replica.probe(sidecar.liveness),
        )
        if started and is_running:
            self.wait_for(replica.opa, replica.opa_url("/health/ready"), replica.ca)

    def _serve_controller(self, settings: Settings, progress: Progress) -> None:
        """Run `fairlead controller` beside the first OPA, and if the settings want transient
        access, what ends it while the controller cannot.
        """
        server = self._controller_server(CONTROLLER)
        paths = {name: self.path / f"{name}.kubeconfig" for name in (CONTROLLER, ACCESS_ENDS)}
        opa_url = self.webhook_url(self.sidecar)
        self._stop_servers([ACCESS])  # the controller of a former version
        renewal = controller.renewal(settings, rolls=False) if self.sidecar.rereads else []
        argv = server.controller(
            settings, [*renewal, *self._deciding()], opa_url, paths[CONTROLLER]
        )
        started = [(CONTROLLER, server, argv)]
        if settings.access and settings.access.own_controller:
            ends = self._controller_server(ACCESS_ENDS)
            started.append((ACCESS_ENDS, ends, ends.ends(paths[ACCESS_ENDS])))
        else:
            self._stop_servers([ACCESS_ENDS])
        for name, each, argv in started:
            if not self._runs(name, argv, {}):
                self.service_account_kubeconfig(NAMESPACE, name, paths[name])
            self._run(
                name,
                argv,
                progress,
                ready=each.probe.url,
                ca=self._replicas()[0].ca,
                probe=each.probe,
                deadline=each.probe.startup,
            )

    def _controller_server(self, name: str) -> controller_server.ControllerServer:
        """The controller of this name, beside the first OPA."""
        replica, *_ = self._replicas()
        return controller_server.planned(self._controller_folder, replica, self._port_of(name))

    @property
    def _controller_folder(self) -> Path:
        return self.path / "mounted" / CONTROLLER

    def _serve_in_python(self, replica: Replica, policies: PolicySet, progress: Progress) -> None:
        kubeconfig, server = self.path / "opa.kubeconfig", self.sidecar
        address = replica.address
        argv = [
            *server.command(),
            *server.arguments(replica.files, policies, address, address),
            f"{flags.KUBECONFIG}={kubeconfig}",
        ]
        if not self._runs(replica.opa, argv, {}):
            self.service_account_kubeconfig(NAMESPACE, "opa", kubeconfig)
        ready, probe = replica.opa_url(server.liveness.path), replica.probe(server.liveness)
        self._run(
            replica.opa,
            argv,
            progress,
            ready=ready,
            ca=replica.ca,
            probe=probe,
            deadline=server.liveness.startup,
        )

    def _deciding(self) -> list[str]:
        """The flags that name the servers that decide, as there are no pods to list. Nothing here
        would restart a sidecar that reads its CA once, so beside it no certificate is renewed.
        """
        replicas = self._replicas()
        servers = {flags.OPAS: [replica.address for replica in replicas]}
        if self.sidecar.look_up:
            servers[flags.SIDECARS] = [replica.sidecar_address for replica in replicas]
        return [f"{flag}={','.join(addresses)}" for flag, addresses in servers.items()]

    @property
    def _in_python(self) -> bool:
        return self.sidecar.engine == PYTHON_ENGINE

    def _replicas(self) -> list[Replica]:
        if self._in_python:
            return [replica_plan.in_place_of_opa(self._port_of(_SERVE), self.path / "mounted")]
        return replica_plan.of(self._plan(), self.sidecar, self.path / "mounted")

    def _plan(self) -> dict[str, Any]:
        """The plan (see replica_plan.planned), which is made once, so that restarted servers
        keep their ports.
        """
        plan: dict[str, Any] | None = self._remembered("pods")
        if plan is None:
            plan = self._planned(1)
            self._remember("pods", plan)
        return plan

    def _planned(self, count: int) -> dict[str, Any]:
        return replica_plan.planned(self.sidecar, self.free_ports(3 * count + 1))


def _tail(path: Path, lines: int, follow: bool) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as log:
        yield from log.readlines()[-lines:] if lines else []
        while follow:
            text = log.read()
            yield text
            if not text:
                time.sleep(_LOOK)
