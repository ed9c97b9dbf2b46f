"""A cluster reached by a kubeconfig, in which OPA and its sidecar run as pods."""

from __future__ import annotations

import codecs
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client

from fairlead.clusters import contexts, joined_logs, pod_deployment
from fairlead.clusters.base import OpaServer, Server
from fairlead.clusters.opa_deployment import OpaDeployment
from fairlead.clusters.pod_deployment import PodDeployment
from fairlead.clusters.portforward import HOST, Forward
from fairlead.common import atomic_files, texts
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import ownership, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    ACCESS_ENDS,
    CONTROLLER,
    CREDENTIALS_ANNOTATION,
    NAMESPACE,
    PYTHON_ENGINE,
    TLS_SECRET,
    TOKEN_SECRET,
)
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import api_requests, clients
from fairlead.kube.errors import Refused
from fairlead.opa import containers
from fairlead.policy.policy_set import PolicySet

_SILENCE = 24 * 3600.0
"""Seconds for which a followed log may stay silent; the client has no other way to wait forever."""
_CONTROLLER = "controller"
"""The container of the controller."""


class RemoteCluster:
    """A cluster whose OPAs are the pods of the Deployment `opa`; see
    fairlead.clusters.base.Cluster.

    The pods are reached by forwards on loopback ports, which last as long as this object's process.
    """

    examined = True
    usual = sidecars.DEFAULT

    def __init__(self, name: str, kubeconfig: Path, kind: str = "context") -> None:
        """`kubeconfig` has the cluster's context as its current one; state is kept beside it."""
        self.name = name
        self.kind = kind
        self.kubeconfig = kubeconfig
        self._chosen: Sidecar | None = None
        # (container, port) -> pod -> forward
        self._forwards: dict[tuple[str, int], dict[str, Forward]] = {}

    @property
    def sidecar(self) -> Sidecar:
        """The kind that was chosen, else that of the Deployment, else the default."""
        if self._chosen:
            return self._chosen
        deployment = self._opa.read()
        names = {c.name for c in deployment.spec.template.spec.containers} if deployment else set()
        return next(
            (sidecar for name, sidecar in sidecars.SIDECARS.items() if name in names),
            self.usual,
        )

    def choose(self, sidecar: Sidecar) -> None:
        """Use this kind of sidecar from the next `serve` on."""
        self._chosen = sidecar

    def objects(self) -> clients.Objects:
        """See the protocol."""
        return clients.reach(self.kubeconfig)

    def running(self) -> bool:
        """Always true: others run the cluster, so it counts as running until a request fails."""
        return True

    def serve(self, policies: PolicySet, credentials: Credentials, *, progress: Progress) -> None:
        """Wait until the Deployments that were applied, of OPA and of the controller, are
        rolled out. Raises FairleadError with the pods' problems.

        Pods that the Deployment does not replace get the applied Secrets at once, as by `refresh`.
        """
        self._opa.remount()
        self._opa.roll_out(progress)
        access = policies.settings.access
        with_ends = access and access.own_controller
        for deployment in (self._controller, *([self._access_ends] if with_ends else [])):
            deployment.remount()
            deployment.roll_out(progress)

    def opas(self) -> Sequence[OpaServer]:
        """Every OPA whose container runs."""
        return [
            OpaServer(url, self._ca(), pod=name, engine=self.sidecar.engine)
            for name, url in self._urls(self._decider, containers.OPA_PORT)
        ]

    def sidecars(self) -> Sequence[Server]:
        """Every sidecar that reports its health and whose container runs."""
        sidecar = self.sidecar
        if not sidecar.look_up:
            return []
        urls = self._urls(sidecar.name, containers.SYNC_PORT)
        return [Server(url, self._ca(), pod=name) for name, url in urls]

    def controllers(self) -> Sequence[Server]:
        """Every controller whose container runs."""
        urls = self._urls(_CONTROLLER, containers.CONTROLLER_PORT, self._controller)
        return [Server(url, self._ca(), pod=name) for name, url in urls]

    def refresh(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """Have the kubelets mount the Secrets again at once, and not within a minute; see the
        protocol.

        Any change of a pod makes its kubelet synchronize it at once. Raises FairleadError.
        """
        if TLS_SECRET in secrets:
            self._ca()
        if not self.sidecar.rereads and (credentials := self._credentials()):
            self._opa.annotate_template(CREDENTIALS_ANNOTATION, credentials.digest)
            self._opa.roll_out(Progress())
        self._opa.remount()
        self._controller.remount()
        self._access_ends.remount()

    def restart(self, *, progress: Progress) -> None:
        """Replace all pods, as `kubectl rollout restart` does. Raises FairleadError if they
        do not come up.
        """
        self._opa.restart(progress)

    def servers(self) -> dict[str, dict[str, Any]]:
        """Every container of the pods, <pod>/<container> -> {pid: None, restarts, running}."""
        return {
            f"{pod.metadata.name}/{status.name}": {
                "pid": None,
                "restarts": status.restart_count,
                "running": bool(status.state and status.state.running),
            }
            for deployment in (self._opa, self._controller, self._access_ends)
            for pod in deployment.pods()
            for status in pod.status.container_statuses or ()
        }

    def logs(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """See the protocol; a server is named <pod>/<container>."""
        names = list(self.servers())
        container = {"sidecar": self.sidecar.name, "opa": self._decider}.get(server, server)
        matching = [name for name in names if name == server or name.endswith(f"/{container}")]
        if not matching:
            raise UsageError(f"no server {server!r} in cluster {self.name!r}: {_one_of(names)}")
        return joined_logs.merged(
            matching, lambda name: self._log(name, lines, follow), follow=follow
        )

    def _log(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """The log of one container, <pod>/<container>. Raises FairleadError."""
        pod_name, container = server.split("/")
        connecting, reading = api_requests.TIMEOUT
        with api_requests.explained(f"cannot read the log of {server}"):
            answer = self._core.read_namespaced_pod_log(
                pod_name,
                NAMESPACE,
                container=container,
                tail_lines=lines,
                follow=follow,
                _preload_content=False,
                _request_timeout=(connecting, _SILENCE if follow else reading),
            )
        return self._text(answer, server)

    def retiring(self) -> bool:
        """Nothing runs beside the cluster: the rollout of the Deployment replaced the pods."""
        return False

    def retire(self) -> None:
        """Nothing runs beside the cluster."""

    def stop(self) -> None:
        """End the forwards; the pods go with their Deployment."""
        while self._forwards:
            for forward in self._forwards.popitem()[1].values():
                forward.close()

    def webhook_url(self, _: Sidecar) -> None:
        """API servers call OPA's Service."""

    def controller_url(self) -> None:
        """API servers call the controller's Service."""

    def known(self) -> bool:
        """Whether Fairlead was deployed here before. Raises FairleadError."""
        with api_requests.explained("cannot read namespaces"):
            namespaces = self._core.list_namespace(label_selector=ownership.SELECTOR).items
        return any(namespace.metadata.name == NAMESPACE for namespace in namespaces)

    def described(self) -> str:
        """Context, server and number of nodes, for the question whether this is the right
        cluster.
        """
        try:
            with api_requests.explained("cannot list nodes"):
                count = len(self._core.list_node().items)
            nodes = texts.counted(count, "node")
        except Refused as error:
            nodes = f"nodes unknown ({error.status})"
        return f"context {self.name}, server {self._api.configuration.host}, {nodes}"

    @property
    def _decider(self) -> str:
        """The container that decides."""
        sidecar = self.sidecar
        return sidecar.name if sidecar.engine == PYTHON_ENGINE else "opa"

    @cached_property
    def _api(self) -> client.ApiClient:
        return clients.connect(self.kubeconfig)

    @cached_property
    def _opa(self) -> OpaDeployment:
        return OpaDeployment(self.kubeconfig)

    @cached_property
    def _controller(self) -> PodDeployment:
        return PodDeployment(self._api, CONTROLLER, CONTROLLER)

    @cached_property
    def _access_ends(self) -> PodDeployment:
        return PodDeployment(self._api, ACCESS_ENDS, ACCESS_ENDS)

    # Any: in the package's models every field may be None, also those that an API server always
    # sets.
    @property
    def _core(self) -> Any:
        return client.CoreV1Api(self._api)

    def _urls(
        self, container: str, port: int, deployment: PodDeployment | None = None
    ) -> list[tuple[str, str]]:
        """Each pod (by default of OPA) and the URL of this port of its container, by a forward; the
        forwards to pods that are gone are closed.
        """
        names = [
            pod.metadata.name
            for pod in (deployment or self._opa).pods()
            if pod_deployment.runs(pod, container)
        ]
        forwards = self._forwards.setdefault((container, port), {})
        for name in forwards.keys() - names:
            forwards.pop(name).close()
        for name in names:
            if name not in forwards:
                forwards[name] = Forward(self.kubeconfig, NAMESPACE, name, port)
        return [(name, f"https://{HOST}:{forwards[name].port}") for name in names]

    @clients.patiently
    def _secret(self, name: str) -> dict[str, str]:
        with api_requests.explained(f"cannot read Secret {name}"):
            secrets = self._core.list_namespaced_secret(
                NAMESPACE, field_selector=f"metadata.name={name}"
            ).items
        return dict(secrets[0].data or {}) if secrets else {}

    def _credentials(self) -> Credentials | None:
        return Credentials.kept(self._secret(TOKEN_SECRET), self._secret(TLS_SECRET))

    def _ca(self) -> Path:
        """The file of the CAs by which the pods are verified now."""
        path = self.kubeconfig.with_name("opa-ca.crt")
        cas = b64decode(self._secret(TLS_SECRET).get("ca.crt", ""))
        if not path.exists() or path.read_bytes() != cas:
            atomic_files.write_private(path, cas)
        return path

    def _text(self, answer: Any, server: str) -> Iterator[str]:
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        try:
            with api_requests.explained(f"cannot read on in the log of {server}"):
                for chunk in answer.stream():
                    yield decode(chunk)
        finally:
            answer.close()


def _one_of(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}" if names else "no pod of OPA is there"


def of_context(context: str | None, kubeconfig: Path | None) -> RemoteCluster:
    """The cluster of a context, by default the current one, of `kubeconfig`, KUBECONFIG or
    ~/.kube/config.

    Raises UsageError that lists the contexts if there is no such context, InputError for an invalid
    kubeconfig.
    """
    return RemoteCluster(*contexts.copied(context, kubeconfig))
