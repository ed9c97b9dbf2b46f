"""Reads PlacementPolicies: policies that are objects of the API.

A PlacementPolicy becomes one policy of OPA. Its parameters are appended to its Rego as the rule
`parameters`, so that OPA takes both at once, and lines of errors are those of the Rego.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.deployment.names import (
    LONGEST_REGO,
    PARAMETERS_GROUP,
    PLACEMENT_POLICIES,
    POLICY_OBJECTS,
    REPLICA_STATUS,
    STATUS,
)
from fairlead.policy.revision import fingerprint
from fairlead.sync import policy_problems
from fairlead.sync.config_maps import ConfigMap
from fairlead.sync.stores import canonical

KEY = "rego"
"""The only key of a PlacementPolicy's texts: OPA's id of it is placement_policies/<name>/rego."""
PATH = f"/apis/{PARAMETERS_GROUP}/{PLACEMENT_POLICIES[2]}/{PLACEMENT_POLICIES[0]}"
"""The path of the resource in the API."""
_TOO_LARGE = f"Rego and parameters have more than {LONGEST_REGO:,} characters: split the policy"


def read(value: Mapping[str, Any]) -> ConfigMap:
    """Read a PlacementPolicy from the API's JSON."""
    metadata, spec = value["metadata"], value.get("spec") or {}
    owner = (POLICY_OBJECTS, str(metadata["name"]))
    id_ = "/".join((*owner, KEY))
    text = module(spec)
    problem = policy_problems.of_policy(id_, text)
    if problem is None and len(text) > LONGEST_REGO:
        problem = policy_problems.problem("too_large", _TOO_LARGE, id_)
    content = {"rego": str(spec.get("rego")), "parameters": canonical(spec.get("parameters"))}
    return ConfigMap(
        owner,
        "placement",
        {} if problem else {KEY: text},
        {KEY: problem} if problem else {},
        fingerprint(content),
        str(metadata.get("resourceVersion", "")),
        _reports(value.get("status") or {}),
        created=str(metadata.get("creationTimestamp", "")),
        generation=int(metadata.get("generation", 0)),
    )


def module(spec: Mapping[str, Any]) -> str:
    """The text that OPA gets: the Rego, and below it the parameters as a rule, if there are any."""
    rego, parameters = str(spec.get("rego") or ""), spec.get("parameters")
    # JSON is Rego, too. OPA's parser never reads a rule as the end of a comment or string.
    return f"{rego}\n\nparameters := {canonical(parameters)}\n" if parameters else rego


def _reports(status: Mapping[str, Any]) -> dict[str, str]:
    """The status as if it stood in annotations: that of each replica, and the combined one."""
    reports = {
        REPLICA_STATUS + str(name): canonical(report)
        for name, report in (status.get("opas") or {}).items()
    }
    combined = {key: part for key, part in status.items() if key != "opas"}
    return {**reports, STATUS: canonical(combined)} if combined else reports
