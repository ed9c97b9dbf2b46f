"""A Deployment in a cluster of pods: its pods, its rollout, and why a pod is not Ready."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubernetes import client

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import api_requests, clients
from fairlead.kube.errors import Refused
from fairlead.settings.images import IMAGE_VARIABLES

ROLLOUT = 300.0
"""Seconds in which every pod has to be Ready: images are pulled meanwhile."""

IMAGES = {
    "opa": "opa",
    "kube-mgmt": "kube_mgmt",
    "sync": "fairlead",
    "serve": "fairlead",
    "controller": "fairlead",
    "ends": "fairlead",
}  # container -> field of Images

_HOPELESS = {"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
"""Reasons to wait that do not go away by themselves."""

_RESTARTED = "kubectl.kubernetes.io/restartedAt"  # as `kubectl rollout restart` has it
_REFRESHED = "fairlead.dev/refreshed"
_REVISION = "deployment.kubernetes.io/revision"


class PodDeployment:
    """Reads and changes the Deployment `name` and its pods, which have the label
    app.kubernetes.io/name with the same value. `title` names it in sentences. Every method raises
    FairleadError.
    """

    # Any: in the package's models every field may be None, also those that an API server always
    # sets.
    def __init__(self, api: client.ApiClient, name: str, title: str) -> None:
        self._name = name
        self._title = title
        self._selector = f"app.kubernetes.io/name={name}"
        self._core: Any = client.CoreV1Api(api)
        self._apps: Any = client.AppsV1Api(api)

    @clients.patiently
    def read(self) -> Any | None:
        """The Deployment; None if there is none."""
        with api_requests.explained(f"cannot read the Deployment of {self._title}"):
            deployments = self._apps.list_namespaced_deployment(
                NAMESPACE, field_selector=f"metadata.name={self._name}"
            ).items
        return deployments[0] if deployments else None

    def pods(self) -> list[Any]:
        """The pods that have not ended and do not end now, by name."""
        pods = [
            pod
            for pod in self._all_pods()
            if not pod.metadata.deletion_timestamp and pod.status.phase in ("Pending", "Running")
        ]
        return sorted(pods, key=lambda pod: str(pod.metadata.name))

    def remount(self) -> None:
        """Have the kubelets mount the pods' Secrets again at once, by a change of each pod."""
        now = datetime.now(UTC).isoformat()
        for pod in self.pods():
            self._annotate_pod(pod.metadata.name, _REFRESHED, now)

    @clients.patiently
    def annotate_template(self, key: str, value: str) -> None:
        """Annotate the pod template, which replaces all pods if it changes anything."""
        patch = {"spec": {"template": {"metadata": {"annotations": {key: value}}}}}
        with api_requests.explained(f"cannot change the Deployment of {self._title}"):
            self._apps.patch_namespaced_deployment(self._name, NAMESPACE, patch)

    def restart(self, progress: Progress) -> None:
        """Replace all pods, as `kubectl rollout restart` does."""
        self.annotate_template(_RESTARTED, datetime.now(UTC).isoformat(timespec="microseconds"))
        self.roll_out(progress)

    def roll_out(self, progress: Progress) -> None:
        """Wait until every pod is as the Deployment says, and Ready; else raise what keeps it."""

        def is_done() -> bool:
            deployment = self.read()
            if deployment is None:
                return False
            replicas, status = deployment.spec.replicas, deployment.status
            progress.update(
                self._name, f"{status.available_replicas or 0} of {replicas} pods ready"
            )
            if (status.observed_generation or 0) < deployment.metadata.generation:
                return False
            counts = (status.replicas, status.updated_replicas, status.available_replicas)
            if all((count or 0) == replicas for count in counts):
                return True
            if any(reason in _HOPELESS for reason, _ in self._problems(deployment)):
                raise _Hopeless
            return False

        try:
            waiting.until(
                is_done, deadline=ROLLOUT, what=f"every pod of {self._title} is Ready", pause=0.25
            )
        except (FairleadError, _Hopeless) as error:
            deployment = self.read()
            problems = [line for _, line in self._problems(deployment)] if deployment else []
            lines = "".join(f"\n  {line}" for line in dict.fromkeys(problems))
            problem = (
                f"{self._title}'s pods do not come up"
                if isinstance(error, _Hopeless)
                else str(error)
            )
            raise FairleadError(f"{problem}{':' if lines else ''}{lines}") from error
        progress.finish(self._name, f"all pods ready{self._finish(progress)}")

    def _finish(self, progress: Progress) -> str:
        """Do what is left after a rollout; returns words about it, for a line."""
        return ""

    @clients.patiently
    def _all_pods(self) -> list[Any]:
        with api_requests.explained(f"cannot list the pods of {self._title}"):
            pods: list[Any] = self._core.list_namespaced_pod(
                NAMESPACE, label_selector=self._selector
            ).items
        return pods

    @clients.patiently
    def _annotate_pod(self, name: str, key: str, value: str) -> None:
        """Annotate a pod, unless it is gone by now."""
        patch = {"metadata": {"annotations": {key: value}}}
        try:
            with api_requests.explained(f"cannot annotate pod {name}"):
                self._core.patch_namespaced_pod(name, NAMESPACE, patch)
        except Refused as error:
            if error.status != 404:
                raise

    def _problems(self, deployment: Any) -> list[tuple[str, str]]:
        """What keeps the pods from being Ready, (reason, line), in the cluster's words."""
        problems = [
            (str(condition.reason), str(condition.message))
            for condition in deployment.status.conditions or ()
            if condition.type == "ReplicaFailure" and condition.status == "True"
        ]
        for pod in self._newest_pods(deployment):
            name = pod.metadata.name
            problems += [
                (str(condition.reason), f"{name} cannot be scheduled: {condition.message}")
                for condition in pod.status.conditions or ()
                if condition.type == "PodScheduled" and condition.status == "False"
            ]
            for status in pod.status.container_statuses or ():
                if state := status.state.waiting:
                    problems.append(
                        (str(state.reason), f"{name}/{status.name}: {_waits_for(status, state)}")
                    )
                elif not status.ready:
                    problems.append(("NotReady", f"{name}/{status.name}: runs, but is not Ready"))
        return problems

    def _newest_pods(self, deployment: Any) -> list[Any]:
        """The pods of the Deployment as it is now: ignores pods of older ReplicaSets."""
        with api_requests.explained(f"cannot list the ReplicaSets of {self._title}"):
            replica_sets = self._apps.list_namespaced_replica_set(
                NAMESPACE, label_selector=self._selector
            ).items
        revision = (deployment.metadata.annotations or {}).get(_REVISION)
        uids = {
            replica_set.metadata.uid
            for replica_set in replica_sets
            if (replica_set.metadata.annotations or {}).get(_REVISION) == revision
        }
        return [
            pod
            for pod in self.pods()
            if any(owner.uid in uids for owner in pod.metadata.owner_references or ())
        ]


class _Hopeless(Exception):
    """Ends the wait early."""


def runs(pod: Any, container: str) -> bool:
    """Whether this container of the pod runs."""
    statuses = pod.status.container_statuses or ()
    return any(status.name == container and status.state.running for status in statuses)


def _waits_for(status: Any, state: Any) -> str:
    words = " ".join(filter(None, (state.reason, state.message)))
    last = status.last_state and status.last_state.terminated
    if last:
        words += f" (ended before with {last.exit_code}: see `fairlead logs {status.name}`)"
    if "Image" in str(state.reason):
        variable = IMAGE_VARIABLES[IMAGES[status.name]]
        words += (
            f"; see that the nodes can pull {status.image}, or name another by {variable} or "
            "in fairlead.yaml"
        )
    return words
