"""The webhooks' manifests: for what they call OPA, and what happens if it does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rendering import render

from fairlead.common.errors import UsageError


def expressions(webhook: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(e.values()) for e in webhook["namespaceSelector"]["matchExpressions"]]


def webhooks(rendered: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The webhooks of both kinds, by the first part of their names; the mutating one comes
    first.
    """
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {
        webhook["name"].removesuffix(".fairlead.dev").removesuffix(".node-pool"): webhook
        for kind in kinds
        for webhook in rendered[kind]["webhooks"]
    }


UNMAPPED = ("opted-out-daemonsets", "unlabelled-daemonsets")
MUTATING = ("node-pool", "updates")
"""The webhooks that ask about pods: creations, which have no condition, and updates."""
FINAL_STATE = ("final-state", "final-state.updates")


def test_the_webhooks_fail_closed_and_ask_for_mapped_namespaces_only() -> None:
    rendered = webhooks(render())
    policies = {name: webhook["failurePolicy"] for name, webhook in rendered.items()}
    closed = dict.fromkeys((*MUTATING, *FINAL_STATE, "daemonsets"), "Fail")
    assert policies == {**closed, **dict.fromkeys(("workloads", *UNMAPPED), "Ignore")}
    for name, webhook in rendered.items():
        assert webhook["admissionReviewVersions"] == ["v1"]
        if name not in UNMAPPED:
            assert ("agentpool", "Exists") in expressions(webhook)
            assert ("agentpool", "NotIn", [""]) in expressions(webhook)
        assert webhook["clientConfig"]["service"]["name"] == "opa"
        assert webhook["clientConfig"]["service"]["path"] == "/intents/node-pool"
        assert ("matchConditions" in webhook) == (name != "node-pool")
    (condition,) = rendered["final-state"]["matchConditions"]
    assert condition["name"] == "not-as-decided"
    assert {
        name
        for name, webhook in rendered.items()
        if webhook.get("reinvocationPolicy") == "IfNeeded"
    } == {
        *MUTATING,
        "daemonsets",
        *UNMAPPED,
    }


def test_without_a_pool_only_what_a_pool_gave_to_a_daemon_set_is_asked_about() -> None:
    for chosen, selectors in (
        ({}, {"opted-out-daemonsets": ("In", [""]), "unlabelled-daemonsets": ("DoesNotExist",)}),
        ({"defaultPool": "x"}, {"opted-out-daemonsets": ("In", [""])}),
    ):
        rendered = webhooks(render({**chosen, "failurePolicy": "Fail"}))
        assert {name for name in rendered if name.endswith("-daemonsets")} == selectors.keys()
        for name, selector in selectors.items():
            assert expressions(rendered[name])[1:] == [("agentpool", *selector)]
            assert rendered[name]["failurePolicy"] == "Ignore"
            conditions = {
                condition["name"]: condition["expression"]
                for condition in rendered[name]["matchConditions"]
            }
            assert conditions.keys() >= {"template-changes", "has-something-of-a-pool"}
            assert "'fairlead.dev/assigned' in" in conditions["has-something-of-a-pool"]


def test_the_webhooks_ask_for_just_what_policies_have_a_say_in_and_change_nothing_else() -> None:
    rendered = webhooks(render({"pools": {"cheap": {}}, "timeoutSeconds": 3}))
    workloads = {
        "deployments",
        "replicasets",
        "statefulsets",
        "jobs",
        "cronjobs",
        "replicationcontrollers",
    }
    resources = {
        **{name: {"pods"} for name in (*MUTATING, *FINAL_STATE)},
        "daemonsets": {"daemonsets"},
        "workloads": workloads,
    }
    asked = {
        name: {resource for rule in webhook["rules"] for resource in rule["resources"]}
        for name, webhook in rendered.items()
    }
    assert asked == {
        **resources,
        "namespaces": {"namespaces"},
        **{name: {"daemonsets"} for name in UNMAPPED},
    }
    creating = {name: ["CREATE"] for name in ("node-pool", "final-state")}
    alone = creating | {name: ["UPDATE"] for name in ("updates", "final-state.updates")}
    for name, webhook in rendered.items():
        for rule in webhook["rules"]:
            assert rule["operations"] == alone.get(name, ["CREATE", "UPDATE"])
            assert rule["apiVersions"] == ["v1"]
            scope = "Cluster" if webhook is rendered["namespaces"] else "Namespaced"
            assert rule["scope"] == scope
        assert webhook["sideEffects"] == "None"
        assert webhook["matchPolicy"] == "Equivalent"


def test_nobody_waits_longer_than_a_second_for_a_warning_or_without_a_pool() -> None:
    rendered = webhooks(render({"pools": {"cheap": {}}, "timeoutSeconds": 3}))
    timeouts = {name: webhook["timeoutSeconds"] for name, webhook in rendered.items()}
    decided = dict.fromkeys((*MUTATING, *FINAL_STATE, "daemonsets"), 3)
    assert timeouts == {**decided, "workloads": 1, "namespaces": 1, **dict.fromkeys(UNMAPPED, 1)}


def test_the_validating_webhook_is_the_last_that_is_applied() -> None:
    assert [*render()][-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_the_failure_policy_is_the_settings_but_what_only_warns_never_fails_closed() -> None:
    def policies(chosen: dict[str, Any]) -> dict[str, str]:
        return {
            name: webhook["failurePolicy"] for name, webhook in webhooks(render(chosen)).items()
        }

    assert set(policies({"failurePolicy": "Ignore"}).values()) == {"Ignore"}
    trial = policies({"enforcement": "warn"})
    closed = dict.fromkeys((*MUTATING, "daemonsets"), "Fail")
    assert trial == {**closed, **dict.fromkeys((*FINAL_STATE, "workloads", *UNMAPPED), "Ignore")}


def test_updates_of_tolerations_are_asked_about_where_a_pool_limits_them() -> None:
    for allowed, asked in ((None, False), ([], True), ([{"key": "a"}], True)):
        rendered = webhooks(render({"pools": {"a": {"allowedTolerations": allowed}, "b": {}}}))
        for name in ("updates", "final-state.updates"):
            condition = rendered[name]["matchConditions"][0]
            assert (
                "object.spec.?tolerations != oldObject.spec.?tolerations" in condition["expression"]
            ) == asked


def test_no_selector_may_lock_the_cluster_or_opa_out() -> None:
    for chosen in ({}, {"defaultPool": "x"}):
        exempt = ["kube-system", "kube-public", "kube-node-lease", "fairlead"]
        for webhook in webhooks(render(chosen)).values():
            assert ("kubernetes.io/metadata.name", "NotIn", exempt) in expressions(webhook)


def test_a_default_pool_takes_in_unlabelled_namespaces() -> None:
    rendered = render({"defaultPool": "x"})
    for webhook in webhooks(rendered).values():
        assert {("agentpool", "Exists"), ("agentpool", "DoesNotExist")}.isdisjoint(
            e for e in expressions(webhook) if len(e) == 2
        )
    arguments = rendered["Deployment"]["spec"]["template"]["spec"]["containers"][1]["args"]
    assert not [a for a in arguments if a.startswith("--namespace-selector")]


def test_declared_pools_bring_the_warning_for_namespaces() -> None:
    namespaces = webhooks(render({"pools": {"a": {}, "b": {}}}))["namespaces"]
    assert namespaces["failurePolicy"] == "Ignore"
    assert ("agentpool", "NotIn", ["", "a", "b"]) in expressions(namespaces)
    assert "namespaces" not in webhooks(render())


def test_the_embedded_cluster_reaches_opa_by_url() -> None:
    rendered = render(webhook_url="https://127.0.0.1:1/")
    for webhook in webhooks(rendered).values():
        assert webhook["clientConfig"].keys() == {"caBundle", "url"}
        assert webhook["clientConfig"]["url"] == "https://127.0.0.1:1/intents/node-pool"
    assert rendered["Deployment"]["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("package", "requests", "name"),
    [
        ("sample", ["{REST}", "{REST}"], "sample.fairlead.dev"),
        ("sample", ["{name: a, REST}", "{name: a, REST}"], "a.sample.fairlead.dev"),
    ],
)
def test_two_requests_cannot_have_the_same_name(
    tmp_path: Path, package: str, requests: list[str], name: str
) -> None:
    (tmp_path / package).mkdir()
    rest = "kinds: [v1/Pod], operations: [CREATE]"
    listed = ", ".join(request.replace("REST", rest) for request in requests)
    (tmp_path / package / f"{package}.rego").write_text(f"package {package}\n")
    (tmp_path / package / "intent.yaml").write_text(f"requests: [{listed}]\n")
    with pytest.raises(UsageError, match=f"would have the name {name} twice"):
        render({"policies": [str(tmp_path)]})
