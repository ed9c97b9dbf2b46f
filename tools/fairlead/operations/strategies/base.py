"""What an engine does at each step of a change; fairlead.operations.change_steps has the order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.disabled_intents import Disabled
from fairlead.kube import clients
from fairlead.operations import deployed_state
from fairlead.operations.applying import Applier, Outcome
from fairlead.operations.deployed_state import Served
from fairlead.operations.drift import Comparison
from fairlead.policy import bundles
from fairlead.policy.policy_set import PolicySet

Key = tuple[str, str, str, str | None]
"""An object's apiVersion, kind, name and namespace."""

_OTHERS = 5.0
"""Seconds within which all API servers of a cluster enforce a change."""


class Overtaken(FairleadError):
    """The cluster records other policies, of another deployment, which puts them in force."""

    def __init__(self) -> None:
        super().__init__(
            "somebody else changed the policies at the same time: run `fairlead status`, and then "
            "deploy again"
        )


@dataclass(frozen=True)
class Operation:
    """A command at work in a cluster. `stack` releases at its end what it holds until then.

    It is `unprivileged` if it looks at no Secret, as it only asks whether the user could deploy.
    """

    cluster: Cluster
    objects: clients.Objects
    applier: Applier
    stack: ExitStack
    progress: Progress
    unprivileged: bool = False

    @classmethod
    @contextmanager
    def begun(
        cls,
        cluster: Cluster,
        progress: Progress,
        outcomes: list[Outcome] | None = None,
        *,
        unprivileged: bool = False,
    ) -> Iterator[Operation]:
        """An operation during the block. What became of each object is added to `outcomes`, also if
        the operation fails.
        """
        objects = cluster.objects()
        applier = Applier(objects)
        try:
            with ExitStack() as stack:
                yield cls(cluster, objects, applier, stack, progress, unprivileged)
        finally:
            if outcomes is not None:
                outcomes += applier.outcomes

    @property
    def config_map(self) -> dict[str, Any] | None:
        """The ConfigMap of the policies in the cluster; None if nothing is deployed."""
        return deployed_state.config_map(self.objects)

    def apply(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Apply the objects in this order. Raises Refused, Unreachable."""
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            self.progress.update("deploy", f"applying {manifest['kind']} {name}")
            self.applier.apply(manifest)


@dataclass(frozen=True)
class Revision:
    """One state of the policies, and the objects that an engine makes of it, in the order in which
    to apply them. `manifest` is the ConfigMap of the policies, which is one of them.
    """

    policies: PolicySet
    manifest: Mapping[str, Any]
    objects: Sequence[dict[str, Any]]

    @property
    def revision(self) -> str:
        """12 hex digits that identify policies and settings."""
        return bundles.revision(self.manifest["data"])

    def records(self, config_map: Mapping[str, Any] | None) -> bool:
        """Whether this ConfigMap has just these policies."""
        return bool((config_map or {}).get("data") == self.manifest["data"])


@dataclass(frozen=True)
class Description:
    """What `fairlead status` shows of an engine beside what all have in common: `rows` are keys of
    its document, and `dated` the certificates (PEM) that end, by name.
    """

    engine: str
    rows: Mapping[str, Any]
    comparison: Comparison
    disabled: Disabled
    dated: Mapping[str, bytes]
    problems: Sequence[str]


class Strategy(Protocol):
    """How an engine comes into force in one cluster, and leaves it."""

    engine: str

    def render(self, policies: PolicySet) -> Revision:
        """The policies as this engine enforces them. Raises UsageError if it cannot enforce one of
        them, or cannot do what the settings ask for, and FairleadError.
        """

    def read(self, config_map: Mapping[str, Any]) -> Revision:
        """The revision that a ConfigMap of the policies records, deployed or of the history. Raises
        FairleadError if somebody damaged it.
        """

    def superfluous(self, new: Revision, former: Revision | None) -> list[Key]:
        """The objects in the cluster that nothing needs once `new` is in force, also those of other
        engines, in the order in which to delete them.
        """

    def apply(self, new: Revision, former: Revision | None) -> None:
        """Bring the policies into the cluster, with what has to be there before they decide. With a
        `former` revision in force, only what differs from it. Raises UsageError if the cluster
        cannot take them (nothing was changed), and FairleadError.
        """

    def wait(self, new: Revision) -> list[Served]:
        """Return when every server decides by `new`: what each of them serves. Raises FairleadError
        if one does not.
        """

    def enforce(self, new: Revision, former: Revision | None) -> list[str]:
        """Have API servers enforce `new`, by what comes last: webhooks, or bindings. Returns what
        went wrong although the policies are in force. Raises FairleadError.
        """

    def remove(self, new: Revision, keys: Sequence[Key]) -> list[str]:
        """Delete what is superfluous, once `new` is in force, and end its servers. Returns what
        else is wrong. Raises FairleadError.
        """

    def describe(self, config_map: Mapping[str, Any] | None) -> Description:
        """The state of the engine, and what is wrong with it. Raises FairleadError if the API
        server does not answer.
        """


def wait_for_api_servers(progress: Progress) -> None:
    """Wait until API servers that were not asked enforce what the one that was asked enforces: they
    look at admission policies every second, and at webhooks at once.
    """
    progress.update("policies", "waiting until all API servers know of the change")
    time.sleep(_OTHERS)


def key_of(manifest: Mapping[str, Any]) -> Key:
    """The key of an object."""
    metadata = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace")
