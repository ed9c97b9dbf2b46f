"""The list of ConfigMaps with policies and of Policies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from fairlead.deployment.names import POLICY_LABEL, STATUS
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import policy_list

CONFIG_MAP = {"metadata": {"name": "team", "annotations": {STATUS: json.dumps({"status": "ok"})}}}
FAIRLEAD = {"metadata": {"name": "fairlead"}}


def policy(name: str, generation: int = 1, **status: Any) -> dict[str, Any]:
    """A Policy of the first generation, with what the controller wrote about this one."""
    written = {"observedGeneration": generation, "revision": "0123456789ab", **status}
    return {"metadata": {"name": name, "generation": 1}, "status": written if status else {}}


def ready(status: str) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "message": ""}]


def listed(
    *policies: dict[str, Any],
    fairlead: dict[str, Any] | None = FAIRLEAD,
    error: Refused | None = None,
    data: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    def get(*_: str) -> dict[str, Any] | None:
        if error:
            raise error
        return fairlead

    def list_(_: str, kind: str, __: str | None, labels: str = "") -> list[dict[str, Any]]:
        if kind == "ConfigMap":
            return [CONFIG_MAP] if labels == "=".join(POLICY_LABEL) else list(data)
        return list(policies)

    return policy_list.listed(cast(clients.Objects, SimpleNamespace(list=list_, get=get)))


def test_both_kinds_are_listed_with_what_is_said_of_them() -> None:
    rows = listed(
        policy("good-one", installed="2/2", conditions=ready("True"), errors=None),
        policy(
            "bad",
            installed="0/2",
            conditions=ready("False"),
            errors=[{"line": 3, "message": "spec.rego:3: no"}, {"message": "x"}],
        ),
        policy("waits", conditions=ready("False"), errors=None),
        policy("new"),
        policy("changed", 0, installed="2/2", conditions=ready("True"), errors=[{"message": "x"}]),
    )
    assert [(row["kind"], row["name"], row["status"], row["error"]) for row in rows] == [
        ("ConfigMap", "team", "ok", None),
        ("Policy", "good-one", "ok", None),
        ("Policy", "bad", "error", "spec.rego:3: no; x"),
        ("Policy", "waits", "pending", None),
        ("Policy", "new", "pending", None),
        ("Policy", "changed", "pending", None),
    ]
    assert (rows[1]["installed"], rows[1]["package"]) == ("2/2", "good_one")


def test_data_that_opa_rejects_are_listed_and_others_are_not() -> None:
    problem = {"status": "error", "error": {"code": "invalid_json", "message": "teams is not JSON"}}
    data = [
        {"metadata": {"name": name, "annotations": {STATUS: json.dumps(status)}}}
        for name, status in (("prices", {"status": "ok"}), ("teams", problem))
    ]
    rows = [row for row in listed(data=data) if row["kind"] != "ConfigMap"]
    assert [(row["kind"], row["name"], row["status"]) for row in rows] == [
        ("ConfigMap of data", "teams", "error")
    ]
    assert "teams is not JSON" in rows[0]["error"]


def test_the_last_decision_is_told_in_words() -> None:
    decision = {"time": "2026-03-02T12:00:00Z", "outcome": "denied", "kind": "Pod"}
    rows = listed(
        policy("a", lastDecision={**decision, "namespace": "team", "name": "web"}),
        policy("b"),
    )
    assert [row["decided"] for row in rows] == [
        None,
        "denied Pod team/web at 2026-03-02T12:00:00Z",
        None,
    ]


def test_a_cluster_whose_policies_are_no_objects_has_config_maps_alone() -> None:
    assert [row["name"] for row in listed(policy("idle"), fairlead=None)] == ["team"]
    error = Refused("cannot get Fairlead", 404, None, "")
    assert [row["name"] for row in listed(policy("idle"), error=error)] == ["team"]
