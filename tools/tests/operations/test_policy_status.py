"""The status of policies, as OPA and its sidecar report it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.deployment.names import POLICIES, STATUS
from fairlead.kube import clients
from fairlead.operations import policy_status

_DIAL = {"Op": "dial", "Net": "tcp", "Err": {"Syscall": "connect", "Err": 111}}
_UNREACHED = {"Op": "Put", "URL": "https://127.0.0.1:8181/v1/policies/a.rego", "Err": _DIAL}
_REFUSED = {
    "code": "invalid_parameter",
    "message": "error(s) occurred while compiling module(s)",
    "errors": [{"message": "unexpected eof", "location": {"file": "a.rego", "row": 3}}],
}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (_REFUSED, "a.rego:3: unexpected eof"),
        ([_REFUSED, _UNREACHED], "a.rego:3: unexpected eof; kube-mgmt did not reach OPA"),
        ([_UNREACHED, _UNREACHED], "kube-mgmt did not reach OPA"),
    ],
)
def test_an_error_is_told_in_a_line(error: Any, words: str) -> None:
    annotations = {STATUS: json.dumps({"status": "error", "error": error})}
    config_map = {"metadata": {"name": "policies", "annotations": annotations}}
    objects = SimpleNamespace(list=lambda *_: [config_map])
    (policies,) = policy_status.policies(cast(clients.Objects, objects))
    assert policies == {"name": "policies", "status": "error", "error": words, "used": None}


def config_map(name: str, text: str, status: str = "ok") -> dict[str, Any]:
    annotations = {STATUS: json.dumps({"status": status})}
    return {"metadata": {"name": name, "annotations": annotations}, "data": {"a.rego": text}}


def test_data_have_a_status_and_policies_are_sources() -> None:
    error = {"code": "invalid_json", "message": "is not JSON"}
    data = {
        "metadata": {
            "name": "teams",
            "annotations": {STATUS: json.dumps({"status": "error", "error": error})},
        }
    }
    by_selector = {
        "openpolicyagent.org/data=opa": [data],
        "openpolicyagent.org/policy=rego": [MAIN],
    }
    objects = cast(clients.Objects, SimpleNamespace(list=lambda *at: by_selector[at[3]]))
    assert policy_status.data(objects) == [
        {"name": "teams", "status": "error", "error": "invalid_json: is not JSON"}
    ]
    assert policy_status.sources(objects) == {f"fairlead/{POLICIES}/a.rego"}


MAIN = config_map(POLICIES, "package system\n\nmain := data.teams[input.team].deny\n")
TEAM = config_map("team", "package teams.a\n\ndeny := set()\n")
BAD = "package idle\n\nx := y\n"
IDLE = config_map("idle", "package idle\n\ndeny := set()\n")


@pytest.mark.parametrize(
    ("config_maps", "used"),
    [
        ([MAIN], {POLICIES: True}),
        ([MAIN, TEAM, IDLE], {POLICIES: True, "team": True, "idle": False}),
        ([MAIN, config_map("bad", BAD, "error")], {POLICIES: True, "bad": None}),
        ([MAIN, config_map("bad", BAD)], {POLICIES: None, "bad": None}),
        ([TEAM], {"team": None}),
    ],
)  # fmt: skip
def test_policies_that_no_decision_uses_are_told(
    config_maps: list[dict[str, Any]], used: dict[str, bool | None]
) -> None:
    objects = SimpleNamespace(list=lambda *_: config_maps)
    rows = policy_status.policies(cast(clients.Objects, objects))
    assert {row["name"]: row["used"] for row in rows} == used
