"""The webhook by which API servers ask whether a PlacementPolicy may be stored."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import every

from fairlead.common import paths
from fairlead.deployment.names import OPA_PROGRAM, POLICY_REVIEWS, POLICY_WEBHOOK

IDENTITY = ("ValidatingWebhookConfiguration", POLICY_WEBHOOK)


@pytest.fixture(scope="module")
def rendered() -> dict[tuple[str, str], dict[str, Any]]:
    return every({"placementPolicies": True})


def containers(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    pod = objects["Deployment", "opa"]["spec"]["template"]["spec"]
    return {container["name"]: container for container in pod["containers"]}


def test_it_asks_about_placement_policies_alone_and_fails_closed(
    rendered: dict[tuple[str, str], dict[str, Any]],
) -> None:
    (webhook,) = rendered[IDENTITY]["webhooks"]
    assert webhook["rules"] == [
        {
            "apiGroups": ["policy.fairlead.dev"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["placementpolicies"],
            "scope": "Cluster",
        }
    ]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
    assert webhook["clientConfig"]["service"]["path"] == POLICY_REVIEWS


def test_opa_passes_the_question_on_to_a_sidecar_with_room_to_compile(
    rendered: dict[tuple[str, str], dict[str, Any]],
) -> None:
    with_policies = containers(rendered)
    asked = "--set=plugins.fairlead.sidecar_url=https://127.0.0.1:8444"
    assert asked in with_policies["opa"]["args"]
    sync = with_policies["sync"]
    assert sync["resources"]["limits"]["memory"] == "512Mi"
    (modules,) = [mount for mount in sync["volumeMounts"] if mount["mountPath"] == "/tmp"]  # noqa: S108
    volumes = rendered["Deployment", "opa"]["spec"]["template"]["spec"]["volumes"]
    assert modules["name"] in [volume["name"] for volume in volumes]


def test_without_the_setting_nothing_asks_and_nothing_answers() -> None:
    objects = every()
    assert IDENTITY not in objects
    without = containers(objects)
    assert not [flag for flag in without["opa"]["args"] if "sidecar_url" in flag]
    assert without["sync"]["resources"]["limits"]["memory"] == "256Mi"


def test_the_controller_may_change_by_which_ca_it_is_verified(
    rendered: dict[tuple[str, str], dict[str, Any]],
) -> None:
    (rule, *_) = rendered["ClusterRole", "fairlead-controller"]["rules"]
    assert POLICY_WEBHOOK in rule["resourceNames"]


def test_the_image_has_the_program_where_the_sidecar_looks_for_it() -> None:
    dockerfile = (paths.root() / "integration" / "image" / "Dockerfile").read_text()
    assert f"-o /image{OPA_PROGRAM} ." in dockerfile
