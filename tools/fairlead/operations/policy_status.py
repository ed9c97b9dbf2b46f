"""Reads the status of policies, which kube-mgmt and `fairlead sync` write into annotations."""

from __future__ import annotations

import json
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.deployment.names import (
    DATA_LABEL,
    NAMESPACE,
    POLICIES,
    POLICY_LABEL,
    REPLICA_STATUS,
    RETRIES,
    STATUS,
)
from fairlead.kube import clients
from fairlead.opa.errors import describe
from fairlead.policy import usage

UNREACHED = "kube-mgmt did not reach OPA"


def policies(objects: clients.Objects) -> list[dict[str, Any]]:
    """Each ConfigMap of policies as {name, status, error, used}: `ok`, `error` with OPA's words, or
    `pending`. `usage` says whether decisions use a policy of it; None if that is not known.
    """
    config_maps = _config_maps(objects)
    usage = _used(_accepted(config_maps))
    return [
        {"name": name, **status(config_map), "used": usage.get(name)}
        for config_map in config_maps
        for name in [config_map["metadata"]["name"]]
    ]


def data(objects: clients.Objects) -> list[dict[str, Any]]:
    """Each ConfigMap of data as {name, status, error}; see `policies`."""
    return [
        {"name": config_map["metadata"]["name"], **status(config_map)}
        for config_map in objects.list("v1", "ConfigMap", NAMESPACE, "=".join(DATA_LABEL))
    ]


def sources(objects: clients.Objects) -> set[str]:
    """OPA's ids of all policies in ConfigMaps, accepted or not."""
    return {
        f"{NAMESPACE}/{config_map['metadata']['name']}/{key}"
        for config_map in _config_maps(objects)
        for key in config_map.get("data") or {}
    }


def loaded(objects: clients.Objects) -> dict[str, dict[str, str]]:
    """The policies that OPA has accepted: the name of a ConfigMap -> key -> text."""
    return _accepted(_config_maps(objects))


def _config_maps(objects: clients.Objects) -> list[dict[str, Any]]:
    return objects.list("v1", "ConfigMap", NAMESPACE, "=".join(POLICY_LABEL))


def _accepted(config_maps: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    return {
        config_map["metadata"]["name"]: config_map.get("data") or {}
        for config_map in config_maps
        if status(config_map)["status"] == "ok"
    }


def _used(loaded: dict[str, dict[str, str]]) -> dict[str, bool]:
    """Whether decisions use the policies of each ConfigMap; empty if OPA cannot tell."""
    if POLICIES not in loaded:
        return {}
    if len(loaded) == 1:  # it decides, and OPA's program need not be built to know that
        return {POLICIES: True}
    modules = {(name, key): text for name, data in loaded.items() for key, text in data.items()}
    try:
        unused = usage.unused(modules)
    except FairleadError:  # OPA would load them one by one, and does not accept all of them
        return {}
    return {name: any((name, key) not in unused for key in data) for name, data in loaded.items()}


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
        if isinstance(entry, dict) and {"Op", "URL", "Err"} <= entry.keys()
        else describe(entry).replace("\n", "; ")
        for entry in problems
    )
    return "; ".join(dict.fromkeys(lines))
