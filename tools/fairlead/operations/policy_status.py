"""Reads the status of policies, which kube-mgmt and `fairlead sync` write into annotations."""

from __future__ import annotations

import json
from typing import Any

from fairlead.deployment.names import (
    NAMESPACE,
    POLICIES,
    POLICY_LABEL,
    REPLICA_STATUS,
    RETRIES,
    STATUS,
)
from fairlead.kube import clients
from fairlead.opa.errors import describe

UNREACHED = "kube-mgmt did not reach OPA"


def policies(objects: clients.Objects) -> list[dict[str, Any]]:
    """Each ConfigMap of policies as {name, status, error}: `ok`, `error` with OPA's words, or
    `pending`.
    """
    return [
        {"name": config_map["metadata"]["name"], **status(config_map)}
        for config_map in objects.list("v1", "ConfigMap", NAMESPACE, "=".join(POLICY_LABEL))
    ]


def annotation(objects: clients.Objects) -> str | None:
    """The raw status annotation of the policies' ConfigMap."""
    return read_annotation(objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {})


def read_annotation(config_map: dict[str, Any], name: str = STATUS) -> str | None:
    """The annotation of a ConfigMap as it stands there; None if it has none."""
    value = (config_map.get("metadata", {}).get("annotations") or {}).get(name)
    return None if value is None else str(value)


def replicas(config_map: dict[str, Any]) -> list[dict[str, Any]]:
    """The report of each replica of `fairlead sync` on the ConfigMap: {"status", "error"?, "of": a
    fingerprint}.
    """
    states = []
    for name in config_map.get("metadata", {}).get("annotations") or {}:
        if name.startswith(REPLICA_STATUS):
            try:
                states.append(dict(json.loads(read_annotation(config_map, name) or "")))
            except (ValueError, TypeError):
                continue  # somebody changed it; its replica will write it again
    return states


def status(config_map: dict[str, Any]) -> dict[str, Any]:
    """The status annotation, parsed. kube-mgmt and `fairlead sync` write the same form, and people
    may write anything.
    """
    raw = read_annotation(config_map)
    if raw is None:
        return {"status": "pending", "error": None}
    try:
        report = json.loads(raw)
        state, problem = str(report["status"]), report.get("error")
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"status": "unknown", "error": f"the annotation {STATUS} cannot be read"}
    if state == "error" and read_annotation(config_map, RETRIES) not in (None, "0"):
        state = "pending"
    return {"status": state, "error": line(problem) if problem else None}


def line(problem: Any) -> str:
    """OPA's error object, or a list of them, in one line; UNREACHED for an error of Go's net/http,
    which kube-mgmt reports if it does not reach OPA.
    """
    problems = problem if isinstance(problem, list) else [problem]
    lines = (
        UNREACHED
        if isinstance(each, dict) and {"Op", "URL", "Err"} <= each.keys()
        else describe(each).replace("\n", "; ")
        for each in problems
    )
    return "; ".join(dict.fromkeys(lines))
