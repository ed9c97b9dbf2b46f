"""The manifests, as far as an API server would not notice an error."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.common.progress import Progress
from fairlead.deployment import manifests, sidecars
from fairlead.deployment import render as render_output
from fairlead.deployment.credentials import Credentials
from fairlead.policy import bundles
from fairlead.settings.models import Settings


def render(chosen: dict[str, Any] | None = None, **more: Any) -> dict[str, dict[str, Any]]:
    """The first object of each kind."""
    settings = Settings.model_validate(chosen or {})
    rendered = manifests.render_objects(
        settings, bundles.bundle(settings), Credentials.fresh(), **more
    )
    first_of_kind: dict[str, dict[str, Any]] = {}
    for manifest in rendered:
        first_of_kind.setdefault(manifest["kind"], manifest)
    return first_of_kind


def expressions(webhook: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(e.values()) for e in webhook["namespaceSelector"]["matchExpressions"]]


def webhooks(rendered: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The webhooks of both kinds, by the first part of their names; the mutating one comes
    first.
    """
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return {
        webhook["name"].removesuffix(".fairlead.dev"): webhook
        for kind in kinds
        for webhook in rendered[kind]["webhooks"]
    }


UNMAPPED = ("opted-out-daemonsets", "unlabelled-daemonsets")


def test_the_webhooks_fail_closed_and_ask_for_mapped_namespaces_only() -> None:
    rendered = webhooks(render())
    policies = {name: webhook["failurePolicy"] for name, webhook in rendered.items()}
    ours = {"node-pool": "Fail", "daemonsets": "Fail", "final-state": "Fail", "workloads": "Ignore"}
    assert policies == {**ours, **dict.fromkeys(UNMAPPED, "Ignore")}
    for name, webhook in rendered.items():
        assert webhook["admissionReviewVersions"] == ["v1"]
        if name not in UNMAPPED:
            assert ("agentpool", "Exists") in expressions(webhook)
            assert ("agentpool", "NotIn", [""]) in expressions(webhook)
        assert webhook["clientConfig"]["service"]["name"] == "opa"
        assert webhook["matchConditions"]
    assert {
        name
        for name, webhook in rendered.items()
        if webhook.get("reinvocationPolicy") == "IfNeeded"
    } == {
        "node-pool",
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
        "node-pool": {"pods"},
        "final-state": {"pods"},
        "daemonsets": {"daemonsets"},
        "workloads": workloads,
    }
    assert {name: set(webhook["rules"][0]["resources"]) for name, webhook in rendered.items()} == {
        **resources,
        "namespaces": {"namespaces"},
        **{name: {"daemonsets"} for name in UNMAPPED},
    }
    for webhook in rendered.values():
        (rule,) = webhook["rules"]
        assert (rule["operations"], rule["apiVersions"]) == (["CREATE", "UPDATE"], ["v1"])
        assert rule["scope"] == ("Cluster" if webhook is rendered["namespaces"] else "Namespaced")
        assert webhook["sideEffects"] == "None"
        assert webhook["matchPolicy"] == "Equivalent"


def test_nobody_waits_longer_than_a_second_for_a_warning_or_without_a_pool() -> None:
    rendered = webhooks(render({"pools": {"cheap": {}}, "timeoutSeconds": 3}))
    timeouts = {name: webhook["timeoutSeconds"] for name, webhook in rendered.items()}
    decided = {"node-pool": 3, "daemonsets": 3, "final-state": 3}
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
    ours = {
        "node-pool": "Fail",
        "daemonsets": "Fail",
        "final-state": "Ignore",
        "workloads": "Ignore",
    }
    assert trial == {**ours, **dict.fromkeys(UNMAPPED, "Ignore")}


def test_updates_of_tolerations_are_asked_about_where_a_pool_limits_them() -> None:
    for allowed, asked in ((None, False), ([], True), ([{"key": "a"}], True)):
        rendered = webhooks(render({"pools": {"a": {"allowedTolerations": allowed}, "b": {}}}))
        for name in ("node-pool", "final-state"):
            condition = rendered[name]["matchConditions"][0]
            assert (
                "object.spec.?tolerations != oldObject.spec.?tolerations" in condition["expression"]
            ) == asked


def test_what_is_too_large_is_left_out_by_each_webhook_and_refused_where_anything_is() -> None:
    def guard(chosen: dict[str, Any]) -> list[tuple[str, str]]:
        objects = every(chosen)
        names = ("fairlead-pod-size", "fairlead-daemonset-size")
        return [
            (
                objects["ValidatingAdmissionPolicy", name]["spec"]["failurePolicy"],
                *objects["ValidatingAdmissionPolicyBinding", name]["spec"]["validationActions"],
            )
            for name in names
        ]

    def asked(chosen: dict[str, Any]) -> set[str]:
        rendered = webhooks(render({"pools": {"a": {}}, **chosen}))
        conditions = {
            name: [condition["name"] for condition in webhook["matchConditions"]]
            for name, webhook in rendered.items()
        }
        return {name for name, names in conditions.items() if "small-enough" in names}

    # The final state is asked of after the policy that refuses; where that only warns, it is to
    # leave it out itself.
    unmapped = {"opted-out-daemonsets", "unlabelled-daemonsets"}
    assert asked({}) == {"node-pool", "daemonsets", "namespaces", "workloads", *unmapped}
    assert asked({"enforcement": "warn"}) == {*asked({}), "final-state"}
    assert guard({}) == guard({"failurePolicy": "Ignore"}) == [("Fail", "Deny")] * 2
    assert guard({"enforcement": "warn"}) == [("Ignore", "Warn")] * 2


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
    rendered = render(webhook_url="https://127.0.0.1:1/", replicas=0)
    for webhook in webhooks(rendered).values():
        assert webhook["clientConfig"].keys() == {"caBundle", "url"}
    assert rendered["Deployment"]["spec"]["replicas"] == 0


def test_each_container_mounts_only_what_it_needs() -> None:
    spec = render()["Deployment"]["spec"]["template"]["spec"]
    mounts = {c["name"]: {m["name"] for m in c["volumeMounts"]} for c in spec["containers"]}
    assert mounts == {
        "opa": {"tls", "authz"},
        "proxy": {"tls"},
        "sync": {"tls", "token", "service-account"},
    }
    assert spec["automountServiceAccountToken"] is False

    spec = render(sidecar=sidecars.KUBE_MGMT)["Deployment"]["spec"]["template"]["spec"]
    mounts = {c["name"]: {m["name"] for m in c["volumeMounts"]} for c in spec["containers"]}
    assert mounts == {
        "opa": {"tls", "authz"},
        "proxy": {"tls"},
        "kube-mgmt": {"ca", "token", "service-account"},
    }
    (ca,) = [volume["secret"] for volume in spec["volumes"] if volume["name"] == "ca"]
    assert [item["key"] for item in ca["items"]] == ["ca.crt"]


def containers(**more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """OPA and its sidecar."""
    opa, _, sidecar = render(**more)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return opa, sidecar


def test_opa_listens_on_loopback_and_others_reach_its_proxy() -> None:
    """The ports are the same with each sidecar. The proxy limits callers, and ends before its
    OPA.
    """
    for sidecar in sidecars.SIDECARS.values():
        rendered = render(sidecar=sidecar)
        opa, proxy, beside = rendered["Deployment"]["spec"]["template"]["spec"]["containers"]
        assert [argument for argument in opa["args"] if argument.startswith("--addr")] == [
            "--addr=127.0.0.1:8181"
        ]
        assert "ports" not in opa
        assert proxy["ports"] == [
            {"name": rendered["Service"]["spec"]["ports"][0]["targetPort"], "containerPort": 8443}
        ]
        assert {"--listen=:8443", "--opa-url=https://127.0.0.1:8181"} <= set(proxy["args"])
        assert proxy["image"] == Settings().images.fairlead
        assert proxy["env"] == [{"name": "GOMEMLIMIT", "value": "172MiB"}]
        assert proxy["resources"]["limits"] == {"memory": "192Mi"}
        # OPA asks sync until it ends; kube-mgmt would report an OPA that ends before it.
        order = (proxy, opa, beside) if sidecar.look_up else (proxy, beside, opa)
        sleeps = [container["lifecycle"]["preStop"]["sleep"]["seconds"] for container in order]
        assert sleeps == sorted(set(sleeps))


def test_opa_asks_the_sidecar_for_namespaces_only_where_that_answers() -> None:
    opa, sync = containers()
    assert {e["name"]: e["value"] for e in opa["env"]}["FAIRLEAD_NAMESPACES_URL"].endswith(
        ":8444/v1/namespaces"
    )
    assert "--health-endpoint=0.0.0.0:8444" in sync["args"]
    opa, _ = containers(sidecar=sidecars.KUBE_MGMT)
    assert {"name": "FAIRLEAD_MAPPED_ONLY", "value": "true"} in opa["env"]
    assert "FAIRLEAD_NAMESPACES_URL" not in {variable["name"] for variable in opa["env"]}


def test_opa_and_its_sidecar_are_restarted_within_20_seconds_of_hanging() -> None:
    """An open port does not show a hung process; and an API server that is away must not cause
    restarts.
    """
    opa, sync = containers()
    proxy = render()["Deployment"]["spec"]["template"]["spec"]["containers"][1]
    for container, port, path in (
        (opa, 8443, "/health"),
        (proxy, "https", "/live"),
        (sync, "https-sync", "/live"),
    ):
        probe = container["livenessProbe"]
        assert probe["httpGet"] == {"scheme": "HTTPS", "path": path, "port": port}
        looks = probe["failureThreshold"] * probe["periodSeconds"]
        assert looks + probe["timeoutSeconds"] + probe["terminationGracePeriodSeconds"] <= 22
        assert container["startupProbe"]["failureThreshold"] >= 30


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS.values(), ids=sidecars.SIDECARS)
def test_a_probe_names_a_port_of_its_own_container_alone(sidecar: sidecars.Sidecar) -> None:
    """A kubelet resolves a port's name only in the same container: `strconv.Atoi: parsing "https":
    invalid syntax`.
    """
    settings = Settings()
    manifest_list = manifests.render_objects(
        settings, bundles.bundle(settings), Credentials.fresh(), sidecar=sidecar
    )
    templates = [each["spec"]["template"] for each in manifest_list if each["kind"] == "Deployment"]
    for container in (each for template in templates for each in template["spec"]["containers"]):
        names = {port["name"] for port in container.get("ports", ())}
        probes = [
            container[key]
            for key in ("startupProbe", "livenessProbe", "readinessProbe")
            if key in container
        ]
        probed = [probe["httpGet"]["port"] for probe in probes]
        assert probed, f"{container['name']} has no probe"
        assert {port for port in probed if isinstance(port, str)} <= names, container["name"]


def test_kube_mgmt_verifies_opa_and_is_restarted_when_that_is_not_ready() -> None:
    _, kube_mgmt = containers(sidecar=sidecars.KUBE_MGMT)
    assert kube_mgmt["image"] == Settings().images.kube_mgmt
    assert "--opa-ca-file=/run/fairlead/tls/ca.crt" in kube_mgmt["args"]
    assert not [argument for argument in kube_mgmt["args"] if "insecure" in argument]
    for probe in ("startupProbe", "livenessProbe"):
        asked = {"scheme": "HTTPS", "path": "/health/ready", "port": 8443}
        assert kube_mgmt[probe]["httpGet"] == asked
    assert (
        kube_mgmt["livenessProbe"]["failureThreshold"]
        < kube_mgmt["startupProbe"]["failureThreshold"]
    )
    # A kubelet that restarts a container waits for its preStop, unless the probe says for how long.
    drain = kube_mgmt["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert kube_mgmt["livenessProbe"]["terminationGracePeriodSeconds"] <= 2 < drain


def test_only_a_sidecar_that_answers_look_ups_may_get_a_namespace() -> None:
    assert render()["ClusterRole"]["rules"][0]["verbs"] == ["get", "list", "watch"]
    assert render(sidecar=sidecars.KUBE_MGMT)["ClusterRole"]["rules"][0]["verbs"] == [
        "list",
        "watch",
    ]


def test_other_credentials_take_other_pods_where_the_sidecar_reads_them_once() -> None:
    def annotations(sidecar: sidecars.Sidecar) -> list[Any]:
        made = [
            render(sidecar=sidecar)["Deployment"]["spec"]["template"]["metadata"] for _ in range(2)
        ]
        return [metadata.get("annotations") for metadata in made]

    assert annotations(sidecars.SYNC) == [None, None]
    first, second = annotations(sidecars.KUBE_MGMT)
    assert first.keys() == second.keys()
    assert first != second


def every(chosen: dict[str, Any] | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    """All objects by kind and name."""
    settings = Settings.model_validate(chosen or {})
    rendered = manifests.render_objects(settings, bundles.bundle(settings), Credentials.fresh())
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in rendered}


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
        "fairlead-pool-label": ("Fail", "Deny"),
        "fairlead-node-labels": ("Fail", "Deny"),
        "fairlead-exempt": ("Ignore", "Warn"),
        "fairlead-pod-size": ("Fail", "Deny"),
        "fairlead-daemonset-size": ("Fail", "Deny"),
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
            [subject["name"] for subject in every(chosen)["ClusterRoleBinding", name]["subjects"]]
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
        "fairlead-keeper",
    }
    for name in ("opa", "fairlead-opa"):
        for rule in roles[name]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            writes = set(rule["verbs"]) - {"get", "list", "watch"}
            assert writes == ({"patch"} if rule["resources"] == ["configmaps"] else set())


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS.values(), ids=list(sidecars.SIDECARS))
def test_pods_are_hardened(sidecar: sidecars.Sidecar) -> None:
    rendered = render(sidecar=sidecar)
    spec = rendered["Deployment"]["spec"]["template"]["spec"]
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    for container in spec["containers"]:
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (
            True,
            False,
        )
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}
    assert rendered["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_the_network_policy_lets_in_what_is_served_and_out_what_watches() -> None:
    def ports(chosen: dict[str, Any], **more: Any) -> tuple[list[int], list[int]]:
        spec = render(chosen, **more)["NetworkPolicy"]["spec"]
        assert (spec["podSelector"], spec["policyTypes"]) == ({}, ["Ingress", "Egress"])
        into, out = (
            [port["port"] for port in spec[way][0]["ports"]] for way in ("ingress", "egress")
        )
        return into, out

    assert ports({}) == ([8443, 8444], [443, 6443, 8443, 16443])
    logged = render({"decisionLogs": {"service": {"url": "https://logs.example"}}})[
        "NetworkPolicy"
    ]["spec"]["egress"]
    assert logged[2:] == [{"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP"}]}]
    assert ports({"apiServerPorts": [7443]}, sidecar=sidecars.KUBE_MGMT) == ([8443, 8444], [7443])
    unkept = {"apiServerPorts": [7443], "certificates": "cert-manager"}
    assert ports(unkept, sidecar=sidecars.KUBE_MGMT) == ([8443], [7443])


def test_the_network_policy_lets_the_named_networks_alone_ask_opa() -> None:
    chosen = {"apiServerNetworks": ["10.0.0.0/24", "fd00::/64"]}
    opa, sync = render(chosen)["NetworkPolicy"]["spec"]["ingress"]
    assert [port["port"] for port in opa["ports"]] == [8443]
    networks = [{"ipBlock": {"cidr": "10.0.0.0/24"}}, {"ipBlock": {"cidr": "fd00::/64"}}]
    # the last is what renews the certificate
    assert opa["from"] == [*networks, {"podSelector": {}}]
    assert sync == {"ports": [{"protocol": "TCP", "port": 8444}]}
    by_others = {**chosen, "certificates": "cert-manager"}
    (alone,) = render(by_others, sidecar=sidecars.KUBE_MGMT)["NetworkPolicy"]["spec"]["ingress"]
    assert alone == {**opa, "from": networks}


def test_opa_collects_its_garbage_in_time_for_its_memory_limit() -> None:
    opa = render()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    limits = {variable["name"]: variable["value"] for variable in opa["env"]}
    assert opa["resources"]["limits"] == {"memory": "512Mi"}
    assert limits["GOMEMLIMIT"] == "460MiB"
    assert "--set=server.decoding.gzip.max_length=1" in opa["args"]


def test_what_is_beyond_the_basic_plane_is_rendered_to_the_letter(tmp_path: Path) -> None:
    emoji = "\U0001f692 \\ud83d\\ude92 \x85"
    policies = tmp_path / "policies"
    shutil.copytree(bundles.folder(), policies)
    with (policies / "main.rego").open("a", encoding="utf-8") as module:
        module.write(f"\n# {emoji[:-1]}\n")
    settings = Settings(admins=[emoji], contact="\U0001f692")
    bundle = bundles.bundle(settings, policies)
    rendered = manifests.render_objects(settings, bundle, Credentials.fresh())
    assert [
        subject["name"]
        for m in rendered
        if m["kind"] == "ClusterRoleBinding"
        for subject in m["subjects"]
    ].count(emoji) == 1
    (config_map,) = [m for m in rendered if m["kind"] == "ConfigMap"]
    assert config_map == manifests.policies(settings, bundle)
    assert list(yaml.safe_load_all(manifests.to_yaml(rendered))) == rendered


def test_only_the_secret_holds_the_token() -> None:
    settings, credentials = Settings(), Credentials.fresh()
    rendered = manifests.render_objects(settings, bundles.bundle(settings), credentials)
    for manifest in rendered:
        text = yaml.safe_dump(manifest)
        encoded = base64.b64encode(credentials.token.encode()).decode()
        assert credentials.token not in text
        assert (encoded in text) == (manifest["metadata"]["name"] == "opa-token")


def test_the_output_of_render_is_what_kubectl_reads() -> None:
    documents = list(
        yaml.safe_load_all(
            manifests.to_yaml(render_output.render(Settings(), progress=Progress()).objects)
        )
    )
    kinds = [document["kind"] for document in documents]
    assert (kinds[0], kinds[-1], kinds.count("Deployment")) == (
        "Namespace",
        "ValidatingWebhookConfiguration",
        2,
    )
    config_map = next(d for d in documents if d["kind"] == "ConfigMap")
    assert bundles.revision(config_map["data"]) == bundles.bundle(Settings()).revision


@pytest.mark.parametrize(
    ("named", "chosen"), [(None, "kube-mgmt"), ("kube-mgmt", "kube-mgmt"), ("sync", "sync")]
)
def test_where_images_can_be_pulled_kube_mgmt_is_the_default(
    named: str | None, chosen: str
) -> None:
    documents = yaml.safe_load_all(
        manifests.to_yaml(
            render_output.render(Settings(), sidecar=named, progress=Progress()).objects
        )
    )
    deployments = [d for d in documents if d["kind"] == "Deployment"]
    containers = [
        c["name"] for d in deployments for c in d["spec"]["template"]["spec"]["containers"]
    ]
    assert containers == ["opa", "proxy", chosen] + ["keeper"] * (chosen == "kube-mgmt")


@pytest.mark.parametrize("damage", ["token", "tls.crt", "ca.crt"])
def test_damaged_credentials_are_made_anew(damage: str) -> None:
    good = Credentials.fresh()
    token = {"token": base64.b64encode(good.token.encode()).decode()}
    tls = {
        "tls.crt": base64.b64encode(good.certificate).decode(),
        "tls.key": base64.b64encode(good.key).decode(),
        "ca.crt": base64.b64encode(good.ca).decode(),
    }
    assert Credentials.kept(token, tls) == good
    assert Credentials.kept(None, tls) is None
    assert (
        Credentials.kept(
            {k: v for k, v in token.items() if k != damage},
            {k: v for k, v in tls.items() if k != damage},
        )
        is None
    )


def test_credentials_show_no_secret() -> None:
    credentials = Credentials.fresh()
    assert credentials.token not in repr(credentials)
    assert "PRIVATE" not in repr(credentials)
    assert len(base64.urlsafe_b64decode(credentials.token + "=")) * 8 == 256


@pytest.mark.parametrize("chosen", [{}, {"defaultPool": "x", "pools": {"x": {}}}])
def test_a_push_applies_the_very_config_map_that_a_deployment_does(chosen: dict[str, Any]) -> None:
    settings = Settings.model_validate(chosen)
    assert render(chosen)["ConfigMap"] == manifests.policies(settings, bundles.bundle(settings))


@pytest.mark.parametrize(
    ("sidecar", "account"), [(sidecars.SYNC, "opa"), (sidecars.KUBE_MGMT, "fairlead-keeper")]
)
def test_what_renews_the_certificate_may_write_just_that_and_by_name(
    sidecar: sidecars.Sidecar, account: str
) -> None:
    settings = Settings()
    rendered = manifests.render_objects(
        settings, bundles.bundle(settings), Credentials.fresh(), sidecar=sidecar
    )
    by_name = {(o["kind"], o["metadata"]["name"]): o for o in rendered}
    writes = {
        (resource, *rule.get("resourceNames", [None])): sorted(set(rule["verbs"]) - {"get", "list"})
        for kind in ("Role", "ClusterRole")
        for rule in by_name[kind, "fairlead-keeper"]["rules"]
        for resource in rule["resources"]
    }
    rolling: dict[tuple[str, str | None], list[str]] = (
        {("deployments", "opa"): ["patch"]} if account != "opa" else {}
    )
    assert writes == {
        ("secrets", "opa-tls"): ["patch"],
        ("leases", "fairlead-keeper"): ["patch"],
        ("events", None): ["create"],
        ("pods", None): [],
        **rolling,
        ("mutatingwebhookconfigurations", "fairlead"): ["patch"],
        ("validatingwebhookconfigurations", "fairlead"): ["patch"],
    }
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert [subject["name"] for subject in by_name[kind, "fairlead-keeper"]["subjects"]] == [
            account
        ]


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS.values(), ids=list(sidecars.SIDECARS))
def test_who_does_not_renew_gets_no_right_to(sidecar: sidecars.Sidecar) -> None:
    settings = Settings.model_validate({"certificates": "cert-manager"})
    rendered = manifests.render_objects(
        settings, bundles.bundle(settings), Credentials.fresh(), sidecar=sidecar
    )
    bindings = [
        o
        for o in rendered
        if o["kind"].endswith("Binding") and o["metadata"]["name"] == "fairlead-keeper"
    ]
    assert [binding["subjects"] for binding in bindings] == [[], []]
    assert not [
        o
        for o in rendered
        if o["kind"] == "Deployment" and o["metadata"]["name"] == "fairlead-keeper"
    ]
    text = manifests.to_yaml(rendered)
    assert "--certificate-life" not in text
    assert "system:serviceaccount:fairlead:fairlead-keeper" not in text
