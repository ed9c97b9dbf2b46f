"""Starts a cluster with Fairlead in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType

from fairlead.clusters import registry
from fairlead.clusters.embedded import control_plane
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.operations.deploy import deploy
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

POOLS = ("pool1", "pool2", "pool3")
"""The node pools if neither settings nor flags name any."""

_AMPLE = {"GOGC": "300"}
"""Makes Go collect garbage less often. The API server takes a sixth less of the processors, and up
to 700 MB instead of 400."""
_NONE: Mapping[str, Mapping[str, object]] = MappingProxyType({})


def default_nodes(settings: Settings, each: int = 1) -> dict[str, int]:
    """`each` nodes for every declared pool; without declared pools, for each of POOLS."""
    return dict.fromkeys(settings.pools or POOLS, each)


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
    replicas: int = 1,
    sidecar: str = sidecars.DEFAULT_EMBEDDED.name,
    install: Callable[[EmbeddedCluster], object] | None = None,
    asked: bool = True,
    further: Mapping[str, Mapping[str, object]] = _NONE,
    progress: Progress,
) -> Iterator[EmbeddedCluster]:
    """A new cluster with nodes (pool -> how many) and Fairlead; it ends with the block unless
    detached. `install` deploys Fairlead in another way, and `asked` says whether API servers ask a
    server then. `further` are additional flags of the control plane's servers: server -> flag ->
    value.

    It has `replicas` OPAs, each with a `sidecar` of its own. Raises UsageError if that is not
    available, FairleadError if the cluster runs already or does not come up; nothing of it is left
    then.
    """
    if asked:
        sidecars.SIDECARS[sidecar].command()
    # In one call, as missing programs are built in parallel.
    proxy = (toolchain.PROXY,) if sidecar in sidecars.BESIDE_OPA else ()
    of_opa = ("opa", *proxy) if asked else ()
    toolchain.ensure((*of_opa, *control_plane.PROGRAMS), progress)
    with telling_fate(EmbeddedCluster(name)), EmbeddedCluster(name) as cluster:
        cluster.start_control_plane(further=further, environment=_AMPLE, progress=progress)
        cluster.scale(replicas)
        labels = {
            pool: dict(settings.assignment(pool).node_selector)
            for pool in nodes
            if pool in settings.pools
        }
        with ThreadPoolExecutor(1) as pool:
            added = pool.submit(
                cluster.add_nodes, nodes, node_label=settings.node_label, labels=labels
            )
            if install is None:
                deploy(cluster, settings, sidecar=sidecar, progress=progress)
            else:
                install(cluster)
            added.result()
        yield cluster


def kind(
    name: str,
    settings: Settings,
    *,
    sidecar: str | None = None,
    deployed: bool = True,
    progress: Progress,
) -> tuple[KindCluster, bool]:
    """A KIND cluster with the images that OPA's pods need, and with Fairlead unless `deployed` is
    false; and whether the cluster is new.

    It is safe to repeat, and continues after an interruption: creating the cluster leaves all of it
    or nothing, and every later step can be done again. The kind of sidecar stays until another is
    named. Raises UsageError for a cluster, an image or an engine that is not available,
    FairleadError if something does not come up.
    """
    cluster = KindCluster(name)
    with telling_fate(cluster, unless=(UsageError,)):  # nothing was changed
        new = cluster.create(progress=progress)
    with telling_fate(cluster):
        if sidecar:
            cluster.choose(sidecars.SIDECARS[sidecar])
        cluster.load_images(settings, progress=progress)
        if deployed:
            deploy(cluster, settings, sidecar=sidecar, progress=progress)
    return cluster, new
