"""A cluster reached by a kubeconfig, in which OPA and its sidecar run as pods."""

from __future__ import annotations

import codecs
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client

from fairlead.clusters import connections, contexts, joined_logs
from fairlead.clusters.base import OpaServer, SidecarServer
from fairlead.clusters.portforward import HOST, Forward
from fairlead.common import atomic_files, waiting
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    CREDENTIALS_ANNOTATION,
    OPA_PODS,
    PART_OF,
    TLS_SECRET,
    TOKEN_SECRET,
)
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa import arguments
from fairlead.settings.models import IMAGE_VARIABLES, NAMESPACE, Settings

ROLLOUT = 300.0
"""Seconds in which every pod has to be Ready: images are pulled meanwhile."""


IMAGES = {
    "opa": "opa",
    "proxy": "fairlead",
    "kube-mgmt": "kube_mgmt",
    "sync": "fairlead",
}  # container -> field of Images

_HOPELESS = {"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
"""Waiting reasons that no waiting ends."""

_UNROUTED = 3.0
"""Seconds until no node routes new connections to a pod that was told to end; nothing tells when
they have done it."""

_SILENCE = 24 * 3600.0
"""Seconds for which a log that is followed may have nothing new; there is no other way to say
for ever."""

_RESTARTED = "kubectl.kubernetes.io/restartedAt"  # as `kubectl rollout restart` has it
_REFRESHED = "fairlead.dev/refreshed"
_REVISION = "deployment.kubernetes.io/revision"


class RemoteCluster:
    """A cluster whose OPAs are the pods of the Deployment `opa`; see
    fairlead.clusters.base.Cluster.

    The pods are reached by forwards on loopback ports, which last as long as this object's process.
    """

    examined = True
    webhook_url: str | None = None
    replicas: int | None = None

    def __init__(self, name: str, kubeconfig: Path, kind: str = "context") -> None:
        """`kubeconfig` has the cluster's context as its current one; what there is to keep is
        kept beside it.
        """
        self.name = name
        self.kind = kind
        self.kubeconfig = kubeconfig
        self._chosen: Sidecar | None = None
        self._forwards: dict[tuple[str, int], Forward] = {}

    @property
    def sidecar(self) -> Sidecar:
        """What was chosen, or what the Deployment has, or kube-mgmt."""
        if self._chosen:
            return self._chosen
        deployment = self._deployment()
        names = {c.name for c in deployment.spec.template.spec.containers} if deployment else set()
        return next(
            (sidecar for name, sidecar in sidecars.SIDECARS.items() if name in names),
            sidecars.KUBE_MGMT,
        )

    def choose(self, sidecar: Sidecar) -> None:
        """Have this kind of sidecar from the next `serve` on."""
        self._chosen = sidecar

    def objects(self) -> clients.Objects:
        """See the protocol."""
        return clients.Objects(clients.connect(self.kubeconfig))

    def running(self) -> bool:
        """Whether it is there: it is somebody else's, so it is taken to be until it is asked."""
        return True

    def serve(
        self,
        settings: Settings,
        credentials: Credentials,
        guards: Mapping[str, str],
        *,
        progress: Progress,
    ) -> None:
        """Wait until the Deployment that was applied is rolled out. Raises FairleadError with what
        its pods say.

        Pods that the Deployment leaves alone get the Secrets that were applied at once, as by
        `refresh`.
        """
        self._remount()
        self._roll_out(progress)

    def opas(self) -> Sequence[OpaServer]:
        """Every OPA whose container runs."""
        return [
            OpaServer(url, self._ca(), pod=name)
            for name, url in self._urls("opa", arguments.OPA_PORT)
        ]

    def sidecars(self) -> Sequence[SidecarServer]:
        """Every sidecar that tells its health and whose container runs."""
        sidecar = self.sidecar
        if not sidecar.look_up:
            return []
        reached = self._urls(sidecar.name, arguments.SYNC_PORT)
        return [SidecarServer(url, self._ca(), pod=name) for name, url in reached]

    def refresh(self, secrets: Mapping[str, Mapping[str, bytes]]) -> None:
        """Have the kubelets mount the Secrets again, now and not within a minute; see the protocol.

        A pod that changes in any way is synchronised at once. Raises FairleadError.
        """
        if TLS_SECRET in secrets:
            self._ca()
        if not self.sidecar.rereads and (credentials := self._credentials()):
            self._annotate_template(CREDENTIALS_ANNOTATION, credentials.digest)
            self._roll_out(Progress())
        self._remount()

    def restart(self, *, progress: Progress) -> None:
        """Roll all pods, as `kubectl rollout restart` does. Raises FairleadError where they do
        not come up.
        """
        self._annotate_template(_RESTARTED, datetime.now(UTC).isoformat(timespec="microseconds"))
        self._roll_out(progress)

    def namespaces(self) -> dict[str, Any]:
        """Every namespace as its API server has it, name -> object. Raises FairleadError."""
        namespaces = self.objects().list("v1", "Namespace", None)
        return {namespace["metadata"]["name"]: namespace for namespace in namespaces}

    def servers(self) -> dict[str, dict[str, Any]]:
        """Every container of the pods, <pod>/<container> -> {pid: None, restarts, running}."""
        return {
            f"{pod.metadata.name}/{status.name}": {
                "pid": None,
                "restarts": status.restart_count,
                "running": bool(status.state and status.state.running),
            }
            for pod in self._pods()
            for status in pod.status.container_statuses or ()
        }

    def logs(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """See the protocol; a server is named <pod>/<container>."""
        names = list(self.servers())
        container = self.sidecar.name if server == "sidecar" else server
        chosen = [name for name in names if name == server or name.endswith(f"/{container}")]
        if not chosen:
            raise UsageError(f"no server {server!r} in cluster {self.name!r}: {_one_of(names)}")
        return joined_logs.merged(
            chosen, lambda name: self._log(name, lines, follow), follow=follow
        )

    def _log(self, server: str, lines: int, follow: bool) -> Iterator[str]:
        """The log of one container, <pod>/<container>. Raises FairleadError."""
        pod_name, container = server.split("/")
        with clients.explained(f"cannot read the log of {server}"):
            answer = self._core.read_namespaced_pod_log(
                pod_name,
                NAMESPACE,
                container=container,
                tail_lines=lines,
                follow=follow,
                _preload_content=False,
                _request_timeout=(clients.TIMEOUT[0], _SILENCE if follow else clients.TIMEOUT[1]),
            )
        return self._text(answer, server)

    def stop(self) -> None:
        """End the forwards; the pods go with their Deployment."""
        while self._forwards:
            self._forwards.popitem()[1].close()

    def known(self) -> bool:
        """Whether Fairlead was deployed here before. Raises FairleadError."""
        with clients.explained("cannot read namespaces"):
            namespaces = self._core.list_namespace(label_selector=f"{PART_OF}=fairlead").items
        return any(namespace.metadata.name == NAMESPACE for namespace in namespaces)

    def described(self) -> str:
        """Context, server and number of nodes, for who is asked whether this is the cluster that
        is meant.
        """
        try:
            with clients.explained("cannot list nodes"):
                count = len(self._core.list_node().items)
            nodes = f"{count} node{'' if count == 1 else 's'}"
        except Refused as error:
            nodes = f"nodes unknown ({error.status})"
        return f"context {self.name}, server {self._api.configuration.host}, {nodes}"

    @cached_property
    def _api(self) -> client.ApiClient:
        return clients.connect(self.kubeconfig)

    # Any: in the package's models every field may be None, also those that an API server always
    # sets.
    @property
    def _core(self) -> Any:
        return client.CoreV1Api(self._api)

    @property
    def _apps(self) -> Any:
        return client.AppsV1Api(self._api)

    @clients.patiently
    def _deployment(self) -> Any | None:
        with clients.explained("cannot read the Deployment of OPA"):
            deployments = self._apps.list_namespaced_deployment(
                NAMESPACE, field_selector="metadata.name=opa"
            ).items
        return deployments[0] if deployments else None

    @clients.patiently
    def _pods(self) -> list[Any]:
        """The pods of OPA that are neither over nor about to be."""
        with clients.explained("cannot list the pods of OPA"):
            pods = self._core.list_namespaced_pod(NAMESPACE, label_selector=OPA_PODS).items
        alive = [
            p
            for p in pods
            if not p.metadata.deletion_timestamp and p.status.phase in ("Pending", "Running")
        ]
        return sorted(alive, key=lambda p: str(p.metadata.name))

    def _last_left(self) -> datetime | None:
        """When the last of the pods that end now was told to, by the API server's clock; None
        where none ends.
        """
        with clients.explained("cannot list the pods of OPA"):
            pods = self._core.list_namespaced_pod(NAMESPACE, label_selector=OPA_PODS).items
        told = [
            p.metadata.deletion_timestamp
            - timedelta(seconds=p.metadata.deletion_grace_period_seconds or 0)
            for p in pods
            if p.metadata.deletion_timestamp
        ]
        return max(told, default=None)

    def _urls(self, container: str, port: int) -> list[tuple[str, str]]:
        """Each pod, and where this port of it is reached; a forward to a pod that is gone ends."""
        targets = [(p.metadata.name, port) for p in self._pods() if _runs(p, container)]
        for key in [key for key in self._forwards if key[1] == port and key not in targets]:
            self._forwards.pop(key).close()
        for name, _ in targets:
            if (name, port) not in self._forwards:
                self._forwards[name, port] = Forward(self.kubeconfig, NAMESPACE, name, port)
        return [(key[0], f"https://{HOST}:{self._forwards[key].port}") for key in targets]

    @clients.patiently
    def _secret(self, name: str) -> dict[str, str]:
        with clients.explained(f"cannot read Secret {name}"):
            secrets = self._core.list_namespaced_secret(
                NAMESPACE, field_selector=f"metadata.name={name}"
            ).items
        return dict(secrets[0].data or {}) if secrets else {}

    def _credentials(self) -> Credentials | None:
        return Credentials.kept(self._secret(TOKEN_SECRET), self._secret(TLS_SECRET))

    def _ca(self) -> Path:
        """The file of the authorities by which the pods are verified now."""
        path = self.kubeconfig.with_name("opa-ca.crt")
        authorities = b64decode(self._secret(TLS_SECRET).get("ca.crt", ""))
        if not path.exists() or path.read_bytes() != authorities:
            atomic_files.write_private(path, authorities)
        return path

    @clients.patiently
    def _annotate_pod(self, name: str, key: str, value: str) -> None:
        """Annotate a pod; that it is gone by now is fine."""
        try:
            with clients.explained(f"cannot annotate pod {name}"):
                self._core.patch_namespaced_pod(
                    name, NAMESPACE, {"metadata": {"annotations": {key: value}}}
                )
        except Refused as error:
            if error.status != 404:
                raise

    @clients.patiently
    def _annotate_template(self, key: str, value: str) -> None:
        """Annotate the pods to come; where that changes anything they replace those that are
        there.
        """
        patch = {"spec": {"template": {"metadata": {"annotations": {key: value}}}}}
        with clients.explained("cannot change the Deployment of OPA"):
            self._apps.patch_namespaced_deployment("opa", NAMESPACE, patch)

    def _remount(self) -> None:
        """Have the kubelets mount the pods' Secrets again, by a change of each pod."""
        now = datetime.now(UTC).isoformat()
        for opa_pod in self._pods():
            self._annotate_pod(opa_pod.metadata.name, _REFRESHED, now)

    def _roll_out(self, progress: Progress) -> None:
        def done() -> bool:
            deployment = self._deployment()
            if deployment is None:
                return False
            replicas, status = deployment.spec.replicas, deployment.status
            progress.update("opa", f"{status.available_replicas or 0} of {replicas} pods ready")
            if (status.observed_generation or 0) < deployment.metadata.generation:
                return False
            counts = (status.replicas, status.updated_replicas, status.available_replicas)
            if all((count or 0) == replicas for count in counts):
                return True
            if any(reason in _HOPELESS for reason, _ in self._problems(deployment)):
                raise _Hopeless
            return False

        try:
            waiting.until(done, deadline=ROLLOUT, what="every pod of OPA is Ready", pause=0.25)
        except (FairleadError, _Hopeless) as error:
            deployment = self._deployment()
            problems = [line for _, line in self._problems(deployment)] if deployment else []
            lines = "".join(f"\n  {line}" for line in dict.fromkeys(problems))
            what = "OPA's pods do not come up" if isinstance(error, _Hopeless) else str(error)
            raise FairleadError(f"{what}{':' if lines else ''}{lines}") from error
        self._leave_ending(progress)

    def _leave_ending(self, progress: Progress) -> None:
        """Have API servers connect again where pods end that they may be connected to, once for
        the same pods.
        """
        objects = self.objects()
        left = self._last_left()
        if left and connections.since(objects) < left:
            progress.update("opa", "having API servers leave the pods that end")
            time.sleep(_UNROUTED)
            connections.renew(objects, left)

    def _problems(self, deployment: Any) -> list[tuple[str, str]]:
        """What keeps the pods from being Ready, (reason, line), as the cluster tells it."""
        problems = [
            (str(condition.reason), str(condition.message))
            for condition in deployment.status.conditions or ()
            if condition.type == "ReplicaFailure" and condition.status == "True"
        ]
        for opa_pod in self._newest(deployment):
            name = opa_pod.metadata.name
            problems += [
                (str(condition.reason), f"{name} cannot be scheduled: {condition.message}")
                for condition in opa_pod.status.conditions or ()
                if condition.type == "PodScheduled" and condition.status == "False"
            ]
            for status in opa_pod.status.container_statuses or ():
                if waits := status.state.waiting:
                    problems.append(
                        (str(waits.reason), f"{name}/{status.name}: {_waiting(status, waits)}")
                    )
                elif not status.ready:
                    problems.append(("NotReady", f"{name}/{status.name}: runs, but is not Ready"))
        return problems

    def _newest(self, deployment: Any) -> list[Any]:
        """The pods of the Deployment as it is now: ignores pods of older ReplicaSets."""
        with clients.explained("cannot list the ReplicaSets of OPA"):
            sets = self._apps.list_namespaced_replica_set(NAMESPACE, label_selector=OPA_PODS).items
        now = (deployment.metadata.annotations or {}).get(_REVISION)
        uids = {
            replica_set.metadata.uid
            for replica_set in sets
            if (replica_set.metadata.annotations or {}).get(_REVISION) == now
        }
        return [
            p
            for p in self._pods()
            if any(owner.uid in uids for owner in p.metadata.owner_references or ())
        ]

    def _text(self, answer: Any, server: str) -> Iterator[str]:
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        try:
            with clients.explained(f"cannot read on in the log of {server}"):
                for chunk in answer.stream():
                    yield decode(chunk)
        finally:
            answer.close()


class _Hopeless(Exception):
    """Ends the wait early."""


def _runs(pod: Any, container: str) -> bool:
    statuses = pod.status.container_statuses or ()
    return any(status.name == container and status.state.running for status in statuses)


def _waiting(status: Any, waits: Any) -> str:
    words = " ".join(filter(None, (waits.reason, waits.message)))
    last = status.last_state and status.last_state.terminated
    if last:
        words += f" (ended before with {last.exit_code}: see `fairlead logs {status.name}`)"
    if "Image" in str(waits.reason):
        variable = IMAGE_VARIABLES[IMAGES[status.name]]
        words += (
            f"; see that the nodes can pull {status.image}, or name another by {variable} or "
            "in fairlead.yaml"
        )
    return words


def _one_of(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}" if names else "no pod of OPA is there"


def of_context(context: str | None, kubeconfig: Path | None) -> RemoteCluster:
    """The cluster of a context, by default the current one, of `kubeconfig`, KUBECONFIG or
    ~/.kube/config.

    Raises UsageError that lists the contexts where it is none of them, InputError where a file is
    no kubeconfig.
    """
    return RemoteCluster(*contexts.copied(context, kubeconfig))
