"""Reads an API server's answers as decisions, and carries a case's change over to a live object."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from fairlead.engines.base import Decision, Inexpressible, Outcome
from fairlead.kube.responses import Response
from fairlead.policy.cases import Case

# The tolerations that the API server's plugin DefaultTolerationSeconds adds to every pod.
_OWN_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
# What API servers write into every container that does not say it, and the token of the service
# account, which their plugin ServiceAccount mounts.
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "imagePullPolicy": ("Always", "IfNotPresent"),
    "resources": ({},),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
}
# How an API server begins to say that its own validation refuses an object.
_INVALID = re.compile(r'^[A-Z]\w* "[^"]*" is invalid: ')
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - a name
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path


def decision(answer: Response, manifest: Mapping[str, Any]) -> Decision:
    """The decision in the API server's answer to a request for `manifest`, without the parts that
    it adds to every pod itself.
    """
    if not answer.ok:
        return Decision(False, answer.message, None, answer.warnings)
    after = answer.body
    if after.get("kind") == "Pod":
        after = {**after, "spec": _spec(after["spec"], manifest.get("spec") or {})}
    return Decision(True, "", after, answer.warnings)


def refused_early(case: Case, outcome: Outcome, engine: str) -> Outcome:
    """The outcome of a case, for engines whose answer an API server `engine` for last.

    API servers validate objects after what changes them and before what refuses them. So they may
    refuse what the case expects to be refused in words of their own.
    """
    if not isinstance(outcome, Decision) or outcome.allowed or case.expect.allowed:
        return outcome
    if _INVALID.search(outcome.message):
        return Inexpressible(f"the API server itself refuses the object before it asks {engine}")
    return outcome


def _spec(after: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's spec without what the API server adds to every pod."""
    tolerations = [
        t
        for t in after.get("tolerations", ())
        if t in (requested.get("tolerations") or ()) or t not in _OWN_TOLERATIONS
    ]
    volumes = [v for v in after.get("volumes", ()) if not v["name"].startswith(_TOKEN_VOLUME)]
    by_name = {c["name"]: c for key in _CONTAINERS for c in requested.get(key) or ()}
    containers = {
        key: [_container(c, by_name.get(c["name"], {})) for c in after[key]]
        for key in _CONTAINERS
        if key in after
    }
    return {**after, "tolerations": tolerations, "volumes": volumes, **containers}


def _container(after: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
    container = {
        key: value
        for key, value in after.items()
        if key in requested or value not in _DEFAULTS.get(key, ())
    }
    mounts = [m for m in after.get("volumeMounts", ()) if m["mountPath"] != _TOKEN_PATH]
    container.pop("volumeMounts", None)
    return {**container, "volumeMounts": mounts} if mounts else container


def carry(live: Any, old: Any, new: Any) -> Any:
    """`live` with the changes from `old` to `new`. Lists of equal length are compared item by item,
    others are taken from `new`.
    """
    if isinstance(old, dict) and isinstance(new, dict) and isinstance(live, dict):
        result = {key: value for key, value in live.items() if key in new or key not in old}
        changed = {key: value for key, value in new.items() if key not in old or old[key] != value}
        return result | {
            key: carry(live.get(key), old.get(key), value) for key, value in changed.items()
        }
    if (
        isinstance(old, list)
        and isinstance(new, list)
        and isinstance(live, list)
        and len(old) == len(new) == len(live)
    ):
        return [carry(*parts) for parts in zip(live, old, new, strict=True)]
    return copy.deepcopy(live if old == new else new)
