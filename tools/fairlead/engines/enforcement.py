"""Deploys, changes and describes what enforces the policies of a cluster, whatever engine it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.clusters.kind import KindCluster
from fairlead.common import remarks
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names, sidecars
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.engines.native import bring, deployment, record
from fairlead.engines.native import disabling as native_disabling
from fairlead.engines.native import status as native_status
from fairlead.engines.python import decisions
from fairlead.kube.errors import Refused
from fairlead.operations import bundle_following, history, preflight, up
from fairlead.operations import deploy as opa_deployment
from fairlead.operations import disabling as opa_disabling
from fairlead.operations import push as opa_push
from fairlead.operations import rollback as opa_rollback
from fairlead.operations import status as opa_status
from fairlead.operations.applying import Applier, Outcome
from fairlead.policy import bundles, staging
from fairlead.settings.models import Settings


def deployed(cluster: Cluster) -> str:
    """The engine that enforces the policies of the cluster; `opa` if nothing is deployed, or if the
    user may not read what is.
    """
    try:
        return engine_names.of(record.deployed(cluster.objects()))
    except Refused as error:
        if error.status != 403:
            raise
        return OPA_ENGINE


def deploy(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    message: str | None = None,
    report: Callable[[list[Outcome]], None] = lambda _: None,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Deploy with this engine, by default with what is deployed. Another engine is removed once
    this one enforces the policies. Returns what each OPA serves, as {url, ready, revision}; nothing
    without OPA.

    See fairlead.operations.deploy.deploy. Raises UsageError, FairleadError.
    """
    objects = cluster.objects()
    bundle_following.require_no_bundles(objects, bundle_following.DEPLOY)
    former = engine_names.of(record.deployed(objects))
    engine = engine or former
    if engine not in record.ASKED:
        refuse_sidecar(engine, sidecar)
        deployment.deploy(
            cluster, engine, settings, folder, message=message, report=report, progress=progress
        )
        return []
    states = opa_deployment.deploy(
        cluster,
        settings,
        folder,
        sidecar=_sidecar_of(cluster, engine, sidecar, settings, folder),
        message=message,
        report=report,
        progress=progress,
    )
    applier = Applier(objects)
    try:
        if former not in record.ASKED:
            bring.wait_for_others(progress)
        bring.leave(objects, applier)
        cluster.retire(lambda: bring.wait_for_others(progress))
    finally:
        report(applier.outcomes)
    return [{"url": s.opa.url, "ready": s.ready, "revision": s.revision} for s in states]


@contextmanager
def started(
    name: str,
    settings: Settings,
    nodes: Mapping[str, int],
    *,
    engine: str,
    replicas: int = 1,
    sidecar: str | None = None,
    further: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
    workloads: bool = True,
    progress: Progress,
) -> Iterator[EmbeddedCluster]:
    """A new embedded cluster with Fairlead by this engine; see fairlead.operations.up.started."""
    if engine != OPA_ENGINE:
        refuse_sidecar(engine, sidecar)
        if replicas != 1:
            raise UsageError(f"--replicas is about OPA: leave it out with --engine {engine}")
    if engine in record.ASKED:
        chosen = sidecar or sidecars.DEFAULT_EMBEDDED.name
        if engine == PYTHON_ENGINE:
            chosen = in_python(settings, None)
        with up.started(
            name,
            settings,
            nodes,
            replicas=replicas,
            sidecar=chosen,
            further=further,
            workloads=workloads,
            progress=progress,
        ) as cluster:
            yield cluster
        return

    def install(cluster: EmbeddedCluster) -> None:
        deployment.deploy(cluster, engine, settings, progress=progress)

    with up.started(
        name,
        settings,
        nodes,
        install=install,
        further=further,
        workloads=workloads,
        progress=progress,
    ) as cluster:
        yield cluster


def kind(
    name: str,
    settings: Settings,
    *,
    engine: str,
    sidecar: str | None = None,
    deployed: bool = True,
    progress: Progress,
) -> tuple[KindCluster, bool]:
    """A KIND cluster with Fairlead by this engine; see fairlead.operations.up.kind."""
    if engine != OPA_ENGINE:
        refuse_sidecar(engine, sidecar)
    if engine in record.ASKED:
        chosen = in_python(settings, None) if engine == PYTHON_ENGINE else sidecar
        return up.kind(name, settings, sidecar=chosen, deployed=deployed, progress=progress)
    cluster, new = up.kind(name, settings, deployed=False, progress=progress)
    if deployed:
        with up.telling_fate(cluster):
            deployment.deploy(cluster, engine, settings, progress=progress)
    return cluster, new


def check(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
) -> list[preflight.Finding]:
    """What `deploy` checks before it applies anything. Raises UsageError, FairleadError."""
    bundle_following.require_no_bundles(cluster.objects(), bundle_following.DEPLOY)
    engine = engine or deployed(cluster)
    if engine not in record.ASKED:
        refuse_sidecar(engine, sidecar)
        new = record.made(engine, settings, folder)
        return preflight.check(cluster, deployment.served_kinds(new), settings)
    chosen = _sidecar_of(cluster, engine, sidecar, settings, folder)
    return opa_deployment.check(cluster, settings, folder, sidecar=chosen)


def plan(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    progress: Progress,
) -> list[Outcome]:
    """What `deploy` would do to each object. Changes nothing. Raises UsageError, FairleadError."""
    bundle_following.require_no_bundles(cluster.objects(), bundle_following.DEPLOY)
    engine = engine or deployed(cluster)
    if engine not in record.ASKED:
        refuse_sidecar(engine, sidecar)
        new = record.made(engine, settings, folder)
        return deployment.plan(cluster, new, progress=progress)
    chosen = _sidecar_of(cluster, engine, sidecar, settings, folder)
    return opa_deployment.plan(cluster, settings, folder, sidecar=chosen, progress=progress)


def revision(
    cluster: Cluster, settings: Settings, folder: Path | None = None, *, progress: Progress
) -> str:
    """The revision that a push of these policies would bring. Raises UsageError if the engine that
    is deployed cannot enforce one of them, and FairleadError.
    """
    if (name := deployed(cluster)) not in record.ASKED:
        return record.made(name, settings, folder).revision
    bundle = bundles.bundle(settings, folder)
    return staging.deployed(bundle, settings, name, progress).revision


def push(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    message: str | None = None,
    restart: bool = False,
    progress: Progress,
) -> dict[str, Any]:
    """Push the policies to the engine that is deployed; see fairlead.operations.push.push."""
    objects = cluster.objects()
    bundle_following.require_no_bundles(objects, bundle_following.PUSH)
    engine = engine_names.of(record.deployed(objects))
    if engine == PYTHON_ENGINE:
        in_python(settings, folder)
    if engine in record.ASKED:
        _require_settled(cluster, engine)
        return opa_push.push(
            cluster, settings, folder, message=message, restart=restart, progress=progress
        )
    if restart:
        raise UsageError(
            f"--restart is about OPA, and {engine} enforces the policies: leave it out"
        )
    return deployment.push(cluster, settings, folder, message=message, progress=progress)


def rollback(
    cluster: Cluster, reference: str | None, *, message: str | None = None, progress: Progress
) -> dict[str, Any]:
    """Go back to an entry of the history; see fairlead.operations.rollback.rollback."""
    remarks.check("--message", message)
    objects = cluster.objects()
    bundle_following.require_no_bundles(objects, bundle_following.PUSH)
    config_map = record.deployed(objects)
    if record.engine_of(config_map) not in record.ASKED:
        return deployment.rollback(cluster, reference, message=message, progress=progress)
    if config_map is not None and config_map.get("data"):
        _require_settled(cluster, record.engine_of(config_map))
        entry = opa_rollback.chosen(history.entries(objects), reference, config_map)
        deployment.require_same_engine(entry, config_map)
    return opa_rollback.rollback(cluster, reference, message=message, progress=progress)


def status(cluster: Cluster) -> dict[str, Any]:
    """The status of the engine that is deployed; see fairlead.operations.status.status."""
    config_map = record.deployed(cluster.objects())
    if config_map is None or record.engine_of(config_map) in record.ASKED:
        return opa_status.status(cluster)
    return native_status.status(cluster, config_map)


def disable(cluster: Cluster, intent: str | None, reason: str | None) -> dict[str, Any]:
    """Disable an intent; see fairlead.operations.disabling.disable."""
    result: dict[str, Any] = _disabling(cluster).disable(cluster, intent, reason)
    return result


def enable(cluster: Cluster, intent: str | None) -> dict[str, Any]:
    """Enable an intent again; see fairlead.operations.disabling.enable."""
    result: dict[str, Any] = _disabling(cluster).enable(cluster, intent)
    return result


def _disabling(cluster: Cluster) -> Any:
    """The module that disables intents of the engine that enforces the policies."""
    return opa_disabling if deployed(cluster) in record.ASKED else native_disabling


def _sidecar_of(
    cluster: Cluster, engine: str, sidecar: str | None, settings: Settings, folder: Path | None
) -> str | None:
    """The name of what runs in the pods with an engine that API servers ask; None for what runs
    there now. Raises as `in_python`, and UsageError.
    """
    if engine == PYTHON_ENGINE:
        return in_python(settings, folder, sidecar)
    if sidecar is None and cluster.sidecar.engine != engine:
        return cluster.usual.name
    return sidecar


def in_python(settings: Settings, folder: Path | None, sidecar: str | None = None) -> str:
    """The name of the server in Python. Raises UsageError if a `sidecar` is named, for settings
    that the server does not know, and for an intent that is not written in Python, and InputError
    for one that cannot be loaded.
    """
    refuse_sidecar(PYTHON_ENGINE, sidecar)
    sidecars.SERVE.require(settings)
    decisions.of_folder(settings, folder)
    return sidecars.SERVE.name


def _require_settled(cluster: Cluster, engine: str) -> None:
    """Raises UsageError while what runs is not of the engine that is deployed."""
    if (running := cluster.sidecar.engine) != engine:
        raise UsageError(
            f"the change from {engine} to {running} was interrupted: run `fairlead deploy --engine "
            f"{running}` to complete it, or `--engine {engine}` to go back"
        )


def refuse_sidecar(engine: str, sidecar: str | None) -> None:
    """Raises UsageError if a sidecar is named for another engine than OPA."""
    if sidecar:
        raise UsageError(f"--sidecar is about OPA: leave it out with --engine {engine}")
