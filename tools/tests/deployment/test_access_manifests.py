"""The manifests of guards, roles and the network policy."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import every, render

from fairlead.deployment import controller, manifests, names, sidecars
from fairlead.deployment.controller import audited
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import GUARDS, OBJECTS_WEBHOOK
from fairlead.operations import drift
from fairlead.policy.policy_set import PolicySet
from fairlead.settings import access as settings_access
from fairlead.settings.models import Settings

_REPORTS = ("reports", "clusterreports", "policyreports", "clusterpolicyreports")


def test_each_guard_fails_closed_and_denies_but_the_one_that_only_warns() -> None:
    objects = every()
    guards = {
        name: o["spec"]
        for (kind, name), o in objects.items()
        if kind == "ValidatingAdmissionPolicy"
    }
    bindings = {
        name: o["spec"]
        for (kind, name), o in objects.items()
        if kind == "ValidatingAdmissionPolicyBinding"
    }
    assert {name: spec["policyName"] for name, spec in bindings.items()} == {
        name: name for name in guards
    }
    assert {
        name: (spec["failurePolicy"], *bindings[name]["validationActions"])
        for name, spec in guards.items()
    } == {
        "fairlead-objects": ("Fail", "Deny"),
        "fairlead-cluster-objects": ("Fail", "Deny"),
        "fairlead-exceptions": ("Fail", "Deny"),
        "fairlead-pool-label": ("Fail", "Deny"),
        "fairlead-node-labels": ("Fail", "Deny"),
        "fairlead-exempt": ("Ignore", "Warn"),
    }
    for name, spec in guards.items():
        reasons = [validation.get("reason") for validation in spec["validations"]]
        assert reasons == [None if name == "fairlead-exempt" else "Forbidden"]


def test_all_that_is_in_our_namespace_is_guarded_but_what_is_named() -> None:
    constraints = every()["ValidatingAdmissionPolicy", "fairlead-objects"]["spec"][
        "matchConstraints"
    ]
    whole, itself = constraints["resourceRules"]
    assert {key: whole[key] for key in ("apiGroups", "apiVersions", "operations", "resources")} == {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["*/*"],
    }
    assert itself["resources"] == ["namespaces", "namespaces/*"]
    exempt = [
        (rule["apiGroups"], rule["resources"]) for rule in constraints["excludeResourceRules"]
    ]
    assert exempt == [
        ([""], ["events", "pods/eviction", "pods/status"]),
        (["events.k8s.io"], ["events"]),
        (["authorization.k8s.io"], ["localsubjectaccessreviews"]),
    ]


def test_the_pool_label_is_guarded_where_settings_name_who_sets_it_if_nobody() -> None:
    def guarded(chosen: dict[str, Any]) -> str:
        guard = every(chosen)["ValidatingAdmissionPolicy", "fairlead-pool-label"]
        return str(guard["spec"]["matchConditions"][0]["expression"])

    assert guarded({}) == "false"
    assert guarded({"poolAdmins": []}) == guarded({"poolAdmins": ["a"]}) == "true"


def test_groups_get_what_settings_grant_them_and_lose_it_again() -> None:
    def groups(chosen: dict[str, Any]) -> list[list[str]]:
        names = ("fairlead-admin", "fairlead-pool-admin")
        return [
            [
                subject["name"]
                for subject in every(chosen)["ClusterRoleBinding", name].get("subjects", ())
            ]
            for name in names
        ]

    assert groups({}) == [[], []]
    assert groups({"admins": ["a", "b"], "poolAdmins": ["c"]}) == [["a", "b"], ["c"]]


def test_no_role_has_a_wildcard_and_none_writes_more_than_a_status() -> None:
    roles = {
        name: o["rules"] for (kind, name), o in every().items() if kind in ("Role", "ClusterRole")
    }
    assert roles.keys() == {
        "opa",
        "fairlead-opa",
        "fairlead-admin",
        "fairlead-pool-admin",
        "fairlead-exception-admin",
        "fairlead-controller",
    }
    for name in ("opa", "fairlead-opa"):
        for rule in roles[name]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            writes = set(rule["verbs"]) - {"get", "list", "watch"}
            assert writes == ({"patch"} if rule["resources"] == ["configmaps"] else set())


def test_the_network_policy_lets_in_what_is_served_and_out_what_watches() -> None:
    def ports(chosen: dict[str, Any], **more: Any) -> tuple[list[int], list[int]]:
        spec = render(chosen, **more)["NetworkPolicy"]["spec"]
        assert (spec["podSelector"], spec["policyTypes"]) == ({}, ["Ingress", "Egress"])
        into, out = (
            [port["port"] for port in spec[way][0]["ports"]] for way in ("ingress", "egress")
        )
        return into, out

    assert ports({}) == ([8443], [443, 6443, 8443, 16443])
    logged = render({"decisionLogs": {"service": {"url": "https://logs.example"}}})[
        "NetworkPolicy"
    ]["spec"]["egress"]
    assert logged[2:] == [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP"}]}]
    assert ports({"apiServerPorts": [7443]}, sidecar=sidecars.KUBE_MGMT) == ([8443], [7443])
    unkept = {"apiServerPorts": [7443], "certificates": "cert-manager"}
    assert ports(unkept, sidecar=sidecars.KUBE_MGMT) == ([8443], [7443])


def test_the_network_policy_lets_the_named_networks_alone_ask_opa() -> None:
    chosen = {"apiServerNetworks": ["10.0.0.0/24", "fd00::/64"]}
    opa, health = render(chosen)["NetworkPolicy"]["spec"]["ingress"]
    assert [port["port"] for port in opa["ports"]] == [8443]
    networks = [{"ipBlock": {"cidr": "10.0.0.0/24"}}, {"ipBlock": {"cidr": "fd00::/64"}}]
    # the last is the controller
    assert opa["from"] == [*networks, {"podSelector": {}}]
    assert health == {"ports": [{"protocol": "TCP", "port": port} for port in (8444, 8445)]}
    by_others = {**chosen, "certificates": "cert-manager"}
    alone, health = render(by_others, sidecar=sidecars.KUBE_MGMT)["NetworkPolicy"]["spec"][
        "ingress"
    ]
    assert alone == opa
    assert health == {"ports": [{"protocol": "TCP", "port": 8445}]}


@pytest.mark.parametrize("by", ["fairlead", "cert-manager"])
@pytest.mark.parametrize("sidecar", sidecars.SIDECARS.values(), ids=list(sidecars.SIDECARS))
def test_the_controller_may_write_what_it_renews_and_by_name(
    sidecar: sidecars.Sidecar, by: str
) -> None:
    settings = Settings.model_validate({"certificates": by})
    rendered = manifests.render_objects(
        PolicySet.load(settings), Credentials.fresh(), sidecar=sidecar
    )
    by_name = {(o["kind"], o["metadata"]["name"]): o for o in rendered}
    writes = {
        (resource, *rule.get("resourceNames", [None])): sorted(set(rule["verbs"]) - {"get", "list"})
        for kind in ("Role", "ClusterRole")
        for rule in by_name[kind, "fairlead-controller"]["rules"]
        for resource in rule["resources"]
    }
    renews = by == "fairlead"
    tokens = ("opa-token", "opa-token-placement", "opa-token-access")
    restores = ["create", "patch"]
    expected: dict[tuple[str | None, ...], list[str]] = {
        ("secrets", "opa-tls", *tokens): restores if renews else [],
        **({} if renews else {("secrets", *tokens): restores}),
        ("pods", None): [],
        (
            *("leases", "fairlead-keeper", "fairlead-controller", "fairlead-lifecycle"),
            "fairlead-findings",
        ): restores,
        ("configmaps", None): ["create", "delete", "patch"],
        ("events", None): ["create"],
        ("deployments", "opa"): ["patch"] if renews and not sidecar.rereads else [],
        ("mutatingwebhookconfigurations", "fairlead", OBJECTS_WEBHOOK): restores,
        ("validatingwebhookconfigurations", "fairlead", OBJECTS_WEBHOOK): restores,
        ("validatingadmissionpolicies", *GUARDS): restores,
        ("validatingadmissionpolicybindings", *GUARDS): restores,
        ("fairleads", None): ["watch"],
        ("policyexceptions", None): ["watch"],
        ("customresourcedefinitions", None): ["watch"],
        ("policies", None): ["administer"],
        ("fairleads/status", None): ["patch"],
        ("policies/status", None): ["patch"],
        **{(resource, None): [] for names in audited().values() for resource in names},
        **{(resource, None): ["create", "delete", "patch"] for resource in _REPORTS},
        ("policyexceptions/status", None): ["patch"],
    }
    assert writes == expected
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        (subject,) = by_name[kind, "fairlead-controller"]["subjects"]
        assert subject["name"] == "fairlead-controller"
    (container,) = by_name["Deployment", "fairlead-controller"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert renews == ("--certificate-life=90d" in container["args"])
    assert ("--roll-out" in container["args"]) == (renews and not sidecar.rereads)


def test_the_controller_of_access_may_bind_what_the_settings_name_and_no_more() -> None:
    def rights(access: object) -> list[dict[str, Any]]:
        rules: list[dict[str, Any]] = every({"access": access})["ClusterRole", "fairlead-access"][
            "rules"
        ]
        return rules

    def bound(access: object) -> list[Any]:
        return [
            rule.get("resourceNames", "all") for rule in rights(access) if "bind" in rule["verbs"]
        ]

    assert bound(True) == []
    assert bound({"roles": ["reader", "view"]}) == [["reader", "view"]]
    assert bound({"roles": ["reader", "*"]}) == ["all"]
    for rule in rights({"roles": ["*"]}):
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert not {"escalate", "impersonate", "update"} & set(rule["verbs"])
    reviews = [rule for rule in rights(True) if rule["resources"] == ["subjectaccessreviews"]]
    assert reviews
    assert "subjectaccessreviews" not in str(rights({"recheck": False}))


def test_what_ends_access_beside_the_controller_may_list_and_delete_bindings_alone() -> None:
    objects = every({"access": {"roles": ["*"]}})
    (binding,) = [
        manifest
        for (kind, _), manifest in objects.items()
        if kind in ("RoleBinding", "ClusterRoleBinding")
        and any(each["name"] == names.ACCESS_ENDS for each in manifest.get("subjects") or ())
    ]
    rules = objects["ClusterRole", binding["roleRef"]["name"]]["rules"]
    assert {tuple(rule["resources"]): rule["verbs"] for rule in rules} == {
        ("rolebindings", "clusterrolebindings"): ["list", "delete"],
        ("events",): ["create"],
    }


def test_each_process_of_access_has_the_limit_that_tests_keep_it_to() -> None:
    objects = every({"access": True})
    for name, mebibytes in controller.MEMORY.items():
        (container,) = objects["Deployment", name]["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {"memory": f"{mebibytes}Mi"}


def test_what_a_deployment_without_the_controller_deletes_is_what_one_with_it_has() -> None:
    def own(access: object) -> set[tuple[str, str]]:
        return set(every({"access": access}))

    elsewhere = own({"controller": "system:serviceaccount:metacontroller:metacontroller"})
    # Guards go as superseded.
    ours = {each for each in own(True) - elsewhere if each[0] not in drift.GUARDS}
    assert ours == {(kind, name) for _, kind, name, _ in controller.OF_ACCESS}
    account = settings_access.OWN_CONTROLLER.split(":")
    assert account[2:] == [names.NAMESPACE, names.CONTROLLER]
