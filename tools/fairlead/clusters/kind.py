"""KIND clusters: creates, finds and removes them, and loads images into them. Everything else is as
in any cluster.

A cluster is ours if its containers are those that were recorded when it was created, or if it
carries our mark, by which other checkouts recognize it. Nothing is done to a cluster that is not
ours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from fairlead.clusters import contexts
from fairlead.clusters.pod_deployment import IMAGES
from fairlead.clusters.remote import RemoteCluster
from fairlead.common import atomic_files, locks, paths, waiting
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.deployment.names import OPA_ENGINE
from fairlead.kube import clients
from fairlead.programs import docker, images, kind, toolchain
from fairlead.settings.images import IMAGE_VARIABLES
from fairlead.settings.models import Images, Settings

NODE_IMAGE = "kindest/node:v1.36.4"
"""The node image of the Kubernetes that Fairlead is made for, as of kind 0.33;
KIND_NODE_IMAGE names another."""

MARK = "fairlead-kind"
"""The ConfigMap in kube-public that only our clusters have."""

# kind adds -control-plane, and a host's name has at most 64
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
_WITHIN = 300.0  # seconds for the nodes to be Ready


class KindCluster(RemoteCluster):
    """The KIND cluster `name`, whether it exists or not; `path` holds what this checkout
    knows about it.
    """

    usual = sidecars.DEFAULT_KIND

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot name a KIND cluster: at most 50 of a-z, 0-9 and '-', with a "
                "letter or digit at both "
                "ends: choose another by --name or KIND_CLUSTER_NAME"
            )
        self.path = paths.state(f"kind-{name}")
        super().__init__(name, self.path / "kubeconfig", "kind")

    def running(self) -> bool:
        """Whether the cluster exists and is complete. Raises UsageError if it is not ours, or
        Docker cannot be used.
        """
        return self._state() == "whole"

    def create(self, *, progress: Progress) -> bool:
        """Make sure that the cluster exists and every node is Ready; False if it existed. A failure
        or interruption leaves nothing.

        Raises UsageError if the cluster is not ours, if Docker cannot be used, and for a
        configuration or an image that is not available; FairleadError with kind's message if kind
        fails.
        """
        config, image = _config(), os.environ.get("KIND_NODE_IMAGE") or NODE_IMAGE
        docker.available()
        toolchain.ensure(["kind"], progress)
        with self._claimed():
            state = self._state()
            if state == "whole":
                return False
            if state == "half-made":
                self._remove()
            _have(image, "KIND_NODE_IMAGE", progress=progress)
            try:
                self._begun.touch()
                kind.create(
                    self.name,
                    config=config,
                    image=image,
                    kubeconfig=self.kubeconfig,
                    wait=_WITHIN,
                    progress=progress,
                )
                self._finish(progress)
            except kind.ExistsError:  # somebody else's, created at the same moment
                self._forget()
                raise
            except BaseException:
                self._remove()
                raise
        return True

    def delete(self) -> bool:
        """Remove the cluster and what this checkout knows about it; False if there was none. Safe
        to repeat.

        Raises UsageError if it is not ours, or Docker cannot be used.
        """
        with self._claimed():
            exists = self._state() != "absent"
            self._remove()
        return exists

    def load_images(self, settings: Settings, *, progress: Progress) -> None:
        """Load the images of OPA and its sidecar into every node: those of the Docker
        engine, or pulled into it first.

        The image that no registry has is built from the checkout if the engine lacks it. With the
        pull policy Always, the nodes pull all images themselves. Raises UsageError with the image
        and its variable if it is not available, FairleadError if it cannot be built or copied to
        the nodes.
        """
        policy = settings.images.pull_policy
        if policy == "Always":
            return
        docker.available()
        decider = ["opa"] if self.sidecar.engine == OPA_ENGINE else []
        containers = [*decider, "controller", self.sidecar.name]
        fields = dict.fromkeys(IMAGES[container] for container in containers)
        variables = {getattr(settings.images, field): IMAGE_VARIABLES[field] for field in fields}
        for image, variable in variables.items():
            _have(image, variable, pull=policy != "Never", progress=progress)
        progress.update("images", f"loading {', '.join(variables)}")
        try:
            kind.load(self.name, list(variables), progress=progress)
        except kind.KindError as error:
            hint = "IMAGE_PULL_POLICY=Always has the nodes pull what a registry holds"
            raise FairleadError(
                f"cannot load {', '.join(variables)} into cluster {self.name!r}: {error}\n{hint}"
            ) from error
        progress.finish("images", f"loaded {', '.join(variables)}")

    def _state(self) -> Literal["absent", "half-made", "whole"]:
        """The state of the cluster. Raises UsageError if it is not ours, or if that is unknown."""
        docker.available()
        if self.name not in kind.clusters():
            return "absent"
        if self._noted() == kind.containers(self.name):
            return "whole"
        problem = self._adopt()
        if problem is None:
            return "whole"
        if self._begun.exists():
            return "half-made"
        raise UsageError(
            f"KIND cluster {self.name!r} exists, but {problem}: choose another name by "
            "KIND_CLUSTER_NAME, "
            f"or remove it by `$(fairlead tools --path kind) delete cluster --name {self.name}`"
        )

    def _adopt(self) -> str | None:
        """Record a cluster that carries our mark as ours; otherwise returns why not, and
        changes nothing.
        """
        try:
            kubeconfig = kind.kubeconfig(self.name)
            with TemporaryDirectory(prefix="fairlead-") as folder:
                path = Path(folder) / "kubeconfig"
                atomic_files.write_private(path, kubeconfig.encode())
                marked = clients.Objects(path).get("v1", "ConfigMap", MARK, "kube-public")
        except FairleadError as error:
            return (
                "does not answer, so that nobody knows whose it is "
                f"({' '.join(str(error).split())})"
            )
        if not marked:
            return "was not made by Fairlead"
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_files.write_private(self.kubeconfig, kubeconfig.encode())
        self._note()
        return None

    def _finish(self, progress: Progress) -> None:
        """Wait for the nodes (kind waits only for control planes), and mark the cluster as
        complete.
        """
        progress.update("kind", "waiting for the nodes")
        objects = self.objects()
        waiting.until(
            lambda: _all_ready(objects), deadline=_WITHIN, what="all nodes are Ready", pause=0.5
        )
        objects.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": MARK, "namespace": "kube-public"},
            }
        )
        self._note()
        progress.finish("kind", "ready")

    def _remove(self) -> None:
        """Remove everything of the cluster: half-made containers and copies of its contexts,
        too.
        """
        contexts.forget(self.kubeconfig)  # first, as kind empties the file

        def is_removed() -> bool:
            kind.delete(self.name, kubeconfig=self.kubeconfig)
            return self.name not in kind.clusters()

        if self.name in kind.clusters():
            waiting.until(
                is_removed,
                deadline=60.0,
                what=f"the containers of cluster {self.name!r} are removed",
                pause=0.5,
            )
        self._forget()

    def _forget(self) -> None:
        """Empty the folder. The folder itself stays, as it is the lock."""
        for path in self.path.iterdir():
            path.unlink()

    @property
    def _begun(self) -> Path:
        """Exists while the cluster is being created, and after that was killed."""
        return self.path / "begun"

    def _noted(self) -> list[str] | None:
        try:
            containers: list[str] = json.loads(
                (self.path / "containers.json").read_text(encoding="utf-8")
            )
        except (OSError, ValueError):
            return None
        return containers

    def _note(self) -> None:
        """Record the containers of the cluster: it is complete, and ours."""
        containers = kind.containers(self.name)
        atomic_files.write_private(self.path / "containers.json", json.dumps(containers).encode())
        self._begun.unlink(missing_ok=True)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Keep other commands from creating or removing this cluster meanwhile; wait for one
        that does.
        """

        def create() -> None:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

        with locks.exclusive(self.path, create=create):
            try:
                yield
            finally:
                with suppress(OSError):  # the cluster exists, and so the folder is not empty
                    self.path.rmdir()


def _config() -> Path:
    """The file that KIND_CONFIG names, or the project's own. Raises InputError."""
    configured = os.environ.get("KIND_CONFIG")
    path = Path(configured) if configured else paths.root() / "integration" / "kind.yaml"
    if not path.is_file():
        raise InputError(
            path, "there is no such file: KIND_CONFIG names the cluster's configuration for kind"
        )
    return path


def _have(image: str, variable: str, *, pull: bool = True, progress: Progress) -> None:
    """Make sure that the Docker engine has the image. Raises UsageError, FairleadError."""
    if image == Images().fairlead:
        if not images.is_current(image):
            progress.update("images", f"building {image}")
            images.sidecar(image, progress)
        return
    if docker.has_image(image):
        return
    if pull:
        progress.update("images", f"pulling {image}")
        if docker.pull(image):
            return
    cause = "it cannot be pulled" if pull else "the pull policy Never forbids to pull it"
    way_out = _WAYS_OUT.get(variable, f"see what `docker pull {image}` says")
    raise UsageError(
        f"no image {image} in the Docker engine, and {cause}: {way_out}, or set {variable} to one "
        "of `docker images`"
    )


_WAYS_OUT = {
    "FAIRLEAD_IMAGE": "build it by `make image`",
    "KUBE_MGMT_IMAGE": "use --sidecar sync",
}


def _all_ready(objects: clients.Objects) -> bool:
    nodes = objects.list("v1", "Node", None)
    return bool(nodes) and all(
        any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"]["conditions"]
        )
        for node in nodes
    )
