"""Lists what OPA loads besides its own files: ConfigMaps of policies and PlacementPolicies, and the
ConfigMaps of data that it rejects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.deployment.names import PARAMETERS_GROUP, PLACEMENT_POLICIES
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import policy_status


def listed(objects: clients.Objects) -> list[dict[str, Any]]:
    """Each policy as {kind, name, status, package, installed, revision, decided, conflict, error}.

    `status` is ok, error or pending; unknown if it cannot be read. `installed` is on how many OPAs
    of how many, such as 2/2, and `decided` is the last decision in words, and `conflict` says which
    policies claim one package. ConfigMaps have None for package, installed, revision, decided and
    conflict. Of those with data, whose kind is `ConfigMap of data`, only the rejected ones are
    there. Raises FairleadError.
    """
    rejected = (each for each in policy_status.data(objects) if each["status"] == "error")
    return [
        *(_of_config_map("ConfigMap", each) for each in policy_status.policies(objects)),
        *(_of_config_map("ConfigMap of data", each) for each in rejected),
        *placement_policies(objects),
    ]


def _of_config_map(kind: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": state["name"],
        "status": state["status"],
        **dict.fromkeys(("package", "installed", "revision", "decided", "conflict")),
        "error": state["error"],
    }


def placement_policies(objects: clients.Objects) -> list[dict[str, Any]]:
    """The PlacementPolicies, in the same form; none if the cluster does not serve the kind."""
    return [*map(_row, _placement_policies(objects))]


def _placement_policies(objects: clients.Objects) -> list[dict[str, Any]]:
    _, kind, version = PLACEMENT_POLICIES
    try:
        return objects.list(f"{PARAMETERS_GROUP}/{version}", kind, None)
    except Refused as error:
        if error.status == 404:
            return []
        raise


def _row(policy: Mapping[str, Any]) -> dict[str, Any]:
    metadata, status = policy["metadata"], policy.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    ready, conflict = conditions.get("Ready", {}), conditions.get("Conflicting", {})
    current = status.get("observedGeneration") == metadata.get("generation")
    errors = [_sentence(error) for error in status.get("errors") or ()]
    state = "ok" if ready.get("status") == "True" else "error" if errors else "pending"
    return {
        "kind": PLACEMENT_POLICIES[1],
        "name": metadata["name"],
        "status": state if current else "pending",
        "package": status.get("package") or None,
        "installed": status.get("installed"),
        "revision": status.get("revision"),
        "decided": _decided(status.get("lastDecision") or {}) or None,
        "conflict": conflict.get("message") if conflict.get("status") == "True" else None,
        "error": "; ".join(errors) if current and errors else None,
    }


def _decided(decision: Mapping[str, Any]) -> str:
    """A decision in words, such as `refused Pod team/web at 2026-03-02T12:00:00Z`."""
    name = "/".join(filter(None, (decision.get("namespace"), decision.get("name"))))
    at = f"at {decision['time']}" if decision.get("time") else ""
    return " ".join(filter(None, (decision.get("outcome"), decision.get("kind"), name, at)))


def _sentence(error: Mapping[str, Any]) -> str:
    prefix = f"line {error['line']}: " if error.get("line") else ""
    return f"{prefix}{error.get('message', '')}"
