"""Shows what differs between two entries of the history."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from fairlead.clusters.base import Cluster
from fairlead.deployment.history_log import Entry
from fairlead.operations import history


def differences(cluster: Cluster, old: str, new: str) -> dict[str, Any]:
    """What differs between two entries, by numbers or revisions, as {from, to, policies, settings,
    missing}.

    `from` and `to` are titles. `policies` is a list of {file, diff}, `settings` one of {setting,
    from, to}; `diff` is unified. Either is None if it is not known of both entries, and `missing`
    says why. Raises UsageError if there is no such entry.
    """
    entries = history.entries(cluster.objects())
    before, after = (history.find(entries, reference) for reference in (old, new))
    return {
        "from": before.title,
        "to": after.title,
        "policies": _policies(before, after),
        "settings": _settings(before, after),
        "missing": list(dict.fromkeys([*_missing(before), *_missing(after)])),
    }


def unified(old: str, new: str, old_name: str, new_name: str) -> str:
    """The unified diff of two texts."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), old_name, new_name, lineterm=""
    )
    return "\n".join(lines)


def settings_diff(result: Mapping[str, Any]) -> str:
    """The settings of `differences` as a unified diff of fairlead.yaml."""
    old, new = (
        "".join(
            yaml.safe_dump({entry["setting"]: entry[side]}, allow_unicode=True)
            for entry in result["settings"] or ()
        )
        for side in ("from", "to")
    )
    return unified(old, new, "fairlead.yaml", "fairlead.yaml")


def _missing(entry: Entry) -> Iterator[str]:
    if entry.modules is None:
        yield (
            f"the policies of {entry.title} are not kept: only those of the last {history.KEPT} "
            "revisions are"
        )
    if entry.settings is None:
        yield f"the settings of {entry.title} are not kept"


def _policies(before: Entry, after: Entry) -> list[dict[str, str]] | None:
    old, new = before.modules, after.modules
    if old is None or new is None:
        return [] if before.revision == after.revision else None
    return [
        {"file": file, "diff": unified(old.get(file, ""), new.get(file, ""), file, file)}
        for file in sorted(old.keys() | new.keys())
        if old.get(file) != new.get(file)
    ]


def _settings(before: Entry, after: Entry) -> list[dict[str, Any]] | None:
    if before.settings is None or after.settings is None:
        return None
    return [
        {"setting": key, "from": before.settings.get(key), "to": after.settings.get(key)}
        for key in history.changed_settings(before, after)
    ]
