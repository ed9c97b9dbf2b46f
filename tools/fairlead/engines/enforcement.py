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
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.deployment.final_states import FinalState
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.deployment.shadowing import Engines
from fairlead.engines.native import bring, deployment, final_state, pairs, record
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
    return _deployed(cluster).enforcing


def _deployed(cluster: Cluster) -> Engines:
    """The same, with its shadow."""
    try:
        return Engines.of(record.deployed(cluster.objects()))
    except Refused as error:
        if error.status != 403:
            raise
        return Engines(OPA_ENGINE)


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
    """Deploy with this engine, such as `opa`, or `opa,cel` for one with a shadow; by default with
    what is deployed. Another engine is removed once this one enforces the policies. Returns what
    each OPA serves, as {url, ready, revision}; nothing without OPA.

    See fairlead.operations.deploy.deploy. Raises UsageError, FairleadError.
    """
    objects = cluster.objects()
    bundle_following.require_no_bundles(objects, bundle_following.DEPLOY)
    former = Engines.of(record.deployed(objects))
    engines = Engines.parse(engine) if engine else former
    if engines.asked is None:
        refuse_sidecar(str(engines), sidecar)
        deployment.deploy(
            cluster,
            engines.enforcing,
            settings,
            folder,
            message=message,
            report=report,
            progress=progress,
        )
        return []
    chosen = _sidecar_of(cluster, engines.asked, sidecar, settings, folder)
    paired = pairs.Paired.made(cluster, engines, chosen, settings, folder, progress=progress)
    if paired:
        paired.require_acceptable(cluster)
    enforcing_by_api_server = engines.enforcing not in record.ASKED
    if paired and enforcing_by_api_server:
        deployment.deploy(
            cluster,
            engines.enforcing,
            settings,
            folder,
            paired=paired.record,
            beside=paired.beside,
            message=message,
            report=report,
            progress=progress,
        )
    checked = _checked(cluster, engines, settings, folder, progress)
    states = opa_deployment.deploy(
        cluster,
        settings,
        folder,
        sidecar=chosen,
        message=message,
        tested=enforcing_by_api_server,
        pair=paired.pair if paired else None,
        final_state=checked,
        prepare=lambda: final_state.prepare(cluster, checked, progress=progress),
        report=report,
        progress=progress,
    )
    applier = Applier(objects)
    try:
        if not enforcing_by_api_server:
            if former.enforcing not in record.ASKED:
                bring.wait_for_others(progress)
            if paired:
                bring.bring_beside(cluster, applier, paired.record, progress=progress)
            else:
                bring.leave(objects, applier)
        cluster.retire(lambda: bring.wait_for_others(progress))
    finally:
        report(applier.outcomes)
    warnings = final_state.settle(cluster, progress=progress)
    for warning in [*warnings, *_compare_enabled(cluster)]:
        progress.warn(warning)
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

        def with_policies(cluster: EmbeddedCluster) -> None:
            deploy(cluster, settings, engine=engine, sidecar=sidecar, progress=progress)

        with up.started(
            name,
            settings,
            nodes,
            replicas=replicas,
            sidecar=chosen,
            install=with_policies if settings.final_state == "policy" else None,
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
        asked=False,
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
        by_policies = deployed and settings.final_state == "policy"
        cluster, new = up.kind(
            name,
            settings,
            sidecar=chosen,
            deployed=deployed and not by_policies,
            progress=progress,
        )
        if by_policies:
            with up.telling_fate(cluster):
                deploy(cluster, settings, engine=engine, sidecar=sidecar, progress=progress)
        return cluster, new
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
    engines = Engines.parse(engine) if engine else _deployed(cluster)
    if engines.asked is None:
        refuse_sidecar(str(engines), sidecar)
        new = record.made(engines.enforcing, settings, folder)
        return preflight.check(cluster, deployment.served_kinds(new), settings)
    chosen = _sidecar_of(cluster, engines.asked, sidecar, settings, folder)
    paired = pairs.Paired.made(cluster, engines, chosen, settings, folder, progress=Progress())
    return opa_deployment.check(
        cluster,
        settings,
        folder,
        sidecar=chosen,
        pair=paired.pair if paired else None,
        further=deployment.served_kinds(paired.record) if paired else (),
    )


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
    engines = Engines.parse(engine) if engine else _deployed(cluster)
    if engines.asked is None:
        refuse_sidecar(str(engines), sidecar)
        new = record.made(engines.enforcing, settings, folder)
        return deployment.plan(cluster, new, progress=progress)
    chosen = _sidecar_of(cluster, engines.asked, sidecar, settings, folder)
    paired = pairs.Paired.made(cluster, engines, chosen, settings, folder, progress=progress)
    checked = _checked(cluster, engines, settings, folder, progress)
    planned = opa_deployment.plan(
        cluster,
        settings,
        folder,
        sidecar=chosen,
        pair=paired.pair if paired else None,
        final_state=checked.put(in_place=True) if checked else None,
        progress=progress,
    )
    return [*paired.planned(cluster, planned, progress=progress)] if paired else planned


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
    """Push the policies to the engine that is deployed, and to its shadow; see
    fairlead.operations.push.push.
    """
    objects = cluster.objects()
    bundle_following.require_no_bundles(objects, bundle_following.PUSH)
    config_map = record.deployed(objects)
    engines = Engines.of(config_map)
    if engines.asked == PYTHON_ENGINE:
        in_python(settings, folder)

    def paired() -> record.Record:
        made = pairs.Paired.made(cluster, engines, None, settings, folder, progress=progress)
        assert made is not None  # noqa: S101 - there is a shadow
        made.require_acceptable(cluster)
        return made.record

    if engines.enforcing in record.ASKED:
        _require_settled(cluster, engines.enforcing)
        checked = _checked(cluster, engines, settings, folder, progress)
        with _settled(cluster, progress) as warnings:
            result = opa_push.push(
                cluster,
                settings,
                folder,
                message=message,
                restart=restart,
                made=(lambda: dict(paired().manifest)) if engines.shadow else None,
                final_state=checked,
                prepare=lambda: final_state.prepare(cluster, checked, progress=progress),
                progress=progress,
            )
        result = {**result, "warnings": [*result["warnings"], *warnings]}
    elif restart:
        raise UsageError(
            f"--restart is about OPA, and {engines.enforcing} enforces the policies: leave it out"
        )
    else:
        result = deployment.push(
            cluster,
            settings,
            folder,
            paired=paired if engines.shadow else None,
            message=message,
            progress=progress,
        )
    return _with_shadow(cluster, config_map, result, progress)


def rollback(
    cluster: Cluster, reference: str | None, *, message: str | None = None, progress: Progress
) -> dict[str, Any]:
    """Go back to an entry of the history; see fairlead.operations.rollback.rollback. The shadow
    goes back, too; if the entry had none, or another one, it ends.
    """
    remarks.check("--message", message)
    objects = cluster.objects()
    bundle_following.require_no_bundles(objects, bundle_following.PUSH)
    config_map = record.deployed(objects)
    if record.engine_of(config_map) not in record.ASKED:
        result = deployment.rollback(cluster, reference, message=message, progress=progress)
        return _with_shadow(cluster, config_map, result, progress)
    if config_map is not None and config_map.get("data"):
        _require_settled(cluster, record.engine_of(config_map))
        entry = opa_rollback.chosen(history.entries(objects), reference, config_map)
        deployment.require_same_engine(entry, config_map)
    with _settled(cluster, progress) as warnings:
        result = opa_rollback.rollback(
            cluster,
            reference,
            message=message,
            prepare=lambda: final_state.prepare(cluster, None, progress=progress),
            progress=progress,
        )
    if final_state.readable(config_map) and not FinalState.of(record.deployed(objects)):
        warnings.append(
            f"webhooks check the final state: {result['to']} has no admission policies for it. "
            "Run `fairlead deploy` to have some"
        )
    result = {**result, "warnings": [*result["warnings"], *warnings]}
    return _with_shadow(cluster, config_map, result, progress)


def _checked(
    cluster: Cluster, engines: Engines, settings: Settings, folder: Path | None, progress: Progress
) -> FinalState | None:
    """The admission policies that check the final state; None if webhooks do."""
    if engines.shadow is None:
        return final_state.accepted(
            cluster, settings, folder, engine=engines.enforcing, progress=progress
        )
    if settings.final_state == "policy" and engines.enforcing in record.ASKED:
        progress.warn(
            f"finalState: webhooks check the final state, and no admission policies, as long as "
            f"{engines.shadow} is the shadow of {engines.enforcing}"
        )
    return None


@contextmanager
def _settled(cluster: Cluster, progress: Progress) -> Iterator[list[str]]:
    """After the block, whether it succeeds or not, what the revision in force says of the final
    state holds. The block gets a list, which has what went wrong then.
    """
    warnings: list[str] = []
    try:
        yield warnings
    finally:
        warnings += final_state.settle(cluster, progress=progress)


def _with_shadow(
    cluster: Cluster,
    before: dict[str, Any] | None,
    result: dict[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """The result of a change of the policies, after the shadow was changed, too."""
    warnings = pairs.settle(cluster, before, progress=progress)
    warnings += _compare_enabled(cluster) if Engines.of(before).shadow else []
    return {**result, "warnings": [*result["warnings"], *warnings]}


def status(cluster: Cluster) -> dict[str, Any]:
    """The status of the engine that is deployed; see fairlead.operations.status.status. With a
    shadow, `shadow` is what fairlead.engines.native.pairs.shadow_of returns.
    """
    config_map = record.deployed(cluster.objects())
    engines = Engines.of(config_map)
    if config_map is not None and engines.shadow:
        return pairs.status(cluster, config_map)
    if config_map is None or engines.enforcing in record.ASKED:
        return opa_status.status(cluster)
    return native_status.status(cluster, config_map)


def disable(cluster: Cluster, intent: str | None, reason: str | None) -> dict[str, Any]:
    """Disable an intent; see fairlead.operations.disabling.disable."""
    result: dict[str, Any] = _disabling(cluster).disable(cluster, intent, reason)
    return {**result, "warnings": [*result["warnings"], *_compare_enabled(cluster)]}


def enable(cluster: Cluster, intent: str | None) -> dict[str, Any]:
    """Enable an intent again; see fairlead.operations.disabling.enable."""
    result: dict[str, Any] = _disabling(cluster).enable(cluster, intent)
    return {**result, "warnings": [*result["warnings"], *_compare_enabled(cluster)]}


def _disabling(cluster: Cluster) -> Any:
    """The module that disables intents of the engine that enforces the policies."""
    return opa_disabling if deployed(cluster) in record.ASKED else native_disabling


def _compare_enabled(cluster: Cluster) -> list[str]:
    """Have the shadow compared for all intents that are not disabled. Returns what went wrong, as
    no answer to a user depends on it.
    """
    try:
        if _deployed(cluster).shadow:
            objects = cluster.objects()
            opa_disabling.follow(cluster, objects, _disabling(cluster).read(objects).records)
    except FairleadError as error:
        return [f"the shadow is compared for other intents than are enabled ({error})"]
    return []


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
