"""Brings a revision of the policies into force on every OPA, or restores the previous one."""

from __future__ import annotations

import functools
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.clusters import webhook_connections
from fairlead.clusters.base import Cluster
from fairlead.common import remarks
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    ENGINE_ANNOTATION,
    NAMESPACE,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
    TOKEN_SECRET,
)
from fairlead.kube import clients
from fairlead.operations import (
    applying,
    deployed_state,
    disabling,
    drift,
    history,
    leftovers,
    policy_status,
    problems,
    revision_wait,
)
from fairlead.policy import bundles, staging, usage, workspace
from fairlead.settings.models import Settings

POLICY_ONLY = frozenset({"nodeLabel", "podSelector", "contact", "intents"})
"""The settings that a push applies; all others shape the sidecar and the pods."""


def push(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    message: str | None = None,
    restart: bool = False,
    progress: Progress,
) -> dict[str, Any]:
    """Check and test the policies of `folder` (by default the project's), and bring exactly these
    into force on every OPA.

    With `restart`, every OPA and its sidecar is restarted afterwards, which removes modules that
    OPA would keep. Returns {revision, previous, entry, opa: [{url, revision}], warnings}: `entry`
    is the number of the new entry in the history, with `message`, or None if policies and settings
    were in force already; the warnings name packages that no decision uses, and webhooks that are
    missing or changed.

    Raises FairleadError if a check or a test fails (nothing was changed), or if an OPA does not
    take the policies (the previous ones are restored). Raises UsageError if the change needs a
    deployment, or for a package that no policy may have (staging.require_free_packages).
    """
    bundle = tested(settings, folder, message, progress)
    objects = cluster.objects()
    warnings = unused_packages(bundle, objects, progress)
    engine = cluster.sidecar.engine
    staged = staging.deployed(bundle, settings, engine, progress)
    manifest = manifests.policies(settings, staged, engine)
    _require_same_file_modules(objects)
    _require_same_deployment(
        deployed(cluster, objects), json.loads(json.dumps(settings.deployed_document()))
    )
    result = bring(
        cluster, objects, manifest, Change("push", message), progress=progress, restart=restart
    )
    return {**result, "warnings": [*warnings, *result["warnings"]]}


def tested(
    settings: Settings, folder: Path | None, message: str | None, progress: Progress
) -> bundles.Bundle:
    """The policies that a push with this message may bring into force. Raises UsageError, and
    FairleadError if a check or a test of them fails.
    """
    remarks.check("--message", message)
    progress.update("policies", "checking and testing")
    bundle = bundles.bundle(settings, folder)
    staging.require_free_packages(bundle.modules, bundle.sources, progress)
    try:
        workspace.require_good(settings, folder, progress, remembering=True)
    except UsageError:
        raise
    except FairleadError as error:
        raise FairleadError(f"{error}\nnothing was pushed") from error
    return bundle


def unused_packages(
    bundle: bundles.Bundle, objects: clients.Objects, progress: Progress
) -> list[str]:
    """A sentence for each package of the bundle that no decision uses, also not through the
    policies of other ConfigMaps.
    """
    modules = {(POLICIES, key): text for key, text in bundle.modules.items()}
    others = policy_status.loaded(objects)
    others.pop(POLICIES, None)
    try:
        unused = usage.unused_packages(
            modules,
            {(name, key): text for name, data in others.items() for key, text in data.items()},
            progress,
        )
    except FairleadError:  # an other policy conflicts with a new one; OPA reports it
        unused = usage.unused_packages(modules, {}, progress)
    return [
        f"package {package} is loaded, but no decision uses it: use it in main.rego, or remove it"
        for package in unused
    ]


def changes(
    folders: Callable[[], Sequence[Path]],
    settings_file: Callable[[], Path | None],
    wait: Callable[[], None],
) -> Iterator[None]:
    """Yields at once, and again whenever a policy below the folders or the settings file was
    saved, added or removed, or another settings file came into force. `wait` sleeps between two
    looks.
    """
    last: dict[Path, tuple[int, int]] | None = None
    while True:
        now = {}
        file = settings_file()
        policies = (
            path
            for folder in folders()
            for pattern in ("*.rego", "engines/python.py")
            for path in folder.rglob(pattern)
        )
        for path in (*policies, *([] if file is None else [file])):
            try:
                stat = path.stat()
            except FileNotFoundError:  # an editor is replacing the file
                continue
            now[path] = (stat.st_mtime_ns, stat.st_size)
        if now != last:
            last = now
            yield
        wait()


@dataclass(frozen=True)
class Change:
    """What the history says of a change: see history.record."""

    action: str
    message: str | None = None
    restored: int | None = None


def bring(
    cluster: Cluster,
    objects: clients.Objects,
    manifest: dict[str, Any],
    change: Change,
    *,
    progress: Progress,
    restart: bool = False,
) -> dict[str, Any]:
    """Apply the policies' ConfigMap, wait until it is in force, and record it in the history unless
    it was in force already; on failure restore the previous one. Returns what `push` does.
    """
    previous = _previous(cluster, objects)
    before = deployed(cluster, objects)
    same = before["data"] == manifest["data"] and history.settings_of(
        before
    ) == history.settings_of(manifest)
    credentials = deployed_state.credentials(objects)
    if credentials is None:
        raise UsageError(
            f"cluster {cluster.name} has lost OPA's token or certificate: run `fairlead deploy`"
        )
    if not same:
        applying.require_acceptable(
            objects, drift.rendered(cluster, manifest, credentials, drift.COMPARED)
        )
    revision, old = bundles.revision(manifest["data"]), bundles.revision(previous["data"])
    stale = policy_status.annotation(objects)
    progress.update("policies", f"applying revision {revision}")
    try:
        objects.apply_whole(manifest)
        serving = functools.partial(
            revision_wait.until_in_force,
            cluster,
            objects,
            credentials.token,
            manifest["data"],
            progress=progress,
            stale=stale,
        )
        try:
            states = serving()
        except leftovers.Stuck:
            if not restart:
                raise
            cluster.restart(progress=progress)
            states = serving()
            restart = False
    except (FairleadError, KeyboardInterrupt) as error:
        progress.update("policies", f"putting revision {old} back")
        stale = policy_status.annotation(objects)
        objects.apply_whole(previous)
        revision_wait.until_in_force(
            cluster, objects, credentials.token, previous["data"], progress=progress, stale=stale
        )
        reason = str(error) or "interrupted"
        raise FairleadError(f"{reason}; revision {old} was put back and is in force") from error
    entry = (
        None
        if same
        else history.record(
            objects, manifest, change.action, change.message, restored=change.restored
        )
    )
    warnings = [*updated_admission(cluster, objects, before, manifest, credentials)]
    comparison = drift.compare(cluster, objects, (*drift.GUARDS, *drift.WEBHOOKS))
    warnings += _updated_guards(objects, comparison.objects)
    webhooks = tuple(entry for entry in comparison.objects if entry.kind in drift.WEBHOOKS)
    if restart:
        cluster.restart(progress=progress)
    return {
        "revision": revision,
        "previous": old,
        "entry": entry.number if entry else None,
        "opa": [{"url": state.opa.url, "revision": state.revision} for state in states],
        "warnings": [
            *warnings,
            *problems.of_objects(replace(comparison, objects=webhooks)),
            *problems.of_disabled(disabling.read(objects)),
        ],
    }


def updated_admission(
    cluster: Cluster,
    objects: clients.Objects,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    credentials: Credentials,
) -> Iterator[str]:
    """Bring the webhooks and guards that differ between two ConfigMaps of policies into the
    cluster: those of intents that are new, gone, or about other requests. Others are left as they
    are. Yields what went wrong, as the policies are in force.
    """
    kinds = (*drift.GUARDS, *drift.WEBHOOKS)
    try:
        old, new = (
            {
                (o["kind"], o["metadata"]["name"]): o
                for o in drift.rendered(cluster, config_map, credentials, kinds)
            }
            for config_map in (before, after)
        )
        for identity, manifest in new.items():
            if old.get(identity) != manifest:
                drift.apply_exactly(
                    objects, webhook_connections.with_deployed_comments(objects, manifest)
                )
        for kind, name in old.keys() - new.keys():
            objects.delete(old[kind, name]["apiVersion"], kind, name)
    except FairleadError as error:
        yield (
            "API servers do not ask about all requests that the policies have a say in: the "
            f"webhooks are not those of the new policies. Run `fairlead deploy` ({error})"
        )


def _updated_guards(objects: clients.Objects, compared: Sequence[drift.Compared]) -> Iterator[str]:
    """Apply the guards that the new settings change: they name the contact and the pool labels.
    Yields what went wrong, as the policies are in force.
    """
    try:
        for entry in compared:
            if entry.kind in drift.GUARDS and entry.state == drift.DIFFERS:
                drift.apply_exactly(objects, entry.manifest)
    except FairleadError as error:
        yield f"the guards are not those of the new settings: run `fairlead deploy` ({error})"


def _previous(cluster: Cluster, objects: clients.Objects) -> dict[str, Any]:
    """The manifest to restore if a push fails: the last one in force, as somebody may have broken
    the deployed one.
    """
    config_map = deployed(cluster, objects)
    annotations = config_map["metadata"].get("annotations") or {}
    for entry in history.entries(objects)[:1]:
        if entry.manifest and entry.revision != bundles.revision(config_map["data"]):
            recorded = entry.manifest["metadata"]["annotations"]
            return manifests.policies_of(entry.manifest["data"], recorded)
    own_annotations = {
        key: annotations[key]
        for key in (REVISION_ANNOTATION, SETTINGS_ANNOTATION, ENGINE_ANNOTATION)
        if key in annotations
    }
    return manifests.policies_of(config_map["data"], own_annotations)


def deployed(cluster: Cluster, objects: clients.Objects) -> dict[str, Any]:
    """The policies' ConfigMap. Raises UsageError if there is none."""
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    if config_map is None or not config_map.get("data"):
        raise UsageError(
            f"cluster {cluster.name} has no deployed policies to replace: run `fairlead deploy` "
            "first"
        )
    return config_map


def _require_same_file_modules(objects: clients.Objects) -> None:
    """Raises UsageError if one of FILE_MODULES changed: OPA reads them from a Secret, which a push
    does not change.
    """
    secret = objects.get("v1", "Secret", TOKEN_SECRET, NAMESPACE) or {}
    for name in bundles.FILE_MODULES:
        present = b64decode((secret.get("data") or {}).get(name, "")).decode(errors="replace")
        module = bundles.folder() / name
        if present and not present.startswith(module.read_text(encoding="utf-8", errors="replace")):
            raise UsageError(f"{module} changed since the last deployment: run `fairlead deploy`")


def _require_same_deployment(config_map: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Raises UsageError if a setting differs that policies alone cannot bring into force."""
    old = history.settings_of(config_map)
    if old is None:
        return
    keys = {*new, *old} - POLICY_ONLY
    changed = sorted(key for key in keys if new.get(key) != old.get(key))
    if changed:
        raise UsageError(
            f"{', '.join(changed)} changed since the last deployment: run `fairlead deploy`"
        )
