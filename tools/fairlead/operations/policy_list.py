"""Lists what OPA loads besides its own files: ConfigMaps of policies and Policies, and the
ConfigMaps of data that it rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.kube import clients
from fairlead.kube.own_kinds import POLICIES
from fairlead.operations import object_following, policy_status


def listed(objects: clients.Objects) -> list[dict[str, Any]]:
    """Each policy as {kind, name, status, package, installed, revision, decided, error}.

    `status` is ok, error or pending; unknown if it cannot be read. `installed` is on how many OPAs
    of how many, such as 2/2, and `decided` is the last decision in words. ConfigMaps have None for
    package, installed, revision and decided. Of those with data, whose kind is `ConfigMap of data`,
    only the rejected ones are there. Raises FairleadError.
    """
    rejected = (each for each in policy_status.data(objects) if each["status"] == "error")
    return [
        *(_of_config_map("ConfigMap", each) for each in policy_status.policies(objects)),
        *(_of_config_map("ConfigMap of data", each) for each in rejected),
        *map(_of_policy, object_following.policies(objects)),
    ]


def _of_config_map(kind: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": state["name"],
        "status": state["status"],
        **dict.fromkeys(("package", "installed", "revision", "decided")),
        "error": state["error"],
    }


def _of_policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    metadata, status = policy["metadata"], policy.get("status") or {}
    is_current = status.get("observedGeneration") == metadata["generation"]
    errors = [error["message"] for error in status.get("errors") or () if is_current]
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    ready = all(condition["status"] == "True" for condition in conditions)
    return {
        "kind": POLICIES[1],
        "name": metadata["name"],
        "status": "error" if errors else "ok" if is_current and conditions and ready else "pending",
        "package": metadata["name"].replace("-", "_"),
        "installed": status.get("installed"),
        "revision": status.get("revision"),
        "decided": _decided(status.get("lastDecision") or {}) or None,
        "error": "; ".join(errors) or None,
    }


def _decided(decision: Mapping[str, Any]) -> str:
    """A decision in words, such as `denied Pod team/web at 2026-03-02T12:00:00Z`."""
    name = "/".join(filter(None, (decision.get("namespace"), decision.get("name"))))
    at = f"at {decision['time']}" if decision.get("time") else ""
    return " ".join(filter(None, (decision.get("outcome"), decision.get("kind"), name, at)))
