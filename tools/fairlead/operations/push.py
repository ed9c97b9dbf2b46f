"""Tests changed policies and brings them into force with the deployed engine, or puts back those
before. The steps of that, the same for deploy and rollback, are in `change_steps`."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common import remarks
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names, history_log, manifests
from fairlead.deployment.names import NAMESPACE, OPA, POLICIES, TOKEN_SECRET
from fairlead.keeper.lease import Lease
from fairlead.kube import clients
from fairlead.operations import (
    applying,
    bundle_following,
    change_steps,
    deployed_state,
    history,
    object_comparison,
    object_following,
    policy_status,
    strategies,
)
from fairlead.operations.change_steps import Change
from fairlead.operations.strategies import cel
from fairlead.operations.strategies.base import Operation, Revision, Strategy, key_of
from fairlead.policy import bundles, policy_files, staging, usage, workspace
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

POLICY_ONLY = frozenset({"nodeLabel", "podSelector", "contact", "enforcement", "intents"})
"""The settings that a push applies; all others shape the sidecar and the pods."""
_FIRST = "the controller, for the first policies"
"""Who holds the Lease of the certificate then."""


def push(
    cluster: Cluster,
    policies: PolicySet,
    *,
    message: str | None = None,
    restart: bool = False,
    progress: Progress,
) -> dict[str, Any]:
    """Check and test the policies, and bring exactly these into force.

    With `restart`, every OPA and its sidecar is restarted afterwards, which removes modules that
    OPA would keep. Returns {revision, previous, entry, opa: [{url, revision}], warnings}: `entry`
    is the number of the new entry in the history, with `message`, or None if policies and settings
    were in force already; the warnings name policies that are no longer in force,
    packages that no decision uses, and webhooks that are missing or changed.

    If the settings of the cluster are an object, the policies are applied as objects, too, and the
    controller does the rest.

    Raises FairleadError if a check or a test fails (nothing was changed), or if the engine does not
    take the policies (the previous ones are restored). Raises UsageError if the change needs a
    deployment, or for a package that no policy may have (staging.require_free_packages).
    """
    remarks.check("--message", message)
    with _begun(cluster, progress) as operation:
        with nothing_pushed():
            staging.require_free_packages(policies.modules, policies.sources, progress)
            workspace.require_good(policies, progress, remembering=True)
        asked = deployed_state.engine(operation.objects) in engine_names.ASKED
        if object_following.followed(operation.objects) is not None:
            if not asked:
                raise UsageError(object_following.NO_CONTROLLER)

            def change() -> list[str]:
                return object_following.push(
                    operation.objects, policies, message, operation.progress
                )

            return by_objects(operation, change, restart=restart)
        unused = unused_packages(policies, operation.objects, progress) if asked else []
        result = _carried_out(operation, policies, message, restart=restart)
        return {**result, "warnings": [*unused, *result["warnings"]]}


def by_controller(
    cluster: Cluster, policies: PolicySet, *, message: str | None, progress: Progress
) -> dict[str, Any]:
    """What `push` does and returns, for policies of objects, which were tested where they come
    from: here they are only checked. If nothing was deployed yet, they are the first. Raises as
    `push`.
    """
    with _begun(cluster, progress) as operation:
        is_first = not history_log.read(operation.objects)
        if operation.config_map is None and not is_first:
            raise FairleadError(f"the ConfigMap {POLICIES} is missing, and has to be back first")
        with nothing_pushed():
            workspace.require_sound(policies, progress)
        if not is_first:
            return _carried_out(operation, policies, message, applied=True)
        strategy = strategies.first(operation)
        new, change = strategy.render(policies), Change("deploy", message)
        with Lease(operation.objects, _FIRST).held():  # `fairlead deploy` holds it, too
            return change_steps.bring(operation, strategy, new, None, change).document()


@contextmanager
def _begun(cluster: Cluster, progress: Progress) -> Iterator[Operation]:
    with Operation.begun(cluster, progress) as operation:
        bundle_following.require_no_bundles(operation.objects, bundle_following.PUSH)
        yield operation


def _carried_out(
    operation: Operation,
    policies: PolicySet,
    message: str | None,
    *,
    restart: bool = False,
    applied: bool = False,
) -> dict[str, Any]:
    """`applied` says whether settings may be new that others have applied with the servers."""
    strategy = strategies.deployed(operation, restart=restart)
    with nothing_pushed():
        deployed = require_deployed(operation)
        new = strategy.render(policies)
        if strategy.engine in engine_names.ASKED:
            _require_same_file_modules(operation.objects)
            if not (applied and _is_applied(operation, new)):
                rendered = ", or apply what `fairlead render` writes" if applied else ""
                _require_same_deployment(deployed, policies.settings, rendered)
        former = strategy.read(previous(operation, deployed))
    warnings = dropped(former.policies, policies)
    result = bring(operation, strategy, new, deployed, former, Change("push", message))
    return {**result, "warnings": [*warnings, *result["warnings"]]}


def by_objects(
    operation: Operation, change: Callable[[], list[str]], *, restart: bool = False
) -> dict[str, Any]:
    """What `push` returns, after a change of the objects of the cluster, which waits for the
    controller and returns warnings.
    """
    objects, cluster = operation.objects, operation.cluster
    former = bundles.revision(require_deployed(operation)["data"])
    latest = _latest(objects)
    warnings = change()
    if restart:
        cluster.restart(progress=operation.progress)
    credentials = deployed_state.credentials(objects)
    token = credentials.token if credentials else None
    states = [deployed_state.served(opa, token) for opa in cluster.opas()]
    number = _latest(objects)
    return {
        "revision": bundles.revision(require_deployed(operation)["data"]),
        "previous": former,
        "entry": number if number != latest else None,
        "opa": [{"url": state.opa.url, "revision": state.revision} for state in states],
        "warnings": warnings,
    }


def _latest(objects: clients.Objects) -> int | None:
    """The number of the latest entry of the history; None if there is none."""
    return next((entry.number for entry in history.entries(objects)), None)


def bring(
    operation: Operation,
    strategy: Strategy,
    new: Revision,
    deployed: dict[str, Any],
    former: Revision,
    change: Change,
) -> dict[str, Any]:
    """Put `new` in force in place of the `deployed` ConfigMap, or put `former` back, which is the
    revision of `previous`. Returns what `push` does. Raises UsageError, FairleadError.
    """
    if not change_steps.is_same(deployed, new):
        applying.require_acceptable(operation.objects, new.objects)
    result = change_steps.bring(operation, strategy, new, former, change)
    return result.document()


def revision(
    cluster: Cluster, policies: PolicySet, *, engine: str | None = None, progress: Progress
) -> str:
    """The revision that these policies would have with this engine, by default the deployed one.
    Raises UsageError if the engine cannot enforce one of them, and FairleadError.
    """
    engine = engine or deployed_state.engine(cluster.objects())
    if engine not in engine_names.ASKED:
        return cel.rendered(policies).revision
    return staging.staged(policies, engine, progress).revision


@contextmanager
def nothing_pushed() -> Iterator[None]:
    """Says in errors that they came before any change."""
    try:
        yield
    except FairleadError as error:
        error.args = (f"{error}\nnothing was pushed",)
        raise


def _is_applied(operation: Operation, new: Revision) -> bool:
    """Whether the Deployment of OPA is as this revision needs it. One that runs beside the cluster
    does not say.
    """
    if operation.cluster.webhook_url(operation.cluster.sidecar):
        return False
    identity = ("apps/v1", "Deployment", OPA, NAMESPACE)
    live = operation.objects.get(*identity)
    (manifest,) = (manifest for manifest in new.objects if key_of(manifest) == identity)
    return live is not None and not object_comparison.from_manifest(manifest, live, exactly=False)


def dropped(former: PolicySet, new: PolicySet) -> list[str]:
    """A sentence for each policy that is in force in the cluster and will be no more."""
    remaining = {instance.name for instance in new.active}
    return [
        f"{instance.name} was in force and is no more: these policies and settings do not have it; "
        "if that is a mistake, run `fairlead rollback`"
        for instance in former.active
        if instance.name not in remaining
    ]


def unused_packages(policies: PolicySet, objects: clients.Objects, progress: Progress) -> list[str]:
    """A sentence for each package that no decision uses, also not through the policies of other
    ConfigMaps.
    """
    modules = {(POLICIES, key): text for key, text in policies.modules.items()}
    loaded = policy_status.loaded(objects)
    loaded.pop(POLICIES, None)
    try:
        unused = usage.unused_packages(
            modules,
            {(name, key): text for name, data in loaded.items() for key, text in data.items()},
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
            for pattern in ("*.rego", "intent.yaml", "engines/python.py")
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


def previous(operation: Operation, deployed: dict[str, Any]) -> dict[str, Any]:
    """The ConfigMap to restore if a push fails: the last one in force, as somebody may have broken
    the deployed one.
    """
    for entry in history.entries(operation.objects)[:1]:
        if entry.manifest and entry.revision != bundles.revision(deployed["data"]):
            return entry.manifest
    return manifests.policies_of(deployed["data"], manifests.recorded(deployed))


def require_deployed(operation: Operation) -> dict[str, Any]:
    """The policies' ConfigMap. Raises UsageError if there is none."""
    config_map = operation.config_map
    if config_map is None or not config_map.get("data"):
        raise UsageError(
            f"cluster {operation.cluster.name} has no deployed policies to replace: run `fairlead "
            "deploy` first"
        )
    return config_map


def _require_same_file_modules(objects: clients.Objects) -> None:
    """Raises UsageError if one of FILE_MODULES changed: OPA reads them from a Secret, which a push
    does not change.
    """
    secret = objects.get("v1", "Secret", TOKEN_SECRET, NAMESPACE) or {}
    for name in policy_files.FILE_MODULES:
        present = b64decode((secret.get("data") or {}).get(name, "")).decode(errors="replace")
        module = policy_files.builtin() / name
        if present and not present.startswith(module.read_text(encoding="utf-8", errors="replace")):
            raise UsageError(f"{module} changed since the last deployment: run `fairlead deploy`")


def _require_same_deployment(
    config_map: dict[str, Any], settings: Settings, or_else: str = ""
) -> None:
    """Raises UsageError if a setting differs that policies alone cannot bring into force; `or_else`
    is another way out than a deployment.
    """
    old = history.settings_of(config_map)
    if old is None:
        return
    new: dict[str, Any] = json.loads(json.dumps(settings.deployed_document()))
    keys = {*new, *old} - POLICY_ONLY
    changed = sorted(key for key in keys if new.get(key) != old.get(key))
    if changed:
        raise UsageError(
            f"{', '.join(changed)} changed since the last deployment: run `fairlead deploy`"
            f"{or_else}"
        )
