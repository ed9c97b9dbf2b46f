"""The manifests of OPA's pods: containers, arguments, probes and security."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import render

from fairlead.deployment import manifests, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def containers(**more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """OPA and its sidecar."""
    opa, sidecar = render(**more)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return opa, sidecar


def test_each_container_mounts_only_what_it_needs() -> None:
    spec = render()["Deployment"]["spec"]["template"]["spec"]
    mounts = {c["name"]: {m["name"] for m in c["volumeMounts"]} for c in spec["containers"]}
    assert mounts == {
        "opa": {"tls", "authz"},
        "sync": {"tls", "token", "service-account"},
    }
    assert spec["automountServiceAccountToken"] is False

    spec = render(sidecar=sidecars.KUBE_MGMT)["Deployment"]["spec"]["template"]["spec"]
    mounts = {c["name"]: {m["name"] for m in c["volumeMounts"]} for c in spec["containers"]}
    assert mounts == {
        "opa": {"tls", "authz"},
        "kube-mgmt": {"ca", "token", "service-account"},
    }
    (ca,) = [volume["secret"] for volume in spec["volumes"] if volume["name"] == "ca"]
    assert [item["key"] for item in ca["items"]] == ["ca.crt"]


def test_opa_answers_others_at_a_port_with_limits_and_its_sidecar_on_loopback() -> None:
    """The ports are the same with each sidecar."""
    for sidecar in map(sidecars.SIDECARS.__getitem__, sidecars.BESIDE_OPA):
        rendered = render(sidecar=sidecar)
        opa, beside = rendered["Deployment"]["spec"]["template"]["spec"]["containers"]
        assert [argument for argument in opa["args"] if argument.startswith("--addr")] == [
            "--addr=127.0.0.1:8181"
        ]
        assert opa["ports"] == [
            {"name": rendered["Service"]["spec"]["ports"][0]["targetPort"], "containerPort": 8443}
        ]
        assert "--set=plugins.fairlead.listen=:8443" in opa["args"]
        assert opa["image"] == Settings().images.opa == Settings().images.fairlead
        assert opa["command"] == ["/usr/local/bin/fairlead-opa"]
        assert {"name": "GOMEMLIMIT", "value": "576MiB"} in opa["env"]
        assert opa["resources"]["limits"] == {"memory": "640Mi"}
        # OPA asks sync until it ends; kube-mgmt would report an OPA that ends before it.
        order = (opa, beside) if sidecar.look_up else (beside, opa)
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
    for container, port, path in (
        (opa, "https", "/health"),
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
        PolicySet.load(settings), Credentials.fresh(), sidecar=sidecar
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


def test_opa_collects_its_garbage_in_time_for_its_memory_limit() -> None:
    opa = render()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    limits = {variable["name"]: variable["value"] for variable in opa["env"]}
    assert opa["resources"]["limits"] == {"memory": "640Mi"}
    assert limits["GOMEMLIMIT"] == "576MiB"
    assert "--set=server.decoding.gzip.max_length=1" in opa["args"]
