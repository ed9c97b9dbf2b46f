"""Brings the policies of an earlier entry of the history back into force, and the settings as far
as policies alone can."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fairlead.clusters.base import Cluster
from fairlead.common import remarks
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names, manifests
from fairlead.deployment.history_log import Entry
from fairlead.deployment.names import SETTINGS_ANNOTATION
from fairlead.operations import bundle_following, history, object_following, push, strategies
from fairlead.operations.change_steps import Change
from fairlead.operations.strategies.base import Operation
from fairlead.policy import bundles, staging
from fairlead.settings.models import Settings

_BESIDE_POLICIES = frozenset(
    {
        "admins",
        "apiServerNetworks",
        "apiServerPorts",
        "certificates",
        "decisionLogs",
        "exceptionAdmins",
        "failurePolicy",
        "findings",
        "images",
        "maxStaleness",
        "poolAdmins",
        "replicas",
        "timeoutSeconds",
    }
)
"""The settings that no decision depends on: policies work with any value of these."""
_SHORT = 60
"""The most characters of a value that a sentence shows."""


def rollback(
    cluster: Cluster, reference: str | None, *, message: str | None = None, progress: Progress
) -> dict[str, Any]:
    """Bring an entry of the history back into force, by default the latest with other policies;
    like `push`, without the tests.

    The settings that only policies read come back with the policies. Those that only a deployment
    can apply stay as they are, if no decision depends on them; without servers, all come back.
    Returns what `push` does, and {direction, from, to, missing, wayBack}: `direction` is "back" or
    "forward", None if it is not known; `from` and `to` are titles of entries (`from` is None if no
    entry brought what is in force); `missing` is a list of {setting, now, then}, the settings that
    stay, and `wayBack` says how to bring them back, None if none stays.

    If the settings of the cluster are an object, the entry's revision is pinned there, and the
    controller does the rest. The objects count again after the next push.

    Raises UsageError if the history does not have it, if another engine enforced it, or if
    decisions depend on settings that need a deployment (nothing was changed).
    """
    remarks.check("--message", message)
    return _rolled_back(cluster, reference, message, progress, by_objects=True)


def by_controller(
    cluster: Cluster, revision: str, *, message: str | None, progress: Progress
) -> dict[str, Any]:
    """What `rollback` does and returns, for a revision that is pinned. Raises as `rollback`."""
    return _rolled_back(cluster, revision, message, progress, by_objects=False)


def _rolled_back(
    cluster: Cluster,
    reference: str | None,
    message: str | None,
    progress: Progress,
    *,
    by_objects: bool,
) -> dict[str, Any]:
    """`by_objects` says whether to leave the change to the controller where it follows objects."""
    with Operation.begun(cluster, progress) as operation:
        objects = operation.objects
        bundle_following.require_no_bundles(objects, bundle_following.PUSH)
        is_followed = by_objects and object_following.followed(objects) is not None
        strategy = strategies.deployed(operation)
        deployed = push.require_deployed(operation)
        if is_followed and strategy.engine not in engine_names.ASKED:
            raise UsageError(object_following.NO_CONTROLLER)
        entries = history.entries(objects)
        entry = chosen(entries, reference, deployed)
        _require_same_engine(entry, deployed)
        manifest, missing = kept(entry), []
        if strategy.engine in engine_names.ASKED:
            staging.require_free_packages(bundles.modules_of(manifest["data"]), {}, progress)
            now = history.settings_of(deployed)
            missing = _missing(now, entry)
            manifest = _manifest(manifest, now, entry.settings)
        in_force = history.current(entries, deployed)
        if is_followed:
            result = push.by_objects(operation, lambda: _pinned(operation, entry, message))
        else:
            change = Change("rollback", message, origin(entry))
            former, new = strategy.read(push.previous(operation, deployed)), strategy.read(manifest)
            result = push.bring(operation, strategy, new, deployed, former, change)
    unknown = (
        [
            f"the settings of {entry.title} are not kept: only those that are written in its "
            "policies came back"
        ]
        if entry.settings is None
        else []
    )
    return {
        **result,
        "direction": direction(in_force, entry),
        "from": in_force.title if in_force else None,
        "to": entry.title,
        "missing": missing,
        "wayBack": way_back(missing, entry) if missing else None,
        "warnings": [*unknown, *result["warnings"]],
    }


def _pinned(operation: Operation, entry: Entry, message: str | None) -> list[str]:
    """Pin the entry's revision; returns what `push` warns of. Raises FairleadError."""
    object_following.pin(operation.objects, entry.revision, message, operation.progress)
    return [f"revision {entry.revision} is pinned: {object_following.UNPIN}"]


def _require_same_engine(entry: Entry, deployed: Mapping[str, Any]) -> None:
    """Raises UsageError if another engine than the deployed one enforced the entry."""
    if entry.manifest is None:
        return
    now, recorded = (engine_names.of(config_map) for config_map in (deployed, entry.manifest))
    if now != recorded:
        raise UsageError(
            f"{recorded} enforced {entry.title}, and now {now} does: run `fairlead deploy --engine "
            f"{recorded}` with the policies and the settings of that time"
        )


def chosen(entries: Sequence[Entry], reference: str | None, deployed: Mapping[str, Any]) -> Entry:
    """The entry that `reference` names, by default the latest with other policies than the deployed
    ones. Raises UsageError.
    """
    if reference is not None:
        return history.find(entries, reference)
    return history.before(entries, bundles.revision(deployed["data"]))


def kept(entry: Entry) -> dict[str, Any]:
    """The ConfigMap of the entry's policies. Raises UsageError if it is kept no more."""
    if entry.manifest is None:
        raise UsageError(
            f"the policies of {entry.title} are not kept: only those of the last {history.KEPT} "
            "revisions are. Take them from version control, and run `fairlead push`"
        )
    return entry.manifest


def _missing(now: Mapping[str, Any] | None, entry: Entry) -> list[dict[str, Any]]:
    """The settings of the entry that a rollback leaves as they are now. Raises UsageError if one of
    them matters to decisions.
    """
    if now is None or entry.settings is None:
        return []
    now, former_settings = Settings.of_deployed(now), Settings.of_deployed(entry.settings)
    differing = [
        {"setting": key, "now": now.get(key), "then": value}
        for key, value in sorted(former_settings.items())
        if key not in push.POLICY_ONLY and now.get(key) != value
    ]
    if any(setting["setting"] not in _BESIDE_POLICIES for setting in differing):
        raise UsageError(
            f"the policies of {entry.title} need settings that only a deployment can apply: "
            f"{shown(differing)}. Nothing was changed. {way_back(differing, entry)}"
        )
    return differing


def way_back(settings: Sequence[Mapping[str, Any]], entry: Entry) -> str:
    """How to bring back the settings of `missing`, with the policies of the entry. The deployment
    comes first, because it brings the policies of this machine.
    """
    values = {setting["setting"]: setting["then"] for setting in settings}
    lines = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return (
        "To have them as they were, write these lines into fairlead.yaml, in place of the same "
        f"keys:\n\n{textwrap.indent(lines, '  ')}\nThen run `fairlead deploy`, and "
        f"`fairlead rollback {entry.number}`."
    )


def shown(settings: Sequence[Mapping[str, Any]]) -> str:
    """The settings of `missing` in one line, with their values if these are short."""
    return "; ".join(_shown(entry) for entry in settings)


def _shown(entry: Mapping[str, Any]) -> str:
    now, then = (json.dumps(entry[time], ensure_ascii=False) for time in ("now", "then"))
    if max(len(now), len(then)) > _SHORT:
        return f"{entry['setting']} is not what it was"
    return f"{entry['setting']} is {now} now and was {then}"


def _manifest(
    manifest: Mapping[str, Any],
    now: Mapping[str, Any] | None,
    recorded: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The policies' ConfigMap with the settings that are in force after the rollback."""
    annotations = manifests.recorded(manifest)
    restored = {key: value for key, value in (recorded or {}).items() if key in push.POLICY_ONLY}
    settings = recorded if now is None else {**now, **restored}
    if settings is not None:
        annotations[SETTINGS_ANNOTATION] = json.dumps(settings)
    return manifests.policies_of(manifest["data"], annotations)


def origin(entry: Entry) -> int:
    """The number of the entry that first brought what this entry brought back."""
    return entry.restored or entry.number


def direction(now: Entry | None, target: Entry) -> str | None:
    """Whether `target` first came before or after what is in force."""
    if now is None or origin(now) == origin(target):
        return None
    return "back" if origin(target) < origin(now) else "forward"
