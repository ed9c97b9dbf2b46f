"""The embedded cluster without OPA: starts it, adds nodes and servers, leaves it running, and
stops it."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import yaml

from fairlead.clusters import contexts
from fairlead.clusters.embedded import (
    client,
    control_plane,
    nodes,
    pki,
    ports,
    process_list,
    readiness,
)
from fairlead.clusters.embedded.server import Probe
from fairlead.common import atomic_files, locks, paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.kube import api_paths, clients
from fairlead.programs import toolchain

_HERE = Path(__file__).parent
STAGES = _HERE / "stages.yaml"
"""The behaviour of the simulated nodes."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NONE: Mapping[str, Any] = MappingProxyType({})
_STARTED = 60.0
"""Seconds within which the control plane starts."""


class BareCluster:
    """The embedded cluster `name`, whether it runs or not; everything of it is in `path`.

    What is started through this object ends with this process, unless `detach` was called. As a
    context manager, it ends with the block.
    """

    kind = "embedded"

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot name a cluster: at most 63 of a-z, 0-9 and '-', with a letter or "
                "digit at both ends"
            )
        self.name = name
        self.path = paths.state(name)
        self._supervisor: client.Supervisor | None = None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it is self-contained and may be copied."""
        return self.path / "kubeconfig"

    def objects(self) -> clients.Objects:
        """See fairlead.clusters.base.Cluster."""
        return clients.reach(self.kubeconfig)

    def running(self) -> bool:
        """Whether the cluster runs, or is being started."""
        return client.is_running(self.path)

    def start_control_plane(
        self,
        *,
        further: Mapping[str, Mapping[str, object]] = _NONE,
        environment: Mapping[str, str] = _NONE,
        workloads: bool = True,
        progress: Progress,
    ) -> None:
        """Start etcd, the API server, the scheduler, the controller manager and kwok; returns when
        each is healthy.

        Without `workloads`, only etcd and the API server start. That is enough to see what
        admission does with a request. There are no nodes then, a pod is never scheduled, a deleted
        namespace stays in phase Terminating, and no controller makes the service account `default`
        of a namespace; pods do not need one.

        `further` are additional flags of servers, which replace those of the same name: server ->
        flag -> value. `environment` are variables of every server.

        Raises FairleadError if the cluster runs already, or if a server does not start within
        60 s (with the end of its log). A failure or Ctrl-C leaves nothing of the cluster.
        """
        names = control_plane.PROGRAMS if workloads else control_plane.ADMISSION
        programs = toolchain.ensure(names, progress)
        end, created = time.monotonic() + _STARTED, False
        try:
            with self._claimed():
                if self.running():
                    raise FairleadError(
                        f"cluster {self.name!r} runs already: `fairlead down --name {self.name}` "
                        "ends it"
                    )
                self._remove()
                created = True
                self.path.mkdir(mode=0o700)
                self._supervisor = client.Supervisor.start(self.path)
            plane = self._prepare(programs, further, workloads)
            self._start(self._supervisor, plane, environment, progress, end)
        except BaseException as error:
            if created:
                self._abandon()
            if isinstance(error, OSError):
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                remedy = "free some space" if full else "see that it can be written to"
                problem = (
                    f"cluster {self.name!r} cannot be made in {self.path}: "
                    f"{error.strerror or error}"
                )
                raise FairleadError(f"{problem}: {remedy} and try again") from error
            raise

    def add_nodes(
        self,
        pools: Mapping[str, int],
        *,
        node_label: str = "agentpool",
        labels: Mapping[str, Mapping[str, str]] = _NONE,
        taints: Mapping[str, Sequence[nodes.Taint]] = _NONE,
        deadline: float = 30.0,
    ) -> None:
        """Add nodes (pool -> how many), named <pool>-0 and so on; returns when pods can be
        scheduled onto each.

        `labels` and `taints` are additional ones by pool. Safe to repeat. Raises FairleadError,
        UsageError.
        """
        manifests = nodes.manifests(pools, node_label=node_label, labels=labels, taints=taints)
        nodes.add(self._objects(), manifests, deadline)

    def service_account_kubeconfig(self, namespace: str, service_account: str, path: Path) -> None:
        """Write a kubeconfig to `path` for an existing service account, and its token to
        `path`.token.

        The token lasts as long as the cluster's certificates, as no kubelet renews it. Raises
        FairleadError.
        """
        token_path = api_paths.joined("v1", namespace, "serviceaccounts", service_account, "token")
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(pki.VALID.total_seconds())},
        }
        answer = self._objects().call("POST", token_path, request)
        token = path.with_name(f"{path.name}.token")
        atomic_files.write_private(token, answer["status"]["token"].encode())
        ca = self._pki().ca.read_bytes()
        # Relative to the kubeconfig, as for kubectl and the client libraries.
        credentials = {"tokenFile": token.name}
        pki.write_kubeconfig(
            path,
            self._context(),
            self._url(),
            ca,
            service_account,
            credentials,
            namespace=namespace,
        )

    def free_ports(self, count: int) -> list[int]:
        """`count` loopback ports that nothing listens on. Raises FairleadError."""
        return ports.free_ports(count)

    def start_server(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        ready: str | None = None,
        ca: Path | None = None,
        probe: Probe | None = None,
        deadline: float = 30.0,
    ) -> int:
        """Start a server beside the control plane and return its pid; from then on it is restarted
        when it ends.

        With the URL `ready`, wait until it answers 2xx (https, verified by `ca`) or something
        listens there (tcp). `env` is added to the few variables that each server gets; with a
        `probe`, the server is also restarted when that fails. Raises FairleadError with the end of
        its log, and the server is stopped.
        """
        supervisor = self._running_supervisor()
        pid = supervisor.start_server(name, argv, env=env, probe=probe)
        try:
            if ready is not None:
                self.wait_for(name, ready, ca, deadline=deadline)
            supervisor.keep(name)
        except BaseException:
            with contextlib.suppress(FairleadError):
                supervisor.stop_server(name)
            raise
        return pid

    def wait_for(
        self, name: str, ready: str, ca: Path | None = None, *, deadline: float = 30.0
    ) -> None:
        """Return when the URL `ready` of the server `name` answers, as for `start_server`.
        Raises FairleadError.
        """
        look = readiness.look(ready, ca or self._pki().ca)
        self._running_supervisor().wait_for(name, look, deadline)

    def restart_server(self, name: str, *, grace: float = 10.0, deadline: float = 30.0) -> None:
        """Restart a server; returns when it runs again. It is killed if it takes longer than
        `grace` seconds to end.

        Raises FairleadError if there is no such server, or it does not start within `deadline`
        seconds.
        """
        began, number = time.monotonic(), signal.SIGTERM
        before = self._record(name)
        while (now := self._record(name))["started"] in (None, before["started"]):
            waited = time.monotonic() - began
            if waited > deadline:
                raise FairleadError(
                    f"{name} was not started again within {deadline:.0f} s: see its log, "
                    f"{now['log']}"
                )
            if number == signal.SIGTERM or waited > grace:
                process_list.send(before["pid"], before["started"], number)
                number = signal.SIGKILL
            time.sleep(client.POLL)

    def stop_server(self, name: str) -> None:
        """Stop a server for good; its name is free again. Raises FairleadError."""
        self._running_supervisor().stop_server(name)

    def detach(self) -> None:
        """Let the cluster continue after this process. Raises FairleadError."""
        self._running_supervisor().detach()
        self._supervisor = None

    def down(self) -> bool:
        """End everything that was started here and remove the folder; False if there is
        nothing. Safe to repeat.
        """
        if not self.path.exists():
            return False
        while True:
            client.Supervisor(self.path).stop()
            with self._claimed():
                if not self.running():  # else it was restarted meanwhile
                    self._remove()
                    return True

    def servers(self) -> dict[str, process_list.ServerRecord]:
        """The servers by name, in the order of their start; empty if none was started."""
        record = process_list.read(self.path)
        return record["servers"] if record else {}

    def log(self, server: str) -> Path:
        """The file of `server`'s output, which may not exist yet."""
        return self.path / client.LOGS / f"{server}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._supervisor:
            self._abandon()

    def _prepare(
        self,
        programs: Mapping[str, Path],
        further: Mapping[str, Mapping[str, object]],
        workloads: bool,
    ) -> control_plane.ControlPlane:
        """Create everything that the servers read: keys, certificates, kubeconfigs and free
        ports.
        """
        port_numbers = dict(
            zip(control_plane.PORTS, ports.free_ports(len(control_plane.PORTS)), strict=True)
        )
        url = f"https://{ports.HOST}:{port_numbers['kube-apiserver']}"
        keys = pki.create(
            self._pki().folder,
            cluster=self._context(),
            server=url,
            service_address=control_plane.SERVICE_ADDRESS,
        )
        atomic_files.write_private(self.kubeconfig, keys.kubeconfig("admin").read_bytes())
        return control_plane.ControlPlane(
            programs, keys, port_numbers, self.path / "etcd", STAGES, further, workloads
        )

    def _start(
        self,
        supervisor: client.Supervisor,
        plane: control_plane.ControlPlane,
        environment: Mapping[str, str],
        progress: Progress,
        end: float,
    ) -> None:
        etcd_client = (plane.pki.cert("etcd-client"), plane.pki.key("etcd-client"))

        def start(*names: str) -> None:
            for name in names:
                progress.update(name, "starting")
                supervisor.start_server(name, plane.argv(name), env=environment)

        def wait(name: str) -> None:
            cert = etcd_client if name == "etcd" else None
            unready = readiness.look(plane.health(name), plane.pki.ca, cert)
            supervisor.wait_for(name, unready, max(1.0, end - time.monotonic()))
            supervisor.keep(name)
            progress.finish(name, "ready")

        for name in control_plane.ADMISSION:
            start(name)
            wait(name)
        if not plane.workloads:
            return
        objects = clients.Objects(self.kubeconfig)
        for document in yaml.safe_load_all((_HERE / "kwok.yaml").read_text(encoding="utf-8")):
            objects.apply(document)
        start(*control_plane.WORKLOADS)
        for name in control_plane.WORKLOADS:
            wait(name)

    def _abandon(self) -> None:
        """Stop and remove what this object started, but nothing that someone else has started
        instead.
        """
        if self._supervisor:
            self._supervisor.stop()
        self._supervisor = None
        with self._claimed():
            if not self.running():
                self._remove()

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[None]:
        """Keep other commands from creating or removing a cluster's folder meanwhile."""
        clusters = self.path.parent

        def create() -> None:
            clusters.mkdir(parents=True, exist_ok=True)

        with locks.exclusive(clusters, create=create):
            yield

    def _remove(self) -> None:
        """Remove the folder of a cluster that does not run, any processes that remain, and
        copies of its contexts.
        """
        client.Supervisor(self.path).stop()
        try:
            contexts.forget(self.kubeconfig)
            shutil.rmtree(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FairleadError(f"{error.filename} cannot be removed: {error.strerror}") from error

    def _record(self, name: str) -> process_list.ServerRecord:
        record = self.servers().get(name)
        if record is None:
            raise FairleadError(
                f"cluster {self.name!r} has no server {name!r}: `fairlead status` lists them"
            )
        return record

    def _running_supervisor(self) -> client.Supervisor:
        supervisor = self._supervisor or client.Supervisor.attach(self.path)
        if supervisor is None:
            raise FairleadError(
                f"cluster {self.name!r} does not run: `fairlead up --name {self.name}` starts it"
            )
        return supervisor

    def _objects(self) -> clients.Objects:
        """The objects of a cluster that runs. Raises FairleadError if it does not."""
        self._url()
        return clients.Objects(self.kubeconfig)

    def _pki(self) -> pki.Pki:
        return pki.Pki(self.path / "pki")

    def _context(self) -> str:
        return f"fairlead-{self.name}"

    def _url(self) -> str:
        try:
            document = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
            return str(document["clusters"][0]["cluster"]["server"])
        except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError) as error:
            raise FairleadError(
                f"cluster {self.name!r} does not run: `fairlead up --name {self.name}` starts it"
            ) from error
