"""The list of ConfigMaps with policies and of PlacementPolicies."""

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


def policy(name: str, generation: int = 1, **status: Any) -> dict[str, Any]:
    """A PlacementPolicy of the first generation, with the status that sidecars wrote about this
    one.
    """
    written = {"observedGeneration": generation, "revision": "0123456789ab", **status}
    return {"metadata": {"name": name, "generation": 1}, "status": written if status else {}}


def condition(type_: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "message": message}


def listed(
    *policies: dict[str, Any],
    error: Refused | None = None,
    data: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    def list_(_: str, kind: str, __: str | None, labels: str = "") -> list[dict[str, Any]]:
        if kind == "ConfigMap":
            return [CONFIG_MAP] if labels == "=".join(POLICY_LABEL) else list(data)
        if error:
            raise error
        return list(policies)

    return policy_list.listed(cast(clients.Objects, SimpleNamespace(list=list_)))


def test_both_kinds_are_listed_with_what_their_sidecars_say() -> None:
    ready = condition("Ready", "True")
    rows = listed(
        policy("good", installed="2/2", package="teams", conditions=[ready], errors=[]),
        policy(
            "bad",
            installed="0/2",
            conditions=[condition("Ready", "False")],
            errors=[{"line": 3, "message": "no"}, {"line": 0, "message": "x"}],
        ),
        policy("new"),
        policy("changed", 0, installed="2/2", conditions=[ready], errors=[{"line": 1}]),
    )
    assert [(row["kind"], row["name"], row["status"], row["error"]) for row in rows] == [
        ("ConfigMap", "team", "ok", None),
        ("PlacementPolicy", "good", "ok", None),
        ("PlacementPolicy", "bad", "error", "line 3: no; x"),
        ("PlacementPolicy", "new", "pending", None),
        ("PlacementPolicy", "changed", "pending", None),
    ]
    assert (rows[1]["installed"], rows[1]["package"]) == ("2/2", "teams")


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
    decision = {"time": "2026-03-02T12:00:00Z", "outcome": "refused", "kind": "Pod"}
    rows = listed(
        policy("a", lastDecision={**decision, "namespace": "team", "name": "web"}),
        policy("b", lastDecision={"time": "2026-03-02T12:00:00Z", "outcome": "undefined"}),
        policy("c"),
    )
    assert [row["decided"] for row in rows] == [
        None,
        "refused Pod team/web at 2026-03-02T12:00:00Z",
        "undefined at 2026-03-02T12:00:00Z",
        None,
    ]


def test_a_conflict_is_told_of_the_one_in_force_too() -> None:
    conditions = [
        condition("Ready", "True"),
        condition("Conflicting", "True", "b also claims it"),
    ]
    (_, row) = listed(policy("a", installed="1/1", conditions=conditions))
    assert (row["status"], row["conflict"]) == ("ok", "b also claims it")


def test_a_cluster_without_the_kind_has_config_maps_alone() -> None:
    error = Refused("cannot list PlacementPolicy", 404, None, "")
    assert [row["name"] for row in listed(error=error)] == ["team"]
