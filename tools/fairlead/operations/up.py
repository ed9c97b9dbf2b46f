"""Starts a cluster with Fairlead in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType

from fairlead.clusters import registry
from fairlead.clusters.embedded import control_plane
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names, sidecars
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.operations import strategies
from fairlead.operations.deploy import deploy
from fairlead.operations.strategies import python
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

POOLS = ("pool1", "pool2", "pool3")
"""The node pools if neither settings nor flags name any."""

_AMPLE = {"GOGC": "300"}
"""Makes Go collect garbage less often. The API server takes a sixth less of the processors, and up
to 700 MB instead of 400."""
_NONE: Mapping[str, Mapping[str, object]] = MappingProxyType({})


def default_nodes(settings: Settings, count: int = 1) -> dict[str, int]:
    """`count` nodes for every declared pool; without declared pools, for each of POOLS."""
    return dict.fromkeys(settings.pools or POOLS, count)


@contextmanager
def telling_fate(
    cluster: EmbeddedCluster | KindCluster, *, unless: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """If the block fails or is interrupted, add to the error what became of the cluster, but not to
    an error of the types `unless`.
    """
    try:
        yield
    except unless:
        raise
    except BaseException as error:
        error.add_note(registry.fate(cluster))
        raise


@contextmanager
def started(
    name: str,
    settings: Settings,
    nodes: Mapping[str, int],
    *,
    engine: str = OPA_ENGINE,
    replicas: int = 1,
    sidecar: str | None = None,
    further: Mapping[str, Mapping[str, object]] = _NONE,
    workloads: bool = True,
    progress: Progress,
) -> Iterator[EmbeddedCluster]:
    """A new cluster with nodes (pool -> how many) and Fairlead by this engine; it ends with the
    block unless detached. `further` are additional flags of the control plane's servers: server ->
    flag -> value. Without `workloads`, the control plane is only etcd and the API server, and there
    are not nodes.

    It has `replicas` OPAs, each with a `sidecar` of its own. Raises UsageError if that is not
    available, FairleadError if the cluster runs already or does not come up; nothing of it is left
    then.
    """
    strategies.refuse_sidecar(engine, sidecar)
    if engine != OPA_ENGINE and replicas != 1:
        raise UsageError(f"--replicas is about OPA: leave it out with --engine {engine}")
    policies = PolicySet.load(settings)
    if engine == PYTHON_ENGINE:
        python.require(policies)
    # In one call, as missing programs are built in parallel.
    servers = control_plane.PROGRAMS if workloads else control_plane.ADMISSION
    toolchain.ensure((*_programs(engine, sidecar), *servers), progress)
    with telling_fate(EmbeddedCluster(name)), EmbeddedCluster(name) as cluster:
        cluster.start_control_plane(
            further=further, environment=_AMPLE, workloads=workloads, progress=progress
        )
        cluster.scale(replicas)
        labels = {
            pool: dict(settings.assignment(pool).node_selector)
            for pool in nodes
            if pool in settings.pools
        }
        with ThreadPoolExecutor(1) as executor:
            added = executor.submit(
                cluster.add_nodes,
                nodes if workloads else {},
                node_label=settings.node_label,
                labels=labels,
            )
            deploy(cluster, policies, engine=engine, sidecar=sidecar, progress=progress)
            added.result()
        yield cluster


def _programs(engine: str, sidecar: str | None) -> tuple[str, ...]:
    """The programs that the engine runs beside a cluster, without its sidecar, which is checked.
    Raises UsageError if that is not available.
    """
    if engine not in engine_names.ASKED:
        return ()
    if engine == PYTHON_ENGINE:
        return ("opa",)  # it stages the policies
    sidecars.SIDECARS[sidecar or sidecars.DEFAULT.name].command()
    return ("opa", toolchain.FAIRLEAD_OPA)


def kind(
    name: str,
    settings: Settings,
    *,
    engine: str = OPA_ENGINE,
    sidecar: str | None = None,
    deployed: bool = True,
    progress: Progress,
) -> tuple[KindCluster, bool]:
    """A KIND cluster with the images that OPA's pods need, and with Fairlead by this engine unless
    `deployed` is false; and whether the cluster is new.

    It is safe to repeat, and continues after an interruption: creating the cluster leaves all of it
    or nothing, and every later step can be done again. The kind of sidecar stays until another is
    named. Raises UsageError for a cluster, an image or an engine that is not available,
    FairleadError if something does not come up.
    """
    strategies.refuse_sidecar(engine, sidecar)
    policies = PolicySet.load(settings)
    running = python.require(policies) if engine == PYTHON_ENGINE else sidecar
    cluster = KindCluster(name)
    with telling_fate(cluster, unless=(UsageError,)):  # nothing was changed
        new = cluster.create(progress=progress)
    with telling_fate(cluster):
        if running:
            cluster.choose(sidecars.SIDECARS[running])
        cluster.load_images(settings, progress=progress)
        if deployed:
            deploy(cluster, policies, engine=engine, sidecar=sidecar, progress=progress)
    return cluster, new
