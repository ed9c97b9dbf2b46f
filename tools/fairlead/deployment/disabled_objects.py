"""Switches off webhooks and bindings of admission policies, and keeps them off when their manifests
are applied again.

A webhook that is off has an objectSelector that matches nothing, so API servers do not ask OPA. A
selector is better than a match condition: API servers check it first, so that no CEL expression is
evaluated that could exceed its cost limit. No manifest of Fairlead has one, so those who apply the
manifests again (a GitOps controller, say) leave it. An annotation for each intent records who
switched it off, when and why.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from fairlead.deployment.names import INTENT_LABEL
from fairlead.settings.first_webhooks import FIRST_WEBHOOKS

MARK = "fairlead.dev/disabled"
"""The key of the two expressions that contradict each other."""
RECORD = "disabled.fairlead.dev/"
"""The prefix of the annotations that record what is off; the intent's name follows. The value is
{by, since, reason, until} in JSON; any other text is a reason."""
NOTHING = (
    {"key": MARK, "operator": "Exists"},
    {"key": MARK, "operator": "DoesNotExist"},
)
"""The matchExpressions of a selector that matches nothing."""

_PARTS = ("by", "since", "reason", "until")

FINAL_STATE = "final-state."
"""How the name of a validating webhook begins that asks about the same as a mutating one."""
_DOMAIN = ".fairlead.dev"


@dataclass(frozen=True)
class Record:
    """Who disabled an intent, since when (RFC 3339), and why; None if nobody recorded it.

    `until` is when it is enabled again by itself (RFC 3339), None for never.
    """

    intent: str
    by: str | None = None
    since: str | None = None
    reason: str | None = None
    until: str | None = None

    @property
    def annotation(self) -> str:
        """The value of the annotation."""
        return json.dumps({key: part for key, part in asdict(self).items() if key != "intent"})

    @property
    def sentence(self) -> str:
        """What `fairlead status` and others say."""
        time = f" at {self.since}" if self.since else ""
        reason = f" ({self.reason})" if self.reason else ""
        end = f"{self.until}, or " if self.until else ""
        return (
            f"{self.intent} was disabled{time} by {self.by or 'somebody unknown'}{reason}: it "
            f"decides nothing until {end}`fairlead enable`"
        )

    @property
    def ended(self) -> str:
        """What history and Events say when it is enabled again."""
        since = f" since {self.since}" if self.since else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"it was disabled{since} by {self.by or 'somebody unknown'}{reason}"

    def late(self, now: datetime) -> timedelta | None:
        """How long ago it was to be enabled by itself; None if it has no end. Negative until
        then.
        """
        return now - datetime.fromisoformat(self.until) if self.until else None


def intent_of(webhook: str) -> str:
    """The intent of the webhook with this name: X for X.fairlead.dev and PART.X.fairlead.dev."""
    name = webhook.removesuffix(_DOMAIN)
    return "node-pool" if name in FIRST_WEBHOOKS else name.rpartition(".")[2]


@dataclass(frozen=True)
class Switch:
    """The selector by which API servers enforce an intent: that of a webhook, or of the binding of
    an admission policy.

    A JSON Patch changes what is at `path`: the selector itself, or the matchResources that hold it.
    """

    intent: str
    path: str
    selector: Mapping[str, Any] | None
    match_resources: Mapping[str, Any] | None = None

    @property
    def is_off(self) -> bool:
        """Whether it matches nothing."""
        return is_off(self.selector)

    @property
    def turned_off(self) -> dict[str, Any]:
        """The operation that switches it off."""
        value: Mapping[str, Any] = off(self.selector)
        if self.match_resources is not None:
            value = {**self.match_resources, "objectSelector": value}
        return {"op": "add", "path": self.path, "value": value}

    @property
    def turned_on(self) -> dict[str, Any]:
        """The operation that switches it on. No binding of ours has matchResources then."""
        if self.match_resources is not None:
            return {"op": "remove", "path": self.path}
        return {"op": "add", "path": self.path, "value": on(self.selector)}


def switches(live: Mapping[str, Any]) -> list[Switch]:
    """The switches of a webhook configuration, or of the binding of an intent's policy."""
    if not live["kind"].endswith("AdmissionPolicyBinding"):
        return [
            Switch(
                intent_of(webhook["name"]),
                f"/webhooks/{number}/objectSelector",
                webhook.get("objectSelector"),
            )
            for number, webhook in enumerate(live.get("webhooks") or ())
        ]
    intent = (live["metadata"].get("labels") or {}).get(INTENT_LABEL)
    matched = (live.get("spec") or {}).get("matchResources") or {}
    selector = matched.get("objectSelector")
    return [Switch(intent, "/spec/matchResources", selector, matched)] if intent else []


def records(live: Mapping[str, Any]) -> dict[str, Record]:
    """The disabled intents of an object with switches, by name: those with the annotation, and
    those with a switch that is off.
    """
    annotations = live["metadata"].get("annotations") or {}
    unrecorded = {each.intent: Record(each.intent) for each in switches(live) if each.is_off}
    recorded = {
        key.removeprefix(RECORD): _record(key.removeprefix(RECORD), value)
        for key, value in annotations.items()
        if key.startswith(RECORD)
    }
    return {**unrecorded, **recorded}


def merged(objects: Iterable[Mapping[str, Any]]) -> dict[str, Record]:
    """The disabled intents of several objects, in alphabetical order. What somebody recorded counts
    more than what nobody did.
    """
    by_intent: dict[str, Record] = {}
    for live in objects:
        for intent, record in records(live).items():
            if by_intent.get(intent, Record(intent)) == Record(intent):
                by_intent[intent] = record
    return dict(sorted(by_intent.items()))


def binding_off(binding: Mapping[str, Any]) -> dict[str, Any]:
    """The binding of an admission policy, switched off."""
    spec = binding["spec"]
    matched = spec.get("matchResources") or {}
    selector = off(matched.get("objectSelector"))
    return {
        **binding,
        "spec": {**spec, "matchResources": {**matched, "objectSelector": selector}},
    }


def is_off(selector: Mapping[str, Any] | None) -> bool:
    """Whether a selector has the expressions of NOTHING."""
    operators = {
        expression["operator"]
        for expression in (selector or {}).get("matchExpressions") or ()
        if expression["key"] == MARK
    }
    return operators == {expression["operator"] for expression in NOTHING}


def off(selector: Mapping[str, Any] | None) -> dict[str, Any]:
    """The selector, changed to match nothing; `on` restores it."""
    without = on(selector)
    return {**without, "matchExpressions": [*without.get("matchExpressions", ()), *NOTHING]}


def on(selector: Mapping[str, Any] | None) -> dict[str, Any]:
    """The selector without the expressions of NOTHING."""
    fields = {key: part for key, part in (selector or {}).items() if key != "matchExpressions"}
    expressions = [
        expression
        for expression in (selector or {}).get("matchExpressions") or ()
        if expression["key"] != MARK
    ]
    return {**fields, "matchExpressions": expressions} if expressions else fields


def kept(manifest: Mapping[str, Any], live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The manifest with what is off in `live`, the same object in the cluster; the manifest itself
    if nothing is. A webhook that `live` does not have is off, too, if its intent is disabled.
    """
    if live is None:
        return manifest
    if "webhooks" in manifest:
        disabled = records(live).keys()
        return {**manifest, "webhooks": _switched(manifest, disabled)} if disabled else manifest
    return binding_off(manifest) if any(each.is_off for each in switches(live)) else manifest


def _switched(manifest: Mapping[str, Any], disabled: Collection[str]) -> list[dict[str, Any]]:
    return [
        {**webhook, "objectSelector": off(webhook.get("objectSelector"))}
        if intent_of(webhook["name"]) in disabled
        else webhook
        for webhook in manifest["webhooks"]
    ]


def _record(intent: str, text: str) -> Record:
    """The content of an annotation. Somebody may have written it by hand."""
    try:
        parts = json.loads(text)
        fields = {key: str(parts[key]) for key in _PARTS if parts.get(key)}
    except (ValueError, AttributeError):
        return Record(intent, reason=text or None)
    if not _is_time(fields.get("until", "")):
        fields.pop("until", None)
    return Record(intent, **fields)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
