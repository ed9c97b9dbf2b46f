"""Deploys, pushes and rolls back policies that objects of the cluster enforce."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import remarks
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import NAMESPACE, OPA
from fairlead.engines.native import bring, record
from fairlead.engines.native.record import Record
from fairlead.kube import clients
from fairlead.operations import (
    applying,
    deployed_state,
    drift,
    history,
    preflight,
    transient_access,
)
from fairlead.operations import (
    push as pushes,
)
from fairlead.operations import (
    rollback as rollbacks,
)
from fairlead.operations.applying import DELETED, Applier, Outcome
from fairlead.policy import bundles, workspace
from fairlead.settings.models import Settings

_LAST_OF_PODS = ("v1", "ServiceAccount", OPA, NAMESPACE)
"""The object of a deployment with pods that is deleted last."""


def deploy(
    cluster: Cluster,
    engine: str,
    settings: Settings,
    folder: Path | None = None,
    *,
    message: str | None = None,
    report: Callable[[list[Outcome]], None] = lambda _: None,
    progress: Progress,
) -> Record:
    """Have the engine enforce the policies, and return once the API server does. What OPA needed is
    deleted then. The other arguments are those of fairlead.operations.deploy.deploy.

    Raises UsageError if the engine or the cluster cannot enforce a policy (nothing was changed),
    and FairleadError.
    """
    remarks.check("--message", message)
    if settings.policies or folder is not None:
        progress.update("policies", "checking and testing")
        workspace.require_good(settings, folder, progress, remembering=True)
    new = record.made(engine, settings, folder)
    if cluster.examined:
        progress.update("cluster", "checking that it can take the deployment")
        preflight.require(preflight.check(cluster, served_kinds(new), settings))
        progress.finish("cluster", "can take the deployment")
    objects = cluster.objects()
    transient_access.require_ended(objects)  # its controller would be deleted
    config_map = record.deployed(objects)
    former = _with_pods(cluster, objects, config_map, (*new.objects, new.manifest))
    applier = Applier(objects)
    try:
        bring.bring(cluster, applier, new, _before(config_map), progress=progress)
        if former:
            bring.wait_for_others(progress)
            for key in former:
                applier.delete(*key)
        if former:
            cluster.stop()
        history.record(objects, dict(new.manifest), "deploy", message)
    finally:
        report(applier.outcomes)
    return new


def served_kinds(new: Record) -> list[dict[str, Any]]:
    """The objects of kinds that the cluster has before a deployment."""
    known = [*new.guards, *new.definitions, *new.bindings, *new.prepared]
    parameters = {each["spec"]["names"]["kind"] for each in new.definitions}
    return [each for each in known if each["kind"] not in parameters]


def plan(cluster: Cluster, new: Record, *, progress: Progress) -> list[Outcome]:
    """What `deploy` would do to each of its objects. Changes nothing. Raises UsageError,
    FairleadError.
    """
    objects = cluster.objects()
    every = (*new.objects, new.manifest)
    outcomes = []
    for done, manifest in enumerate(every):
        progress.update("plan", "comparing the objects", done=done, total=len(every))
        outcomes.append(applying.preview(objects, manifest))
    former = _with_pods(cluster, objects, record.deployed(objects), every)
    outcomes += [Outcome(*key, DELETED) for key in former if objects.get(*key) is not None]
    progress.finish("plan", f"compared {len(outcomes)} objects")
    return outcomes


def push(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    message: str | None = None,
    progress: Progress,
) -> dict[str, Any]:
    """Check and test the policies, and have the engine that is deployed enforce them and the
    settings. Returns what fairlead.operations.push.push does, without any OPA.

    Raises FairleadError if a check or a test fails (nothing was changed), or if the API server does
    not enforce them (those before are put back).
    """
    pushes.tested(settings, folder, message, progress)
    config_map = record.deployed(cluster.objects()) or {}
    new = record.made(record.engine_of(config_map), settings, folder)
    return _changed(cluster, config_map, new, "push", message, None, progress)


def rollback(
    cluster: Cluster, reference: str | None, *, message: str | None = None, progress: Progress
) -> dict[str, Any]:
    """Bring an entry of the history back into force, with all of its settings. Returns what
    fairlead.operations.rollback.rollback does.

    Raises UsageError if the history does not have it, or if another engine enforced it.
    """
    remarks.check("--message", message)
    objects = cluster.objects()
    config_map = record.deployed(objects) or {}
    listed = history.entries(objects)
    entry = rollbacks.chosen(listed, reference, config_map)
    manifest = rollbacks.kept(entry)
    require_same_engine(entry, config_map)
    now = history.current(listed, config_map)
    origin = rollbacks.origin(entry)
    new = record.read(manifest)
    result = _changed(cluster, config_map, new, "rollback", message, origin, progress)
    return {
        **result,
        "direction": rollbacks.direction(listed, now, entry),
        "from": now.title if now else None,
        "to": entry.title,
        "missing": [],
        "wayBack": None,
    }


def require_same_engine(entry: history.Entry, config_map: dict[str, Any]) -> None:
    """Raises UsageError if another engine than the deployed one enforced the entry."""
    if entry.manifest is None:
        return
    now, then = (record.engine_of(each) for each in (config_map, entry.manifest))
    if now != then:
        raise UsageError(
            f"{then} enforced {entry.title}, and now {now} does: run `fairlead deploy --engine "
            f"{then}` with the policies and the settings of that time"
        )


def _changed(
    cluster: Cluster,
    config_map: dict[str, Any],
    new: Record,
    action: str,
    message: str | None,
    restored: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """Bring a record into force, and add an entry to the history unless it was in force already."""
    objects = cluster.objects()
    same = config_map.get("data") == new.manifest["data"] and history.settings_of(
        config_map
    ) == history.settings_of(dict(new.manifest))
    bring.bring(cluster, Applier(objects), new, _before(config_map), progress=progress)
    entry = (
        None
        if same
        else history.record(objects, dict(new.manifest), action, message, restored=restored)
    )
    return {
        "revision": new.revision,
        "previous": bundles.revision(config_map.get("data") or {}),
        "entry": entry.number if entry else None,
        "opa": [],
        "warnings": [],
    }


def _before(config_map: dict[str, Any] | None) -> Record | None:
    """The record that is in force; None if another engine is, or if somebody damaged it."""
    if config_map is None or record.engine_of(config_map) in record.ASKED:
        return None
    with suppress(FairleadError):
        return record.read(config_map)
    return None


def _with_pods(
    cluster: Cluster,
    objects: clients.Objects,
    config_map: dict[str, Any] | None,
    new: Iterable[Mapping[str, Any]],
) -> Sequence[bring.Key]:
    """The objects of a deployment of an engine with pods that this engine does not need, in the
    order in which to delete them. The validating webhooks go first, as they would refuse pods
    without the mutating ones, and what they ask after all webhooks.
    """
    if config_map is None:
        return ()
    # An interrupted deployment of this engine may have left some, and the last one among them.
    if record.engine_of(config_map) not in record.ASKED and objects.get(*_LAST_OF_PODS) is None:
        return ()
    credentials = deployed_state.credentials(objects) or Credentials("", b"", b"", b"")
    remaining = {_key(each) for each in new}
    rendered = manifests.render_objects(
        drift.settings(config_map),
        bundles.Bundle(bundles.modules_of(config_map.get("data") or {})),
        credentials,
        webhook_url=cluster.webhook_url,
        replicas=cluster.replicas,
        sidecar=cluster.sidecar,
    )
    return [key for each in reversed(rendered) if (key := _key(each)) not in remaining]


def _key(manifest: Any) -> bring.Key:
    metadata = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace")
