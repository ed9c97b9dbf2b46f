"""Brings a revision of the policies into force on every OPA, or restores the previous one."""

from __future__ import annotations

import functools
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.names import (
    NAMESPACE,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
    TOKEN_SECRET,
)
from fairlead.kube import clients
from fairlead.opa import cli
from fairlead.operations import (
    deployed_state,
    drift,
    history,
    leftovers,
    policy_status,
    problems,
    revision_wait,
)
from fairlead.policy import bundles, staging, usage
from fairlead.settings.models import Settings

# The settings that only policies read; all others shape the webhook, the sidecar and the pods.
_POLICY_ONLY = {"nodeLabel", "podSelector", "contact"}


def push(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    restart: bool = False,
    progress: Progress,
) -> dict[str, Any]:
    """Check and test the policies of `folder` (by default the project's), and bring exactly these
    into force on every OPA.

    With `restart`, every OPA and its sidecar is restarted afterwards, which removes modules that
    OPA would keep. Returns {revision, previous, opa: [{url, revision}], warnings}: the
    warnings name packages that no decision uses, and webhooks that are missing or changed.

    Raises FairleadError if a check or a test fails (nothing was changed), or if an OPA does not
    take the policies (the previous ones are restored). Raises UsageError if the change needs a
    deployment, or for a package that is OPA's own.
    """
    progress.update("policies", "checking and testing")
    bundle = bundles.bundle(settings, folder)
    staging.require_none_of_opas_own(bundle.modules, bundle.sources, progress)
    require_good(folder or bundles.folder(), progress)
    objects = cluster.objects()
    warnings = unused_packages(bundle, objects, progress)
    bundle = staging.stage(bundle, progress)
    _require_same_file_modules(objects)
    _require_same_deployment(
        _deployed(cluster, objects), json.loads(json.dumps(settings.document()))
    )
    result = _bring(
        cluster, objects, manifests.policies(settings, bundle), progress, restart=restart
    )
    return {**result, "warnings": [*warnings, *result["warnings"]]}


def rollback(cluster: Cluster, revision: str | None, *, progress: Progress) -> dict[str, Any]:
    """Bring an earlier revision back into force, by default the last one; like `push`, without the
    tests.

    Raises UsageError if the history does not have it, or if the change needs a deployment.
    """
    objects = cluster.objects()
    deployed = _deployed(cluster, objects)
    entry = history.find(objects, revision, bundles.revision(deployed["data"]))
    staging.require_none_of_opas_own(entry.manifest["data"], {}, progress)
    _require_same_deployment(deployed, history.settings_of(entry.manifest))
    return _bring(cluster, objects, entry.manifest, progress)


def require_good(folder: Path, progress: Progress) -> None:
    """Raises FairleadError unless the policies compile in strict mode and all their tests pass."""
    cli.check(folder, paths.root() / "tools" / "schemas", progress=progress)
    result = cli.test(folder, progress=progress)
    if result.failed:
        raise FairleadError(f"policy tests fail, nothing was pushed: {', '.join(result.failed)}")


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


def changes(folder: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Yields at once, and again whenever a policy below `folder` was saved, added or removed;
    `wait` sleeps between two looks.
    """
    last: dict[Path, tuple[int, int]] | None = None
    while True:
        now = {}
        for path in folder.rglob("*.rego"):
            try:
                stat = path.stat()
            except FileNotFoundError:  # an editor is replacing the file
                continue
            now[path] = (stat.st_mtime_ns, stat.st_size)
        if now != last:
            last = now
            yield
        wait()


def _bring(
    cluster: Cluster,
    objects: clients.Objects,
    manifest: dict[str, Any],
    progress: Progress,
    *,
    restart: bool = False,
) -> dict[str, Any]:
    """Apply the policies' ConfigMap, wait until it is in force, and record it in the history; on
    failure restore the previous one.
    """
    previous = _previous(cluster, objects)
    credentials = deployed_state.credentials(objects)
    if credentials is None:
        raise UsageError(
            f"cluster {cluster.name} has lost OPA's token or certificate: run `fairlead deploy`"
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
    history.record(objects, manifest)
    comparison = drift.compare(cluster, objects, (*drift.GUARDS, *drift.WEBHOOKS))
    warnings = list(_updated_guards(objects, comparison.objects))
    webhooks = tuple(entry for entry in comparison.objects if entry.kind in drift.WEBHOOKS)
    if restart:
        cluster.restart(progress=progress)
    return {
        "revision": revision,
        "previous": old,
        "opa": [{"url": state.opa.url, "revision": state.revision} for state in states],
        "warnings": [
            *warnings,
            *problems.of_objects(replace(comparison, objects=webhooks)),
        ],
    }


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
    config_map = _deployed(cluster, objects)
    for entry in history.entries(objects)[:1]:
        if entry.revision != bundles.revision(config_map["data"]):
            return entry.manifest
    annotations = config_map["metadata"].get("annotations") or {}
    own_annotations = {
        key: annotations[key]
        for key in (REVISION_ANNOTATION, SETTINGS_ANNOTATION)
        if key in annotations
    }
    return manifests.policies_of(config_map["data"], own_annotations)


def _deployed(cluster: Cluster, objects: clients.Objects) -> dict[str, Any]:
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
        deployed = b64decode((secret.get("data") or {}).get(name, "")).decode(errors="replace")
        module = bundles.folder() / name
        if deployed and not deployed.startswith(
            module.read_text(encoding="utf-8", errors="replace")
        ):
            raise UsageError(f"{module} changed since the last deployment: run `fairlead deploy`")


def _require_same_deployment(deployed: dict[str, Any], new: Mapping[str, Any] | None) -> None:
    """Raises UsageError if a setting differs that policies alone cannot bring into force."""
    old = history.settings_of(deployed)
    if old is None or new is None:
        return
    changed = sorted(key for key in new if key not in _POLICY_ONLY and new[key] != old.get(key))
    if changed:
        raise UsageError(
            f"{', '.join(changed)} changed since the last deployment: run `fairlead deploy`"
        )
