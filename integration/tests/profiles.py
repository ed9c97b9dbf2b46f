"""Clusters that tests share. A module names its profile, or several, in PROFILES; without, it is
the default. The cluster of a profile starts at its first test and ends with its last, and all its
tests run in one process (run_order), so that only a few clusters run at once.

Tests leave the cluster as they found it: with the profile's settings and without policies, pools
or webhooks of their own. They use namespaces of their own.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import engine_clusters
import foreign
import left_out
import pytest
import run_order

from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.remote import RemoteCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.operations import deploy, up
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.images import overridden
from fairlead.settings.models import Images, IntentSettings, Settings
from lab import diagnostics, targets

TARGET = targets.of_environment()
EMBEDDED = TARGET.kind == "embedded"
SETTINGS = Settings(images=overridden(Images(), os.environ))
POOLS = {"pool1": 1, "pool2": 1}
DEFAULT = "default"

EVERYTHING = SETTINGS.model_copy(
    update={
        "access": Access(roles=["reader", "missing"]),
        "placement": True,
        "intents": {"federated-placement": IntentSettings()},
        "admins": ["platform"],
        "pool_admins": ["capacity"],
        "contact": "#platform: 'help' \U0001f692",
    }
)
"""All options that leave the decisions about pods alone."""

Start = Callable[[str], AbstractContextManager[Any]]
"""Starts a cluster of this name; it ends with the block."""


def _with_opa(settings: Settings = SETTINGS, *, replicas: int = 1, sidecar: str = "sync") -> Start:
    def start(name: str) -> AbstractContextManager[EmbeddedCluster]:
        return up.started(
            name, settings, POOLS, replicas=replicas, sidecar=sidecar, progress=Progress()
        )

    return start


@contextmanager
def _existing(_: str) -> Iterator[Cluster]:
    cluster = registry.find(TARGET)
    deploy.deploy(cluster, PolicySet.load(SETTINGS), progress=Progress())
    yield cluster


@contextmanager
def _foreign(name: str) -> Iterator[foreign.Foreign]:
    with TemporaryDirectory(prefix=name) as folder, foreign.started(name, Path(folder)) as cluster:
        yield cluster


@contextmanager
def _bare(name: str) -> Iterator[BareCluster]:
    with BareCluster(name) as cluster:
        cluster.start_control_plane(workloads=False, progress=Progress())
        yield cluster


PROFILES: dict[str, Start] = {
    DEFAULT: _with_opa() if EMBEDDED else _existing,
    "processes": _with_opa(),
    "everything": _with_opa(EVERYTHING),
    "two": _with_opa(replicas=2),
    "kube-mgmt": _with_opa(sidecar=sidecars.KUBE_MGMT.name),
    "cel": functools.partial(engine_clusters.started, engine="cel"),
    "python": functools.partial(engine_clusters.started, engine="python"),
    "foreign": _foreign,
    "bare": _bare,
}
"""The default settings, one OPA and the sidecar sync; the same, for tests that kill, suspend or
measure processes, so that two halves can run at once; EVERYTHING; two OPAs; the sidecar kube-mgmt;
an engine of its own; a cluster that Fairlead did not create and is not deployed in; only an API
server, without Fairlead, in which no namespace is ever removed."""


class Running:
    """The clusters that run now, by profile."""

    def __init__(self) -> None:
        self._clusters: dict[str, tuple[ExitStack, Any]] = {}
        self._tests: Counter[str] = Counter()

    def expect(self, items: Iterable[pytest.Item]) -> None:
        """Take note of the tests to come."""
        self._tests = Counter(map(run_order.group, items))

    def get(self, profile: str) -> Any:
        """The cluster of this profile, which starts if it does not run. Skips the test without a
        program that it needs.
        """
        if profile not in self._clusters:
            _require_program(profile)
            with ExitStack() as stack:
                name = f"test-{profile}-{os.getpid()}"
                cluster = stack.enter_context(PROFILES[profile](name))
                self._clusters[profile] = (stack.pop_all(), cluster)
        return self._clusters[profile][1]

    def finish(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """End the clusters whose last test is over, once the fixtures of its module are, too."""
        self._tests[run_order.group(item)] -= 1
        if following is None or following.path != item.path:
            for profile in [name for name in self._clusters if self._tests[name] <= 0]:
                self.end(profile, failed=bool(item.session.testsfailed))

    def end(self, profile: str, *, failed: bool) -> None:
        """End a cluster. If a test has failed, its logs are kept in the folder FAIRLEAD_LOGS."""
        stack, cluster = self._clusters.pop(profile)
        with stack:
            folder = os.environ.get("FAIRLEAD_LOGS")
            if failed and folder and isinstance(cluster, EmbeddedCluster | RemoteCluster):
                diagnostics.collect(cluster, Path(folder) / cluster.name)

    def end_all(self) -> None:
        """End what an aborted run left."""
        for profile in list(self._clusters):
            self.end(profile, failed=False)


def _require_program(profile: str) -> None:
    if profile in sidecars.SIDECARS:
        try:
            sidecars.SIDECARS[profile].command()
        except UsageError as error:
            left_out.skip(profile, str(error))
